-- run_again: keys are dropped
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, queue, idempotency_key, headers
FROM chokaq_job_archive WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
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
    @p1,
    d.queue,
    d.type,
    d.schema_version,
    d.payload,
    d.tags,
    d.priority,
    0,
    d.max_attempts,
    0,
    0,
    0,
    0,
    0,
    NULL,
    d.created_by,
    @p2,
    @now,
    NULL,
    @now,
    @now,
    CASE WHEN deadline_at > @now THEN deadline_at END,
    d.idempotency_key,
    d.concurrency_key,
    @p3,
    '[]',
    0,
    NULL,
    @now,
    NULL,
    NULL,
    NULL,
    NULL
FROM chokaq_job_archive AS d WITH (FORCESEEK)
WHERE d.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p4 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND (
        d.idempotency_key IS NULL
        OR (
            NOT EXISTS (
                SELECT 1
                FROM chokaq_job_archive AS c WITH (FORCESEEK)
                WHERE c.id IN (
                        SELECT j.item COLLATE Latin1_General_100_BIN2
                        FROM OPENJSON(CAST(@p5 AS NVARCHAR(MAX))) WITH (
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
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
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
    @p1,
    d.queue,
    d.type,
    d.schema_version,
    d.payload,
    d.tags,
    d.priority,
    0,
    d.max_attempts,
    0,
    0,
    0,
    0,
    0,
    NULL,
    d.created_by,
    @p2,
    @now,
    NULL,
    @now,
    @now,
    CASE WHEN deadline_at > @now THEN deadline_at END,
    NULL,
    d.concurrency_key,
    @p3,
    '[]',
    0,
    NULL,
    @now,
    NULL,
    NULL,
    NULL,
    NULL
FROM chokaq_job_archive AS d WITH (FORCESEEK)
WHERE d.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p4 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
OPTION (LOOP JOIN);
SELECT @@ROWCOUNT;
GO
-- statement 4 again
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
