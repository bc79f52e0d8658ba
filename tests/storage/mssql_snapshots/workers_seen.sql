-- workers_seen
SET NOCOUNT ON;
SELECT id, last_seen FROM chokaq_worker;
GO
