-- resurrect: keys are kept or their jobs stay
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, queue, type, fingerprint, failure_reason, error_type, failed_at, idempotency_key
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
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
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
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @rows nvarchar(max) = @p1;
DECLARE @rows_taken int = 0;
WHILE 1 = 1
BEGIN
    BEGIN TRY
        INSERT INTO chokaq_failure_group (
            series, fingerprint, queue, type, shard, reason, error_type, message, sample_id, count, total, first_seen,
            last_seen)
        SELECT
            b.series, b.fingerprint, b.queue, b.type, b.shard, b.reason, b.error_type, b.message, b.sample_id, 0, 0,
            COALESCE(b.first_seen, @now), COALESCE(b.last_seen, @now)
        FROM OPENJSON(@rows) WITH (
            series nvarchar(64), fingerprint nvarchar(64), queue nvarchar(510), type nvarchar(510), shard nvarchar(200),
            reason int, error_type nvarchar(510), message nvarchar(max), sample_id nvarchar(26), first_seen datetime2(6),
            last_seen datetime2(6)) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_failure_group AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
            WHERE t.series = b.series COLLATE Latin1_General_100_BIN2)
        OPTION (LOOP JOIN);
        BREAK;
    END TRY
    BEGIN CATCH
        SET @rows_taken += 1;
        IF ERROR_NUMBER() NOT IN (2601, 2627) OR XACT_STATE() = -1 OR @rows_taken > 100 THROW;
    END CATCH;
END;
UPDATE t SET
    reason = CASE WHEN b.total > 0 AND COALESCE(b.last_seen, @now) >= t.last_seen THEN b.reason ELSE t.reason END,
    error_type = CASE WHEN b.total > 0 AND COALESCE(b.last_seen, @now) >= t.last_seen
    THEN b.error_type COLLATE Latin1_General_100_BIN2 ELSE t.error_type END,
    message = CASE WHEN b.total > 0 AND COALESCE(b.last_seen, @now) >= t.last_seen
    THEN b.message ELSE t.message END,
    sample_id = CASE WHEN b.total > 0 AND COALESCE(b.last_seen, @now) >= t.last_seen
    THEN b.sample_id COLLATE Latin1_General_100_BIN2 ELSE t.sample_id END,
    last_seen = CASE WHEN COALESCE(b.last_seen, @now) > t.last_seen
    THEN COALESCE(b.last_seen, @now) ELSE t.last_seen END,
    first_seen = CASE WHEN COALESCE(b.first_seen, @now) < t.first_seen
    THEN COALESCE(b.first_seen, @now) ELSE t.first_seen END, count = t.count + b.count, total = t.total + b.total
FROM OPENJSON(@rows) WITH (
    series nvarchar(64), reason int, error_type nvarchar(510), message nvarchar(max), sample_id nvarchar(26),
    count bigint, total bigint, first_seen datetime2(6), last_seen datetime2(6)) AS b
INNER LOOP JOIN chokaq_failure_group AS t WITH (FORCESEEK, ROWLOCK)
    ON t.series = b.series COLLATE Latin1_General_100_BIN2;
GO
SET NOCOUNT ON;
SELECT idempotency_key, id
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE idempotency_key IS NOT NULL
    AND idempotency_key IN (
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
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
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
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
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
-- statement 5 again
GO
-- statement 7 again
GO
COMMIT TRANSACTION
GO
