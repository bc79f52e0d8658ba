-- bulk_fail
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE chokaq_bulk_operation
SET state = 'failed', message = @p1, ended_at = @now, updated_at = @now
WHERE id = @p2 AND state IN ('preparing', 'running');
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
