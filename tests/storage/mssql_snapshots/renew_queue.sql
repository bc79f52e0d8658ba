-- renew_queue
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    max_workers = @p1,
    zombie_timeout = NULL,
    execution_timeout = @p2,
    window_start = @p3,
    window_end = @p4,
    window_zone = @p5,
    updated_at = @now
FROM chokaq_queue AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name = @p6 AND updated_by IS NULL;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
