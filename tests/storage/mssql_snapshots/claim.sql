-- claim: and start
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @queues nvarchar(max) = @p2,
    @limit int = @p3;
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
DECLARE @picked TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    deadline_at datetime2(6) NULL);
DECLARE @first TABLE (place int NOT NULL);
DECLARE @left int = @limit, @level int, @place int, @found int, @looked int;
BEGIN TRANSACTION;
SELECT @level = MAX(q.priority) FROM @queue AS q;
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    -- What comes first, looked up without a lock: that is how many of each queue.
    DELETE FROM @first;
    INSERT INTO @first (place)
    SELECT TOP (@left) q.place
    FROM @queue AS q CROSS APPLY (
        SELECT TOP (@left) h.run_at, h.id FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due
    WHERE q.priority = @level
    ORDER BY due.run_at, due.id;
    SET @looked = @@ROWCOUNT;
    INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT q.name, (
            SELECT COUNT(*) FROM @first AS f WHERE f.place = q.place) AS most
        FROM @queue AS q WHERE q.priority = @level) AS q
    CROSS APPLY (
        SELECT TOP (q.most) h.id, h.deadline_at
        FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;
    -- Others hold some of them: instead whatever else is due, one queue after the other.
    SET @place = CASE WHEN @found < @looked THEN -1 END;
    WHILE @left > 0 AND @place IS NOT NULL
    BEGIN
        SELECT @place = MIN(q.place) FROM @queue AS q WHERE q.priority = @level AND q.place > @place;
        INSERT INTO @picked (id, deadline_at)
        SELECT due.id, due.deadline_at
        FROM (
            SELECT q.name FROM @queue AS q WHERE q.place = @place) AS q
        CROSS APPLY (
            SELECT TOP (@left) h.id, h.deadline_at
            FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
            WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
                AND NOT EXISTS (SELECT 1 FROM @picked AS p WHERE p.id = h.id)
            ORDER BY h.run_at, h.id) AS due;
        SET @found = @@ROWCOUNT;
        SET @left = @left - @found;
    END;
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE q.priority = @level;
    UPDATE q SET priority = (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority < q.priority
        ORDER BY h.priority DESC)
    FROM @queue AS q WHERE q.priority = @level;
    SELECT @level = MAX(q.priority) FROM @queue AS q;
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN (
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM @pair AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead) END;
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
FROM @picked AS p INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = p.id;
COMMIT TRANSACTION;
GO
-- claim: into the buffer
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @queues nvarchar(max) = @p2,
    @limit int = @p3;
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
DECLARE @picked TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    deadline_at datetime2(6) NULL);
DECLARE @first TABLE (place int NOT NULL);
DECLARE @left int = @limit, @level int, @place int, @found int, @looked int;
BEGIN TRANSACTION;
SELECT @level = MAX(q.priority) FROM @queue AS q;
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    -- What comes first, looked up without a lock: that is how many of each queue.
    DELETE FROM @first;
    INSERT INTO @first (place)
    SELECT TOP (@left) q.place
    FROM @queue AS q CROSS APPLY (
        SELECT TOP (@left) h.run_at, h.id FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due
    WHERE q.priority = @level
    ORDER BY due.run_at, due.id;
    SET @looked = @@ROWCOUNT;
    INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT q.name, (
            SELECT COUNT(*) FROM @first AS f WHERE f.place = q.place) AS most
        FROM @queue AS q WHERE q.priority = @level) AS q
    CROSS APPLY (
        SELECT TOP (q.most) h.id, h.deadline_at
        FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;
    -- Others hold some of them: instead whatever else is due, one queue after the other.
    SET @place = CASE WHEN @found < @looked THEN -1 END;
    WHILE @left > 0 AND @place IS NOT NULL
    BEGIN
        SELECT @place = MIN(q.place) FROM @queue AS q WHERE q.priority = @level AND q.place > @place;
        INSERT INTO @picked (id, deadline_at)
        SELECT due.id, due.deadline_at
        FROM (
            SELECT q.name FROM @queue AS q WHERE q.place = @place) AS q
        CROSS APPLY (
            SELECT TOP (@left) h.id, h.deadline_at
            FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
            WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
                AND NOT EXISTS (SELECT 1 FROM @picked AS p WHERE p.id = h.id)
            ORDER BY h.run_at, h.id) AS due;
        SET @found = @@ROWCOUNT;
        SET @left = @left - @found;
    END;
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE q.priority = @level;
    UPDATE q SET priority = (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority < q.priority
        ORDER BY h.priority DESC)
    FROM @queue AS q WHERE q.priority = @level;
    SELECT @level = MAX(q.priority) FROM @queue AS q;
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN (
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM @pair AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead) END;
UPDATE h SET status = 1, worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now
OUTPUT inserted.id, inserted.queue, inserted.type, inserted.schema_version, inserted.payload, inserted.tags,
       inserted.priority, inserted.attempt, inserted.max_attempts, inserted.crash_count, inserted.snooze_count,
       inserted.claim_number, inserted.generation, inserted.created_by, inserted.created_at, inserted.started_at,
       inserted.run_at, inserted.due_at, inserted.deadline_at, inserted.headers, inserted.attempt_log,
       inserted.status, @now
FROM @picked AS p INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = p.id;
COMMIT TRANSACTION;
GO
-- claim: and start, queues in strict order
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @queues nvarchar(max) = @p2,
    @limit int = @p3;
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
DECLARE @picked TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    deadline_at datetime2(6) NULL);

