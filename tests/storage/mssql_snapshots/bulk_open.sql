-- bulk_open
SET NOCOUNT ON;
SELECT id FROM chokaq_bulk_operation WHERE state IN ('preparing', 'running') ORDER BY id;
GO
