-- restore: keys are kept or their jobs stay
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT
    id,
    operation_id,
    came_from,
    idempotency_key,
    status,
    queue,
    type,
    fingerprint,
    failure_reason,
    error_type,
    failed_at
FROM chokaq_job_trash WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_job_archive (
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    finished_at,
    duration_ms,
    wait_ms,
    result
)
SELECT
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    finished_at,
    duration_ms,
    wait_ms,
    result
FROM chokaq_job_trash WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
UPDATE h SET total = total + 1 FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p1;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
SELECT MIN(finished_at)
FROM chokaq_job_archive WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark WHERE place = @p1;
GO
SET NOCOUNT ON;
UPDATE h
SET again_at = CASE WHEN again_at < @p1 THEN again_at ELSE @p2 END
FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_job_dlq (
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    failure_reason,
    error_type,
    error_details,
    fingerprint,
    failed_at,
    note,
    assignee,
    acknowledged_at
)
SELECT
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    failure_reason,
    error_type,
    error_details,
    fingerprint,
    failed_at,
    note,
    assignee,
    acknowledged_at
FROM chokaq_job_trash WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 4 again
GO
SET NOCOUNT ON;
SELECT MIN(failed_at)
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark WHERE place = @p1;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    status,
    heartbeat_at,
    updated_at,
    cancel_requested_at,
    cancel_requested_by,
    progress,
    progress_message
)
SELECT
    d.id,
    d.queue,
    d.type,
    d.schema_version,
    d.payload,
    d.tags,
    d.priority,
    d.attempt,
    d.max_attempts,
    d.crash_count,
    d.snooze_count,
    d.claim_number,
    d.generation,
    d.revision,
    d.worker_id,
    d.created_by,
    d.modified_by,
    d.created_at,
    d.started_at,
    d.run_at,
    d.due_at,
    d.deadline_at,
    d.idempotency_key,
    d.concurrency_key,
    d.headers,
    d.attempt_log,
    d.status,
    d.heartbeat_at,
    d.updated_at,
    d.cancel_requested_at,
    d.cancel_requested_by,
    d.progress,
    d.progress_message
FROM chokaq_job_trash AS d WITH (FORCESEEK)
WHERE d.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND (
        d.idempotency_key IS NULL
        OR (
            NOT EXISTS (
                SELECT 1
                FROM chokaq_job_trash AS c WITH (FORCESEEK)
                WHERE c.id IN (
                        SELECT j.item COLLATE Latin1_General_100_BIN2
                        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
                            item NVARCHAR(510) '$'
                        ) AS j
                    )
                    AND c.idempotency_key = d.idempotency_key
                    AND c.id + N'' < d.id
            )
            AND NOT EXISTS (
                SELECT 1
                FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
                WHERE h.idempotency_key = d.idempotency_key AND h.idempotency_key IS NOT NULL
            )
        )
    )
OPTION (LOOP JOIN);
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
SELECT id
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_job_trash AS h WITH (FORCESEEK, ROWLOCK)
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
COMMIT TRANSACTION
GO
-- restore: keys are dropped
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 3 again
GO
-- statement 4 again
GO
-- statement 5 again
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark WHERE place = @p1;
GO
-- statement 7 again
GO
-- statement 8 again
GO
-- statement 4 again
GO
-- statement 10 again
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark WHERE place = @p1;
GO
-- statement 11 again
GO
-- statement 12 again
GO
SET NOCOUNT ON;
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
    id,
    queue,
    type,
    schema_version,
    payload,
    tags,
    priority,
    attempt,
    max_attempts,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    worker_id,
    created_by,
    modified_by,
    created_at,
    started_at,
    run_at,
    due_at,
    deadline_at,
    idempotency_key,
    concurrency_key,
    headers,
    attempt_log,
    status,
    heartbeat_at,
    updated_at,
    cancel_requested_at,
    cancel_requested_by,
    progress,
    progress_message
)
SELECT
    d.id,
    d.queue,
    d.type,
    d.schema_version,
    d.payload,
    d.tags,
    d.priority,
    d.attempt,
    d.max_attempts,
    d.crash_count,
    d.snooze_count,
    d.claim_number,
    d.generation,
    d.revision,
    d.worker_id,
    d.created_by,
    d.modified_by,
    d.created_at,
    d.started_at,
    d.run_at,
    d.due_at,
    d.deadline_at,
    NULL,
    d.concurrency_key,
    d.headers,
    d.attempt_log,
    d.status,
    d.heartbeat_at,
    d.updated_at,
    d.cancel_requested_at,
    d.cancel_requested_by,
    d.progress,
    d.progress_message
FROM chokaq_job_trash AS d WITH (FORCESEEK)
WHERE d.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
OPTION (LOOP JOIN);
SELECT @@ROWCOUNT;
GO
-- statement 12 again
GO
-- statement 13 again
GO
-- statement 14 again
GO
-- statement 15 again
GO
COMMIT TRANSACTION
GO
