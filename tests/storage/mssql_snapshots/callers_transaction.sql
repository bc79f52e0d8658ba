-- callers_transaction: enqueue, settle, heartbeat, mark
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
SET NOCOUNT OFF;
GO
SAVE TRANSACTION s_x1
GO
-- statement 1 again
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
SET NOCOUNT OFF;
GO
SAVE TRANSACTION s_x2
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @outcomes nvarchar(max) = @p2,
    @texts nvarchar(max) = @p3,
    @buckets nvarchar(max) = @p4;
DECLARE @outcome TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY, claim_number int NULL, expected int NULL,
    target varchar(10) NULL, duration_ms bigint NULL, wait_ms bigint NULL, reason int NULL,
    fingerprint nvarchar(64) NULL, crashes int NULL, days int NULL, seconds int NULL, microseconds int NULL,
    given_back int NULL, snoozed int NULL, attempt_log_at int NULL, attempt_log_length int NULL,
    modified_by_at int NULL, modified_by_length int NULL, result_at int NULL, result_length int NULL,
    error_type_at int NULL, error_type_length int NULL, error_details_at int NULL, error_details_length int NULL);
INSERT INTO @outcome (
    id, claim_number, expected, target, duration_ms, wait_ms, reason, fingerprint, crashes, days, seconds,
    microseconds, given_back, snoozed, attempt_log_at, attempt_log_length, modified_by_at, modified_by_length,
    result_at, result_length, error_type_at, error_type_length, error_details_at, error_details_length)
SELECT
    j.id, j.claim_number, j.expected, j.target, j.duration_ms, j.wait_ms, j.reason, j.fingerprint, j.crashes,
    j.days, j.seconds, j.microseconds, j.given_back, j.snoozed, j.attempt_log_at, j.attempt_log_length,
    j.modified_by_at, j.modified_by_length, j.result_at, j.result_length, j.error_type_at, j.error_type_length,
    j.error_details_at, j.error_details_length
FROM OPENJSON(@outcomes) WITH (
    id nvarchar(26), claim_number int, expected int, target varchar(10), duration_ms bigint, wait_ms bigint,
    reason int, fingerprint nvarchar(64), crashes int, days int, seconds int, microseconds int, given_back int,
    snoozed int, attempt_log_at int, attempt_log_length int, modified_by_at int, modified_by_length int,
    result_at int, result_length int, error_type_at int, error_type_length int, error_details_at int,
    error_details_length int) AS j;
DECLARE @held TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    asked bit NOT NULL,
    asked_by nvarchar(100) NULL);

-- The start of the current ten seconds.
DECLARE @tick datetime2(6) =
    DATEADD(second, DATEDIFF(second, CAST('2020-01-01T00:00:00' AS datetime2(6)), @now) / 10 * 10,
        CAST('2020-01-01T00:00:00' AS datetime2(6)));
INSERT INTO @held (id, asked, asked_by)
SELECT h.id, CASE WHEN h.cancel_requested_at IS NULL THEN 0 ELSE 1 END, h.cancel_requested_by
FROM @outcome AS o INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, ROWLOCK) ON h.id = o.id
WHERE h.claim_number = o.claim_number AND h.worker_id = @worker AND h.status = o.expected;
-- All or nothing: what is to be counted depends on it.
IF (SELECT COUNT(*) FROM @held) = (SELECT COUNT(*) FROM @outcome)
BEGIN
INSERT INTO chokaq_job_archive (
    id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
    claim_number, generation, revision, worker_id, created_by, modified_by, created_at, started_at, run_at, due_at,
    deadline_at, idempotency_key, concurrency_key, headers, attempt_log, finished_at, duration_ms, wait_ms, result)
SELECT
    h.id, h.queue, h.type, h.schema_version, h.payload, h.tags, h.priority, h.attempt, h.max_attempts,
    h.crash_count, h.snooze_count, h.claim_number, h.generation, h.revision, h.worker_id, h.created_by,
    COALESCE(SUBSTRING(@texts, o.modified_by_at, o.modified_by_length), h.modified_by), h.created_at, h.started_at,
    h.run_at, h.due_at, h.deadline_at, h.idempotency_key, h.concurrency_key, h.headers,
    SUBSTRING(@texts, o.attempt_log_at, o.attempt_log_length), @now, o.duration_ms, o.wait_ms,
    SUBSTRING(@texts, o.result_at, o.result_length)
FROM @outcome AS o INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK) ON h.id = o.id
WHERE o.target = 'archive';
DELETE h
FROM @outcome AS o INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = o.id
WHERE o.target = 'archive';

