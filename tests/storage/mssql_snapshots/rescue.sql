-- rescue
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT
    id,
    claim_number,
    status,
    worker_id,
    queue,
    type,
    attempt,
    max_attempts,
    crash_count,
    attempt_log,
    started_at,
    heartbeat_at,
    updated_at,
    cancel_requested_at,
    cancel_requested_by
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
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
UPDATE h
SET
    status = 0,
    worker_id = NULL,
    heartbeat_at = NULL,
    run_at = DATEADD(day, @p1, DATEADD(second, @p2, DATEADD(microsecond, @p3, @now))),
    updated_at = @now,
    attempt_log = @p4,
    crash_count = crash_count + @p5,
    progress = NULL,
    progress_message = NULL
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p6;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @outcomes nvarchar(max) = @p1,
    @texts nvarchar(max) = @p2;
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
INSERT INTO chokaq_job_dlq (
    id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
    claim_number, generation, revision, worker_id, created_by, modified_by, created_at, started_at, run_at, due_at,
    deadline_at, idempotency_key, concurrency_key, headers, attempt_log, failure_reason, error_type, error_details,
    fingerprint, failed_at, note, assignee, acknowledged_at)
SELECT
    h.id, h.queue, h.type, h.schema_version, h.payload, h.tags, h.priority, h.attempt, h.max_attempts,
    h.crash_count + COALESCE(o.crashes, 0), h.snooze_count, h.claim_number, h.generation, h.revision, h.worker_id,
    h.created_by, COALESCE(SUBSTRING(@texts, o.modified_by_at, o.modified_by_length), h.modified_by), h.created_at,
    h.started_at, h.run_at, h.due_at, h.deadline_at, h.idempotency_key, h.concurrency_key, h.headers,
    COALESCE(SUBSTRING(@texts, o.attempt_log_at, o.attempt_log_length), h.attempt_log), o.reason,
    SUBSTRING(@texts, o.error_type_at, o.error_type_length),
    SUBSTRING(@texts, o.error_details_at, o.error_details_length), o.fingerprint, @now, N'', NULL, NULL
FROM @outcome AS o INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK) ON h.id = o.id
WHERE o.target = 'dlq';
DELETE h
FROM @outcome AS o INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = o.id
WHERE o.target = 'dlq';
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @rows nvarchar(max) = @p1;
-- The start of the current ten seconds.
DECLARE @tick datetime2(6) =
    DATEADD(second, DATEDIFF(second, CAST('2020-01-01T00:00:00' AS datetime2(6)), @now) / 10 * 10,
        CAST('2020-01-01T00:00:00' AS datetime2(6)));
DECLARE @rows_taken int = 0;
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
        FROM OPENJSON(@rows) WITH (
            series nvarchar(64), queue nvarchar(510), type nvarchar(510), outcome int, reason int, shard nvarchar(200)) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_metric_bucket AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
            WHERE t.at = @tick AND t.series = b.series COLLATE Latin1_General_100_BIN2)
        OPTION (LOOP JOIN);
        BREAK;
    END TRY
    BEGIN CATCH
        SET @rows_taken += 1;
        IF ERROR_NUMBER() NOT IN (2601, 2627) OR XACT_STATE() = -1 OR @rows_taken > 100 THROW;
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
FROM OPENJSON(@rows) WITH (
    series nvarchar(64), max_ms bigint, count bigint, total_ms bigint, run_0 bigint, run_1 bigint, run_2 bigint,
    run_3 bigint, run_4 bigint, run_5 bigint, run_6 bigint, run_7 bigint, run_8 bigint, run_9 bigint, run_10 bigint,
    run_11 bigint, run_12 bigint, run_13 bigint, run_14 bigint, run_15 bigint, wait_0 bigint, wait_1 bigint,
    wait_2 bigint, wait_3 bigint, wait_4 bigint, wait_5 bigint, wait_6 bigint, wait_7 bigint, wait_8 bigint,
    wait_9 bigint, wait_10 bigint, wait_11 bigint, wait_12 bigint, wait_13 bigint, wait_14 bigint, wait_15 bigint) AS b
INNER LOOP JOIN chokaq_metric_bucket AS t WITH (FORCESEEK, ROWLOCK)
    ON t.at = @tick AND t.series = b.series COLLATE Latin1_General_100_BIN2;
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
COMMIT TRANSACTION
GO
