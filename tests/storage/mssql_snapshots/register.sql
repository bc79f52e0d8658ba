-- register
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    host = @p1,
    pid = @p2,
    version = @p3,
    queues = @p4,
    concurrency = @p5,
    async_concurrency = @p6,
    state = @p7,
    busy = @p8,
    buffered = @p9,
    succeeded = @p10,
    failed = @p11,
    retried = @p12,
    conflicts = @p13,
    rss_mb = NULL,
    clock_offset = @p14,
    clock_doubt = @p15,
    last_seen = @now
OUTPUT inserted.desired_concurrency, inserted.stop_requested
FROM chokaq_worker AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p16;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    (SELECT COUNT(*) FROM chokaq_bulk_operation WHERE state IN ('preparing', 'running')),
    (SELECT COUNT(*) FROM chokaq_setting),
    (SELECT MAX(updated_at) FROM chokaq_setting),
    @now;
GO
COMMIT TRANSACTION
GO
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_worker (
    id,
    host,
    pid,
    version,
    queues,
    concurrency,
    async_concurrency,
    state,
    busy,
    buffered,
    succeeded,
    failed,
    retried,
    conflicts,
    rss_mb,
    clock_offset,
    clock_doubt,
    types,
    desired_concurrency,
    stop_requested,
    started_at,
    last_seen
)
SELECT
    @p1,
    @p2,
    @p3,
    @p4,
    @p5,
    @p6,
    @p7,
    @p8,
    @p9,
    @p10,
    @p11,
    @p12,
    @p13,
    @p14,
    NULL,
    @p15,
    @p16,
    NULL,
    NULL,
    @p17,
    @now,
    @now
WHERE NOT EXISTS (
        SELECT 1 FROM chokaq_worker WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK) WHERE id = @p18
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
