-- bulk_fail
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET state = 'failed', message = @p1, ended_at = @now, updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p2 AND state IN ('preparing', 'running');
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
