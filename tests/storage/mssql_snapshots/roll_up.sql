-- roll_up
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @limit int = @p1,
    @days int = @p2,
    @seconds int = @p3,
    @microseconds int = @p4;
DELETE t
OUTPUT
    deleted.at, deleted.series, deleted.queue, deleted.type, deleted.outcome, deleted.reason, deleted.shard,
    deleted.max_ms, deleted.count, deleted.total_ms, deleted.run_0, deleted.run_1, deleted.run_2, deleted.run_3,
    deleted.run_4, deleted.run_5, deleted.run_6, deleted.run_7, deleted.run_8, deleted.run_9, deleted.run_10,
    deleted.run_11, deleted.run_12, deleted.run_13, deleted.run_14, deleted.run_15, deleted.wait_0, deleted.wait_1,
    deleted.wait_2, deleted.wait_3, deleted.wait_4, deleted.wait_5, deleted.wait_6, deleted.wait_7, deleted.wait_8,
    deleted.wait_9, deleted.wait_10, deleted.wait_11, deleted.wait_12, deleted.wait_13, deleted.wait_14,
    deleted.wait_15
FROM (
    SELECT TOP (@limit) b.at, b.series
    FROM chokaq_metric_bucket AS b WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE b.at <= DATEADD(day, @days, DATEADD(second, @seconds, DATEADD(microsecond, @microseconds, @now)))
    ORDER BY b.at, b.series) AS b
INNER LOOP JOIN chokaq_metric_bucket AS t WITH (FORCESEEK, ROWLOCK) ON t.at = b.at AND t.series = b.series;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @rows nvarchar(max) = @p1;
DECLARE @rows_taken int = 0;
WHILE 1 = 1
BEGIN
    BEGIN TRY
        INSERT INTO chokaq_metric_rollup (
            series, span, at, queue, type, outcome, reason, max_ms, count, total_ms, run_0, run_1, run_2, run_3, run_4,
            run_5, run_6, run_7, run_8, run_9, run_10, run_11, run_12, run_13, run_14, run_15, wait_0, wait_1, wait_2,
            wait_3, wait_4, wait_5, wait_6, wait_7, wait_8, wait_9, wait_10, wait_11, wait_12, wait_13, wait_14, wait_15)
        SELECT
            b.series, b.span, b.at, b.queue, b.type, b.outcome, b.reason, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        FROM OPENJSON(@rows) WITH (
            series nvarchar(64), span int, at datetime2(6), queue nvarchar(510), type nvarchar(510), outcome int, reason int) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_metric_rollup AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
            WHERE t.span = b.span AND t.at = b.at AND t.series = b.series COLLATE Latin1_General_100_BIN2)
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
    series nvarchar(64), span int, at datetime2(6), max_ms bigint, count bigint, total_ms bigint, run_0 bigint,
    run_1 bigint, run_2 bigint, run_3 bigint, run_4 bigint, run_5 bigint, run_6 bigint, run_7 bigint, run_8 bigint,
    run_9 bigint, run_10 bigint, run_11 bigint, run_12 bigint, run_13 bigint, run_14 bigint, run_15 bigint,
    wait_0 bigint, wait_1 bigint, wait_2 bigint, wait_3 bigint, wait_4 bigint, wait_5 bigint, wait_6 bigint,
    wait_7 bigint, wait_8 bigint, wait_9 bigint, wait_10 bigint, wait_11 bigint, wait_12 bigint, wait_13 bigint,
    wait_14 bigint, wait_15 bigint) AS b
INNER LOOP JOIN chokaq_metric_rollup AS t WITH (FORCESEEK, ROWLOCK)
    ON t.span = b.span AND t.at = b.at AND t.series = b.series COLLATE Latin1_General_100_BIN2;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @rows nvarchar(max) = @p1;
DECLARE @rows_taken int = 0;
WHILE 1 = 1
BEGIN
    BEGIN TRY
        INSERT INTO chokaq_counter (
            series, queue, type, outcome, reason, count, total_ms)
        SELECT
            b.series, b.queue, b.type, b.outcome, b.reason, 0, 0
        FROM OPENJSON(@rows) WITH (
            series nvarchar(64), queue nvarchar(510), type nvarchar(510), outcome int, reason int) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_counter AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
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
    count = t.count + b.count, total_ms = t.total_ms + b.total_ms
FROM OPENJSON(@rows) WITH (
    series nvarchar(64), count bigint, total_ms bigint) AS b
INNER LOOP JOIN chokaq_counter AS t WITH (FORCESEEK, ROWLOCK)
    ON t.series = b.series COLLATE Latin1_General_100_BIN2;
GO
COMMIT TRANSACTION
GO
