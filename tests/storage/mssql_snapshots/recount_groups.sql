-- recount_groups
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    term = CASE WHEN holder = @p1 THEN term ELSE term + 1 END,
    holder = @p2,
    expires_at = DATEADD(day, @p3, DATEADD(second, @p4, DATEADD(microsecond, @p5, @now)))
FROM chokaq_leader_lease AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name = @p6 AND (holder = @p7 OR expires_at <= @now);
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, failure_reason, error_type
FROM chokaq_job_dlq WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE fingerprint IS NULL
ORDER BY failed_at
OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY;
GO
SET NOCOUNT ON;
UPDATE h
SET fingerprint = @p1
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 5 again
GO
COMMIT TRANSACTION
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT
    fingerprint,
    queue,
    type,
    SUM(dead),
    SUM(missing),
    MIN(first_seen),
    MAX(last_seen),
    MAX(sample_id)
FROM (
    SELECT
        fingerprint,
        queue,
        type,
        COUNT(*) AS dead,
        COUNT(*) AS missing,
        MIN(failed_at) AS first_seen,
        MAX(failed_at) AS last_seen,
        MAX(id) AS sample_id
    FROM chokaq_job_dlq WITH (TABLOCK, HOLDLOCK)
    GROUP BY fingerprint, queue, type
    UNION ALL
    SELECT fingerprint, queue, type, 0, -SUM(count), NULL, NULL, NULL
    FROM chokaq_failure_group WITH (TABLOCK, HOLDLOCK)
    GROUP BY fingerprint, queue, type
) g
GROUP BY fingerprint, queue, type
HAVING SUM(missing) <> 0
ORDER BY fingerprint, queue, type;
GO
COMMIT TRANSACTION
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, failure_reason, error_type, error_details, failed_at
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
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
FROM chokaq_failure_group WITH (FORCESEEK)
WHERE fingerprint IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY last_seen;
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
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT fingerprint, SUM(dead), SUM(ever), MIN(first_seen), MAX(last_seen)
FROM (
    SELECT fingerprint, count AS dead, total AS ever, first_seen, last_seen
    FROM chokaq_failure_group WITH (TABLOCK, HOLDLOCK)
    WHERE series >= 'g'
    UNION ALL
    SELECT fingerprint, -count, -total, first_seen, last_seen
    FROM chokaq_failure_total WITH (TABLOCK, HOLDLOCK)
) g
GROUP BY fingerprint
HAVING SUM(dead) <> 0 OR SUM(ever) <> 0
ORDER BY fingerprint;
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
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
UPDATE h SET expires_at = @now FROM chokaq_leader_lease AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p1 AND holder = @p2;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
