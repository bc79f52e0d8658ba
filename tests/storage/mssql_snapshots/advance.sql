-- advance
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @queues nvarchar(max) = @p1;
-- The open queues in the order of the worker, and the highest priority that waits in each: one seek for a queue.
DECLARE @queue TABLE (
    place int NOT NULL PRIMARY KEY,
    name nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    priority int NULL);
INSERT INTO @queue (place, name, priority)
SELECT q.place, q.name, (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name
        ORDER BY h.priority DESC)
FROM (
    SELECT CAST(j.[key] AS int) AS place, CAST(j.value AS nvarchar(510)) COLLATE Latin1_General_100_BIN2 AS name
    FROM OPENJSON(@queues) AS j) AS q
WHERE NOT EXISTS (
    SELECT 1 FROM chokaq_queue AS s WITH (FORCESEEK)
    WHERE s.name = q.name AND (s.is_paused = 1 OR s.is_active = 0));
DECLARE @pair TABLE (name nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL, priority int NOT NULL);
WHILE EXISTS (SELECT 1 FROM @queue AS q WHERE q.priority IS NOT NULL)
BEGIN
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE q.priority IS NOT NULL;
    UPDATE q SET priority = (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority < q.priority
        ORDER BY h.priority DESC)
    FROM @queue AS q WHERE q.priority IS NOT NULL;
END;
SELECT p.name, p.priority FROM @pair AS p;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    run_at,
    id,
    CASE
        WHEN due_at <= @now
        AND attempt = 0
        AND snooze_count = 0
        AND type IN (
            SELECT j.item COLLATE Latin1_General_100_BIN2
            FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
                item NVARCHAR(510) '$'
            ) AS j
        ) THEN 1
        ELSE 0
    END
FROM chokaq_job_hot WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE status = 0
    AND queue = @p2
    AND priority = @p3
    AND run_at > @now
    AND run_at <= DATEADD(day, @p4, DATEADD(second, @p5, DATEADD(microsecond, @p6, @now)))
ORDER BY run_at, id
OFFSET 0 ROWS FETCH NEXT @p7 ROWS ONLY;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    run_at,
    id,
    CASE
        WHEN due_at <= @now
        AND attempt = 0
        AND snooze_count = 0
        AND type IN (
            SELECT j.item COLLATE Latin1_General_100_BIN2
            FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
                item NVARCHAR(510) '$'
            ) AS j
        ) THEN 1
        ELSE 0
    END
FROM chokaq_job_hot WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE status = 0
    AND queue = @p2
    AND priority = @p3
    AND run_at > @now
    AND run_at <= DATEADD(day, @p4, DATEADD(second, @p5, DATEADD(microsecond, @p6, @now)))
    AND run_at >= @p7
    AND (run_at > @p8 OR id > @p9)
ORDER BY run_at, id
OFFSET 0 ROWS FETCH NEXT @p10 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT id
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND status = 0
    AND run_at > @now
    AND attempt = 0
    AND snooze_count = 0
ORDER BY id;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET run_at = due_at, updated_at = @now
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