DECLARE @buckets_taken int = 0;
WHILE 1 = 1
BEGIN
    BEGIN TRY
        INSERT INTO chokaq_metric_bucket (
            at, series, queue, type, outcome, reason, shard, max_ms, count, total_ms, run_0, run_1, run_2, run_3, run_4,
            run_5, run_6, run_7, run_8, run_9, run_10, run_11, run_12, run_13, run_14, run_15, wait_0, wait_1, wait_2,
            wait_3, wait_4, wait_5, wait_6, wait_7, wait_8, wait_9, wait_10, wait_11, wait_12, wait_13, wait_14, wait_15)
        SELECT
            @tick, b.series, b.queue, b.type, b.outcome, b.reason, b.shard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        FROM OPENJSON(@buckets) WITH (
            series nvarchar(64), queue nvarchar(510), type nvarchar(510), outcome int, reason int, shard nvarchar(200)) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_metric_bucket AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
            WHERE t.at = @tick AND t.series = b.series COLLATE Latin1_General_100_BIN2)
        OPTION (LOOP JOIN);
        BREAK;
    END TRY
    BEGIN CATCH
        SET @buckets_taken += 1;
        IF ERROR_NUMBER() NOT IN (2601, 2627) OR XACT_STATE() = -1 OR @buckets_taken > 100 THROW;
    END CATCH;
END;
UPDATE t SET
    max_ms = CASE WHEN b.max_ms > t.max_ms THEN b.max_ms ELSE t.max_ms END, count = t.count + b.count,
    total_ms = t.total_ms + b.total_ms, run_0 = t.run_0 + b.run_0, run_1 = t.run_1 + b.run_1,
    run_2 = t.run_2 + b.run_2, run_3 = t.run_3 + b.run_3, run_4 = t.run_4 + b.run_4, run_5 = t.run_5 + b.run_5,
    run_6 = t.run_6 + b.run_6, run_7 = t.run_7 + b.run_7, run_8 = t.run_8 + b.run_8, run_9 = t.run_9 + b.run_9,
    run_10 = t.run_10 + b.run_10, run_11 = t.run_11 + b.run_11, run_12 = t.run_12 + b.run_12,
    run_13 = t.run_13 + b.run_13, run_14 = t.run_14 + b.run_14, run_15 = t.run_15 + b.run_15,
    wait_0 = t.wait_0 + b.wait_0, wait_1 = t.wait_1 + b.wait_1, wait_2 = t.wait_2 + b.wait_2,
    wait_3 = t.wait_3 + b.wait_3, wait_4 = t.wait_4 + b.wait_4, wait_5 = t.wait_5 + b.wait_5,
    wait_6 = t.wait_6 + b.wait_6, wait_7 = t.wait_7 + b.wait_7, wait_8 = t.wait_8 + b.wait_8,
    wait_9 = t.wait_9 + b.wait_9, wait_10 = t.wait_10 + b.wait_10, wait_11 = t.wait_11 + b.wait_11,
    wait_12 = t.wait_12 + b.wait_12, wait_13 = t.wait_13 + b.wait_13, wait_14 = t.wait_14 + b.wait_14,
    wait_15 = t.wait_15 + b.wait_15
FROM OPENJSON(@buckets) WITH (
    series nvarchar(64), max_ms bigint, count bigint, total_ms bigint, run_0 bigint, run_1 bigint, run_2 bigint,
    run_3 bigint, run_4 bigint, run_5 bigint, run_6 bigint, run_7 bigint, run_8 bigint, run_9 bigint, run_10 bigint,
    run_11 bigint, run_12 bigint, run_13 bigint, run_14 bigint, run_15 bigint, wait_0 bigint, wait_1 bigint,
    wait_2 bigint, wait_3 bigint, wait_4 bigint, wait_5 bigint, wait_6 bigint, wait_7 bigint, wait_8 bigint,
    wait_9 bigint, wait_10 bigint, wait_11 bigint, wait_12 bigint, wait_13 bigint, wait_14 bigint, wait_15 bigint) AS b
INNER LOOP JOIN chokaq_metric_bucket AS t WITH (FORCESEEK, ROWLOCK)
    ON t.at = @tick AND t.series = b.series COLLATE Latin1_General_100_BIN2;
END;
SELECT s.id, s.asked, s.asked_by FROM @held AS s;
SET NOCOUNT OFF;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @leases nvarchar(max) = @p2;
UPDATE h SET heartbeat_at = @now, updated_at = @now
OUTPUT inserted.id, inserted.cancel_requested_at, inserted.cancel_requested_by
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 2;
SET NOCOUNT OFF;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @leases nvarchar(max) = @p2;
SELECT h.id, h.cancel_requested_at, h.cancel_requested_by
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, NOWAIT)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 2;
SET NOCOUNT OFF;
GO
DECLARE @read int;
SELECT @read = COUNT(*) FROM chokaq_queue WHERE name = N'';
SELECT CASE WHEN @@TRANCOUNT > 0 THEN CURRENT_TRANSACTION_ID() END;
GO
-- statement 9 again
GO
-- commit by the driver
GO
