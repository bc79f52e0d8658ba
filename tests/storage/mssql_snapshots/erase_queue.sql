-- erase_queue
SET NOCOUNT ON;
SELECT id FROM chokaq_job_hot WHERE queue = @p1 ORDER BY queue OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, revision
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND queue = @p2
ORDER BY id;
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
DELETE h
FROM chokaq_payload_version AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- statement 1 again
GO
SET NOCOUNT ON;
SELECT id FROM chokaq_job_archive WHERE queue = @p1 ORDER BY queue OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT id FROM chokaq_job_dlq WHERE queue = @p1 ORDER BY queue OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT id FROM chokaq_job_trash WHERE queue = @p1 ORDER BY queue OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT series FROM chokaq_failure_group WHERE queue = @p1 ORDER BY series OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT
    series,
    fingerprint,
    queue,
    type,
    shard,
    reason,
    error_type,
    message,
    sample_id,
    count,
    total,
    first_seen,
    last_seen
FROM chokaq_failure_group WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE series IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY series;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_failure_group AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.series IN (
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
        INSERT INTO chokaq_failure_total (
            fingerprint, count, total, first_seen, last_seen)
        SELECT
            b.fingerprint, 0, 0, COALESCE(b.first_seen, @now), COALESCE(b.last_seen, @now)
        FROM OPENJSON(@rows) WITH (
            fingerprint nvarchar(64), first_seen datetime2(6), last_seen datetime2(6)) AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM chokaq_failure_total AS t WITH (FORCESEEK, UPDLOCK, ROWLOCK)
            WHERE t.fingerprint = b.fingerprint COLLATE Latin1_General_100_BIN2)
        OPTION (LOOP JOIN);
        BREAK;
    END TRY
    BEGIN CATCH
        SET @rows_taken += 1;
        IF ERROR_NUMBER() NOT IN (2601, 2627) OR XACT_STATE() = -1 OR @rows_taken > 100 THROW;
    END CATCH;
END;
UPDATE t SET
    last_seen = CASE WHEN COALESCE(b.last_seen, @now) > t.last_seen
    THEN COALESCE(b.last_seen, @now) ELSE t.last_seen END,
    first_seen = CASE WHEN COALESCE(b.first_seen, @now) < t.first_seen
    THEN COALESCE(b.first_seen, @now) ELSE t.first_seen END, count = t.count + b.count, total = t.total + b.total
FROM OPENJSON(@rows) WITH (
    fingerprint nvarchar(64), count bigint, total bigint, first_seen datetime2(6), last_seen datetime2(6)) AS b
INNER LOOP JOIN chokaq_failure_total AS t WITH (FORCESEEK, ROWLOCK)
    ON t.fingerprint = b.fingerprint COLLATE Latin1_General_100_BIN2;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_failure_total AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.fingerprint IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND count = 0
    AND total = 0;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- statement 1 again
GO
-- statement 8 again
GO
-- statement 9 again
GO
-- statement 10 again
GO
-- statement 11 again
GO
SET NOCOUNT ON;
SELECT at, series FROM chokaq_metric_bucket WHERE queue = @p1 ORDER BY at, series OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_metric_bucket AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.series IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND at = @p2;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- statement 1 again
GO
-- statement 8 again
GO
-- statement 9 again
GO
-- statement 10 again
GO
-- statement 11 again
GO
-- statement 20 again
GO
SET NOCOUNT ON;
SELECT span, at, series FROM chokaq_metric_rollup WHERE queue = @p1 ORDER BY span, at, series OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_metric_rollup AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.series IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND span = @p2
    AND at = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- statement 1 again
GO
-- statement 8 again
GO
-- statement 9 again
GO
-- statement 10 again
GO
-- statement 11 again
GO
-- statement 20 again
GO
-- statement 23 again
GO
SET NOCOUNT ON;
SELECT series FROM chokaq_counter WHERE queue = @p1 ORDER BY series OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_counter AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.series IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- statement 1 again
GO
-- statement 8 again
GO
-- statement 9 again
GO
-- statement 10 again
GO
-- statement 11 again
GO
-- statement 20 again
GO
-- statement 23 again
GO
-- statement 26 again
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DELETE h FROM chokaq_queue AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p1;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
