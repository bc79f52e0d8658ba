-- enqueue: one, then many
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME(), @rows NVARCHAR(MAX) = @p1, @texts NVARCHAR(MAX) = @p2;
INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
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
DECLARE @row TABLE (
    place INT NOT NULL PRIMARY KEY,
    id NVARCHAR(26) COLLATE Latin1_General_100_BIN2 NULL,
    queue NVARCHAR(510) COLLATE Latin1_General_100_BIN2 NULL,
    type NVARCHAR(510) COLLATE Latin1_General_100_BIN2 NULL,
    idempotency_key NVARCHAR(510) COLLATE Latin1_General_100_BIN2 NULL,
    concurrency_key NVARCHAR(510) COLLATE Latin1_General_100_BIN2 NULL,
    schema_version INT NULL,
    priority INT NULL,
    max_attempts INT NULL,
    delay_days INT NULL,
    delay_seconds INT NULL,
    delay_microseconds INT NULL,
    deadline_days INT NULL,
    deadline_seconds INT NULL,
    deadline_microseconds INT NULL,
    run_at DATETIME2(6) NULL,
    deadline_at DATETIME2(6) NULL,
    payload_at INT NULL,
    payload_length INT NULL,
    tags_at INT NULL,
    tags_length INT NULL,
    created_by_at INT NULL,
    created_by_length INT NULL,
    headers_at INT NULL,
    headers_length INT NULL
);
INSERT INTO @row (
    place,
    id,
    queue,
    type,
    idempotency_key,
    concurrency_key,
    schema_version,
    priority,
    max_attempts,
    delay_days,
    delay_seconds,
    delay_microseconds,
    deadline_days,
    deadline_seconds,
    deadline_microseconds,
    run_at,
    deadline_at,
    payload_at,
    payload_length,
    tags_at,
    tags_length,
    created_by_at,
    created_by_length,
    headers_at,
    headers_length
)
SELECT
    r.place,
    r.id,
    r.queue,
    r.type,
    r.idempotency_key,
    r.concurrency_key,
    r.schema_version,
    r.priority,
    r.max_attempts,
    r.delay_days,
    r.delay_seconds,
    r.delay_microseconds,
    r.deadline_days,
    r.deadline_seconds,
    r.deadline_microseconds,
    r.run_at,
    r.deadline_at,
    r.payload_at,
    r.payload_length,
    r.tags_at,
    r.tags_length,
    r.created_by_at,
    r.created_by_length,
    r.headers_at,
    r.headers_length
FROM OPENJSON(@rows) WITH (
    place INT,
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
) AS r;
DECLARE @created TABLE (
    id NVARCHAR(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY
);
DECLARE @taken INT = 0, @place INT = 0, @last INT = (SELECT MAX(r.place) FROM @row AS r);
WHILE @place <= @last
BEGIN
    BEGIN TRY
        INSERT INTO chokaq_job_hot WITH (ROWLOCK) (
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
        OUTPUT inserted.id INTO @created (id)
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
                    DATEADD(
                        second,
                        r.deadline_seconds,
                        DATEADD(microsecond, r.deadline_microseconds, @now)
                    )
                )
            )
        FROM @row AS r
        CROSS APPLY (
            SELECT
                COALESCE(
                    r.run_at,
                    DATEADD(
                        day,
                        r.delay_days,
                        DATEADD(
                            second,
                            r.delay_seconds,
                            DATEADD(microsecond, r.delay_microseconds, @now)
                        )
                    ),
                    @now
                ) AS run_at
        ) AS w
        WHERE r.place = @place
            AND NOT EXISTS (
                SELECT 1
                FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK)
                WHERE h.idempotency_key = r.idempotency_key AND h.idempotency_key IS NOT NULL
            )
        OPTION (LOOP JOIN);
        SELECT @place += 1, @taken = 0;
    END TRY
    BEGIN CATCH
        SET @taken += 1;
        IF ERROR_NUMBER() NOT IN (2601, 2627)
           OR CHARINDEX(N'chokaq_hot_key', ERROR_MESSAGE()) = 0
           OR XACT_STATE() = -1
           OR @taken > 100
            THROW;
    END CATCH;
END;
SELECT c.id FROM @created AS c;
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
INNER LOOP JOIN chokaq_job_hot AS t WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_archive AS t WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_dlq AS t WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2
UNION ALL
SELECT t.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j
INNER LOOP JOIN chokaq_job_trash AS t WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK) ON t.id = j.id COLLATE Latin1_General_100_BIN2;
GO
-- statement 1 again
GO