DECLARE @left int = @limit, @level int, @place int, @found int;
BEGIN TRANSACTION;
SELECT @place = NULL, @level = NULL;
SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q WHERE q.priority IS NOT NULL ORDER BY q.place;
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT q.name FROM @queue AS q WHERE q.place = @place AND q.priority = @level) AS q
    CROSS APPLY (
        SELECT TOP (@left) h.id, h.deadline_at
        FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE q.place = @place AND q.priority = @level;
    UPDATE q SET priority = (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority < q.priority
        ORDER BY h.priority DESC)
    FROM @queue AS q WHERE q.place = @place AND q.priority = @level;
    SELECT @place = NULL, @level = NULL;
    SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q WHERE q.priority IS NOT NULL ORDER BY q.place;
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN (
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM @pair AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead) END;
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
FROM @picked AS p INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = p.id;
COMMIT TRANSACTION;
GO
-- claim: into the buffer, queues in strict order
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @queues nvarchar(max) = @p2,
    @limit int = @p3;
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
DECLARE @picked TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    deadline_at datetime2(6) NULL);

DECLARE @left int = @limit, @level int, @place int, @found int;
BEGIN TRANSACTION;
SELECT @place = NULL, @level = NULL;
SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q WHERE q.priority IS NOT NULL ORDER BY q.place;
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT q.name FROM @queue AS q WHERE q.place = @place AND q.priority = @level) AS q
    CROSS APPLY (
        SELECT TOP (@left) h.id, h.deadline_at
        FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE q.place = @place AND q.priority = @level;
    UPDATE q SET priority = (
        SELECT TOP (1) h.priority FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = q.name AND h.priority < q.priority
        ORDER BY h.priority DESC)
    FROM @queue AS q WHERE q.place = @place AND q.priority = @level;
    SELECT @place = NULL, @level = NULL;
    SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q WHERE q.priority IS NOT NULL ORDER BY q.place;
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN (
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM @pair AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead) END;
UPDATE h SET status = 1, worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now
OUTPUT inserted.id, inserted.queue, inserted.type, inserted.schema_version, inserted.payload, inserted.tags,
       inserted.priority, inserted.attempt, inserted.max_attempts, inserted.crash_count, inserted.snooze_count,
       inserted.claim_number, inserted.generation, inserted.created_by, inserted.created_at, inserted.started_at,
       inserted.run_at, inserted.due_at, inserted.deadline_at, inserted.headers, inserted.attempt_log,
       inserted.status, @now
FROM @picked AS p INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = p.id;
COMMIT TRANSACTION;
GO
