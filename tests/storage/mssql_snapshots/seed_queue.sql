-- seed_queue
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_queue (
    name,
    is_paused,
    is_active,
    max_workers,
    zombie_timeout,
    execution_timeout,
    window_start,
    window_end,
    window_zone,
    updated_at
)
SELECT @p1, @p2, @p3, @p4, NULL, @p5, @p6, @p7, @p8, @now
WHERE NOT EXISTS (
        SELECT 1 FROM chokaq_queue WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK) WHERE name = @p9
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
