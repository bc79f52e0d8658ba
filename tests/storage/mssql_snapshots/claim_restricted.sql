-- claim_restricted: caps, blocked types, probes
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT name, max_workers
FROM chokaq_queue WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE name IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY name;
GO
SET NOCOUNT ON;
SELECT name
FROM chokaq_queue WITH (FORCESEEK)
WHERE name IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_queue (name, is_paused, is_active, updated_at)
SELECT @p1, @p2, @p3, @now
WHERE NOT EXISTS (
        SELECT 1 FROM chokaq_queue WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK) WHERE name = @p4
    );
SELECT @@ROWCOUNT;
GO
-- statement 4 again
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @queues nvarchar(max) = @p1;
SELECT q.name, (
    SELECT COUNT(*) FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.status IN (1, 2) AND h.queue = q.name COLLATE Latin1_General_100_BIN2)
FROM OPENJSON(@queues) WITH (name nvarchar(510) '$') AS q;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    type,
    state,
    failures,
    window_started_at,
    opened_at,
    open_until,
    probes,
    probe_successes,
    forced,
    @now
FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE type IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY type;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    type,
    state,
    failures,
    window_started_at,
    opened_at,
    open_until,
    probes,
    probe_successes,
    forced,
    @now
FROM chokaq_circuit WITH (FORCESEEK)
WHERE type IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY type;
GO
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
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @pairs nvarchar(max) = @p1,
    @crashes int = @p2;
SELECT due.id, due.queue, due.type, due.priority, due.run_at, due.deadline_at, due.due_at, @now
FROM (
    SELECT j.name COLLATE Latin1_General_100_BIN2 AS name, j.priority, j.most
    FROM OPENJSON(@pairs) WITH (name nvarchar(510) '$[0]', priority int '$[1]', most int '$[2]') AS j) AS p CROSS APPLY (
    SELECT TOP (p.most) h.id, h.queue, h.type, h.priority, h.run_at, h.deadline_at, h.due_at
    FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at <= @now
        AND h.crash_count <= @crashes
    ORDER BY h.run_at, h.id) AS due
ORDER BY due.run_at, due.id;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @ids nvarchar(max) = @p2;
UPDATE h SET status = CASE WHEN h.deadline_at < @now OR h.crash_count > 0 THEN 1 ELSE 2 END,
    attempt = h.attempt + CASE WHEN h.deadline_at < @now OR h.crash_count > 0 THEN 0 ELSE 1 END,
    started_at = CASE WHEN h.deadline_at < @now OR h.crash_count > 0 THEN h.started_at ELSE @now END,
    heartbeat_at = CASE WHEN h.deadline_at < @now OR h.crash_count > 0 THEN NULL ELSE @now END,
    worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now
OUTPUT inserted.id, inserted.queue, inserted.type, inserted.schema_version, inserted.payload, inserted.tags,
       inserted.priority, inserted.attempt, inserted.max_attempts, inserted.crash_count, inserted.snooze_count,
       inserted.claim_number, inserted.generation, inserted.created_by, inserted.created_at, inserted.started_at,
       inserted.run_at, inserted.due_at, inserted.deadline_at, inserted.headers, inserted.attempt_log,
       inserted.status, @now
FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = j.id COLLATE Latin1_General_100_BIN2;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @delays nvarchar(max) = @p1;
UPDATE h SET run_at = DATEADD(day, d.days, DATEADD(second, d.seconds, DATEADD(microsecond, d.microseconds, @now))), updated_at = @now
FROM OPENJSON(@delays) WITH (id nvarchar(26), days int, seconds int, microseconds int) AS d
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = d.id COLLATE Latin1_General_100_BIN2;
GO
-- statement 10 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    state = @p1,
    failures = @p2,
    window_started_at = @p3,
    opened_at = @p4,
    open_until = @p5,
    probes = @p6,
    probe_successes = @p7,
    updated_at = @now
FROM chokaq_circuit AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.type = @p8;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @pairs nvarchar(max) = @p1;
SELECT (
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM (
    SELECT j.name COLLATE Latin1_General_100_BIN2 AS name, j.priority, j.most
    FROM OPENJSON(@pairs) WITH (name nvarchar(510) '$[0]', priority int '$[1]', most int '$[2]') AS j) AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead);
GO
COMMIT TRANSACTION
GO
-- claim_restricted: into the buffer
BEGIN TRANSACTION
GO
-- statement 9 again
GO
-- statement 10 again
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @ids nvarchar(max) = @p2;
UPDATE h SET status = 1, worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now
OUTPUT inserted.id, inserted.queue, inserted.type, inserted.schema_version, inserted.payload, inserted.tags,
       inserted.priority, inserted.attempt, inserted.max_attempts, inserted.crash_count, inserted.snooze_count,
       inserted.claim_number, inserted.generation, inserted.created_by, inserted.created_at, inserted.started_at,
       inserted.run_at, inserted.due_at, inserted.deadline_at, inserted.headers, inserted.attempt_log,
       inserted.status, @now
FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = j.id COLLATE Latin1_General_100_BIN2;
GO
-- statement 15 again
GO
COMMIT TRANSACTION
GO
-- claim_restricted: from many queues
BEGIN TRANSACTION
GO
-- statement 9 again
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @pairs nvarchar(max) = @p1,
    @crashes int = @p2;
SELECT TOP (1000) p.name, p.priority
FROM (
    SELECT j.name COLLATE Latin1_General_100_BIN2 AS name, j.priority, j.most
    FROM OPENJSON(@pairs) WITH (name nvarchar(510) '$[0]', priority int '$[1]', most int '$[2]') AS j) AS p CROSS APPLY (
    SELECT TOP (p.most) h.run_at, h.id
    FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at <= @now
        AND h.crash_count <= @crashes
    ORDER BY h.run_at, h.id) AS due
ORDER BY due.run_at, due.id;
GO
-- statement 10 again
GO
-- statement 18 again
GO
-- statement 15 again
GO
COMMIT TRANSACTION
GO
