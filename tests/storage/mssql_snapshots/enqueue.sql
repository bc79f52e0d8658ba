-- enqueue: one, then many
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME(), @rows NVARCHAR(MAX) = @p1, @texts NVARCHAR(MAX) = @p2;
INSERT INTO chokaq_job_hot (
    id,
    queue,
    type,
    idempotency_key,
    concurrency_key,
    schema_version,
    priority,
    max_attempts,
    payload,
    tags,
    created_by,
    headers,
    attempt,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    status,
    attempt_log,
    created_at,
    updated_at,
    run_at,
    due_at,
    deadline_at
)
SELECT
    r.id,
    r.queue,
    r.type,
    r.idempotency_key,
    r.concurrency_key,
    r.schema_version,
    r.priority,
    r.max_attempts,
    SUBSTRING(@texts, r.payload_at, r.payload_length),
    SUBSTRING(@texts, r.tags_at, r.tags_length),
    SUBSTRING(@texts, r.created_by_at, r.created_by_length),
    SUBSTRING(@texts, r.headers_at, r.headers_length),
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    N'[]',
    @now,
    @now,
    w.run_at,
    w.run_at,
    COALESCE(
        r.deadline_at,
        DATEADD(
            day,
            r.deadline_days,
            DATEADD(second, r.deadline_seconds, DATEADD(microsecond, r.deadline_microseconds, @now))
        )
    )
FROM OPENJSON(@rows) WITH (
    id NVARCHAR(4000),
    queue NVARCHAR(4000),
    type NVARCHAR(4000),
    idempotency_key NVARCHAR(4000),
    concurrency_key NVARCHAR(4000),
    schema_version INT,
    priority INT,
    max_attempts INT,
    delay_days INT,
    delay_seconds INT,
    delay_microseconds INT,
    deadline_days INT,
    deadline_seconds INT,
    deadline_microseconds INT,
    run_at DATETIME2(6),
    deadline_at DATETIME2(6),
    payload_at INT,
    payload_length INT,
    tags_at INT,
    tags_length INT,
    created_by_at INT,
    created_by_length INT,
    headers_at INT,
    headers_length INT
) AS r
CROSS APPLY (
    SELECT
        COALESCE(
            r.run_at,
            DATEADD(
                day,
                r.delay_days,
                DATEADD(second, r.delay_seconds, DATEADD(microsecond, r.delay_microseconds, @now))
            ),
            @now
        ) AS run_at
) AS w;
GO
BEGIN TRANSACTION
GO
-- statement 1 again
GO
COMMIT TRANSACTION
GO
-- enqueue: with keys
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME(), @rows NVARCHAR(MAX) = @p1, @texts NVARCHAR(MAX) = @p2;
INSERT INTO chokaq_job_hot (
    id,
    queue,
    type,
    idempotency_key,
    concurrency_key,
    schema_version,
    priority,
    max_attempts,
    payload,
    tags,
    created_by,
    headers,
    attempt,
    crash_count,
    snooze_count,
    claim_number,
    generation,
    revision,
    status,
    attempt_log,
    created_at,
    updated_at,
    run_at,
    due_at,
    deadline_at
)
OUTPUT inserted.id
SELECT
    r.id,
    r.queue,
    r.type,
    r.idempotency_key,
    r.concurrency_key,
    r.schema_version,
    r.priority,
    r.max_attempts,
    SUBSTRING(@texts, r.payload_at, r.payload_length),
    SUBSTRING(@texts, r.tags_at, r.tags_length),
    SUBSTRING(@texts, r.created_by_at, r.created_by_length),
    SUBSTRING(@texts, r.headers_at, r.headers_length),
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    N'[]',
    @now,
    @now,
    w.run_at,
    w.run_at,
    COALESCE(
        r.deadline_at,
        DATEADD(
            day,
            r.deadline_days,
            DATEADD(second, r.deadline_seconds, DATEADD(microsecond, r.deadline_microseconds, @now))
        )
    )
FROM OPENJSON(@rows) WITH (
    id NVARCHAR(4000),
    queue NVARCHAR(4000),
    type NVARCHAR(4000),
    idempotency_key NVARCHAR(4000),
    concurrency_key NVARCHAR(4000),
    schema_version INT,
    priority INT,
    max_attempts INT,
    delay_days INT,
    delay_seconds INT,
    delay_microseconds INT,
    deadline_days INT,
    deadline_seconds INT,
    deadline_microseconds INT,
    run_at DATETIME2(6),
    deadline_at DATETIME2(6),
    payload_at INT,
    payload_length INT,
    tags_at INT,
    tags_length INT,
    created_by_at INT,
    created_by_length INT,
    headers_at INT,
    headers_length INT
) AS r
CROSS APPLY (
    SELECT
        COALESCE(
            r.run_at,
            DATEADD(
                day,
                r.delay_days,
                DATEADD(second, r.delay_seconds, DATEADD(microsecond, r.delay_microseconds, @now))
            ),
            @now
        ) AS run_at
) AS w
WHERE NOT EXISTS (
        SELECT 1
        FROM chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
        WHERE h.idempotency_key = r.idempotency_key COLLATE Latin1_General_100_BIN2
            AND h.idempotency_key IS NOT NULL
    )
OPTION (LOOP JOIN);
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME(), @keys NVARCHAR(MAX) = @p1;
SELECT k.item, h.id
FROM OPENJSON(@keys) WITH (
    item NVARCHAR(510) '$'
) AS k
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK)
    ON h.idempotency_key = k.item COLLATE Latin1_General_100_BIN2 AND h.idempotency_key IS NOT NULL;
GO
COMMIT TRANSACTION
GO
-- enqueue: a second try
-- statement 1 again
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @ids nvarchar(max) = @p1;
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_hot AS t WITH (FORCESEEK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_archive AS t WITH (FORCESEEK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_dlq AS t WITH (FORCESEEK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_trash AS t WITH (FORCESEEK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2;
GO
-- statement 1 again
GO
