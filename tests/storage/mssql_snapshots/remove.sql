-- remove
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, status
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, ROWLOCK)
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
INSERT INTO chokaq_job_trash (
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
    progress_message,
    came_from,
    purged_at,
    purged_by,
    expires_at,
    operation_id
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
    CASE WHEN status = 1 THEN NULL ELSE worker_id END,
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
    CASE WHEN status = 1 THEN 0 ELSE status END,
    heartbeat_at,
    updated_at,
    cancel_requested_at,
    cancel_requested_by,
    progress,
    progress_message,
    'hot',
    @now,
    @p1,
    DATEADD(day, @p2, DATEADD(second, @p3, DATEADD(microsecond, @p4, @now))),
    NULL
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p5 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
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
