-- restore: keys are kept or their jobs stay
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, came_from, queue, idempotency_key, status
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
SET NOCOUNT ON;
INSERT INTO chokaq_job_hot (
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
                    AND c.id < d.id
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
SELECT idempotency_key, id
FROM chokaq_job_hot
WHERE idempotency_key IN (
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
-- statement 6 again
GO
SET NOCOUNT ON;
INSERT INTO chokaq_job_hot (
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
-- statement 6 again
GO
-- statement 7 again
GO
-- statement 8 again
GO
COMMIT TRANSACTION
GO
