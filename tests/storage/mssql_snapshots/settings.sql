-- settings
SET NOCOUNT ON;
SELECT name, value FROM chokaq_setting;
GO
