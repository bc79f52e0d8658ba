-- resurrect: keys are kept or their jobs stay
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, queue, idempotency_key
FROM chokaq_job_dlq WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @ids nvarchar(max) = @p1,
    @by nvarchar(100) = @p2,
    @payload nvarchar(max) = NULL,
    @tags nvarchar(max) = NULL,
    @priority int = NULL,
    @schema_version int = NULL,
    @edited int = @p3;
DECLARE @id TABLE (id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @id (id) SELECT j.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j;
INSERT INTO chokaq_job_hot (
    id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
    claim_number, generation, revision, worker_id, created_by, modified_by, created_at, started_at, run_at, due_at,
    deadline_at, idempotency_key, concurrency_key, headers, attempt_log, status, heartbeat_at, updated_at,
    cancel_requested_at, cancel_requested_by, progress, progress_message)
SELECT
    d.id, d.queue, d.type, COALESCE(@schema_version, d.schema_version), COALESCE(@payload, d.payload),
    COALESCE(@tags, d.tags), COALESCE(@priority, d.priority), 0, d.max_attempts, 0, 0, d.claim_number,
    d.generation + 1, d.revision + @edited, NULL, d.created_by, @by, d.created_at, NULL, @now, @now,
    CASE WHEN d.deadline_at > @now THEN d.deadline_at END, d.idempotency_key, d.concurrency_key, d.headers,
    d.attempt_log, 0, NULL, @now, NULL, NULL, NULL, NULL
FROM @id AS i INNER LOOP JOIN chokaq_job_dlq AS d WITH (FORCESEEK) ON d.id = i.id
WHERE d.idempotency_key IS NULL OR (
    NOT EXISTS (
        SELECT 1 FROM @id AS e INNER LOOP JOIN chokaq_job_dlq AS c WITH (FORCESEEK) ON c.id = e.id
        WHERE c.idempotency_key = d.idempotency_key AND c.id < d.id)
    AND NOT EXISTS (
        SELECT 1 FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
        WHERE h.idempotency_key = d.idempotency_key AND h.idempotency_key IS NOT NULL))
OPTION (LOOP JOIN);
SELECT h.id FROM @id AS i INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK) ON h.id = i.id;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
SELECT idempotency_key, id
FROM chokaq_job_hot
WHERE idempotency_key IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT id, 'hot'
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, 'archive'
FROM chokaq_job_archive WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, 'dlq'
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, 'trash'
FROM chokaq_job_trash WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p4 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
COMMIT TRANSACTION
GO
-- resurrect: edited, keys are dropped
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @ids nvarchar(max) = @p1,
    @by nvarchar(100) = @p2,
    @payload nvarchar(max) = @p3,
    @tags nvarchar(max) = NULL,
    @priority int = @p4,
    @schema_version int = NULL,
    @edited int = @p5;
DECLARE @id TABLE (id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @id (id) SELECT j.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j;
INSERT INTO chokaq_job_hot (
    id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
    claim_number, generation, revision, worker_id, created_by, modified_by, created_at, started_at, run_at, due_at,
    deadline_at, idempotency_key, concurrency_key, headers, attempt_log, status, heartbeat_at, updated_at,
    cancel_requested_at, cancel_requested_by, progress, progress_message)
SELECT
    d.id, d.queue, d.type, COALESCE(@schema_version, d.schema_version), COALESCE(@payload, d.payload),
    COALESCE(@tags, d.tags), COALESCE(@priority, d.priority), 0, d.max_attempts, 0, 0, d.claim_number,
    d.generation + 1, d.revision + @edited, NULL, d.created_by, @by, d.created_at, NULL, @now, @now,
    CASE WHEN d.deadline_at > @now THEN d.deadline_at END, d.idempotency_key, d.concurrency_key, d.headers,
    d.attempt_log, 0, NULL, @now, NULL, NULL, NULL, NULL
FROM @id AS i INNER LOOP JOIN chokaq_job_dlq AS d WITH (FORCESEEK) ON d.id = i.id
WHERE d.idempotency_key IS NULL OR (
    NOT EXISTS (
        SELECT 1 FROM @id AS e INNER LOOP JOIN chokaq_job_dlq AS c WITH (FORCESEEK) ON c.id = e.id
        WHERE c.idempotency_key = d.idempotency_key AND c.id < d.id)
    AND NOT EXISTS (
        SELECT 1 FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
        WHERE h.idempotency_key = d.idempotency_key AND h.idempotency_key IS NOT NULL))
OPTION (LOOP JOIN);
SELECT h.id FROM @id AS i INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK) ON h.id = i.id;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @ids nvarchar(max) = @p1,
    @by nvarchar(100) = @p2,
    @payload nvarchar(max) = @p3,
    @tags nvarchar(max) = NULL,
    @priority int = @p4,
    @schema_version int = NULL,
    @edited int = @p5;
DECLARE @id TABLE (id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @id (id) SELECT j.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j;
INSERT INTO chokaq_job_hot (
    id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
    claim_number, generation, revision, worker_id, created_by, modified_by, created_at, started_at, run_at, due_at,
    deadline_at, idempotency_key, concurrency_key, headers, attempt_log, status, heartbeat_at, updated_at,
    cancel_requested_at, cancel_requested_by, progress, progress_message)
SELECT
    d.id, d.queue, d.type, COALESCE(@schema_version, d.schema_version), COALESCE(@payload, d.payload),
    COALESCE(@tags, d.tags), COALESCE(@priority, d.priority), 0, d.max_attempts, 0, 0, d.claim_number,
    d.generation + 1, d.revision + @edited, NULL, d.created_by, @by, d.created_at, NULL, @now, @now,
    CASE WHEN d.deadline_at > @now THEN d.deadline_at END, NULL, d.concurrency_key, d.headers, d.attempt_log, 0,
    NULL, @now, NULL, NULL, NULL, NULL
FROM @id AS i INNER LOOP JOIN chokaq_job_dlq AS d WITH (FORCESEEK) ON d.id = i.id
OPTION (LOOP JOIN);
SELECT h.id FROM @id AS i INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK) ON h.id = i.id;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_payload_version (
    job_id,
    revision,
    type,
    schema_version,
    payload,
    replaced_at,
    replaced_by
)
SELECT id, revision, type, schema_version, payload, @now, @p1
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 4 again
GO
-- statement 6 again
GO
COMMIT TRANSACTION
GO
