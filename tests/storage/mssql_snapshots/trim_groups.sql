-- trim_groups
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT series
FROM chokaq_failure_group WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE series > @p1
    AND count = 0
    AND last_seen <= DATEADD(day, @p2, DATEADD(second, @p3, DATEADD(microsecond, @p4, @now)))
    AND NOT EXISTS (
        SELECT 1
        FROM chokaq_failure_group o
        WHERE o.fingerprint = chokaq_failure_group.fingerprint
            AND (
                o.count <> 0
                OR o.last_seen > DATEADD(
                    day,
                    @p5,
                    DATEADD(second, @p6, DATEADD(microsecond, @p7, @now))
                )
            )
    )
ORDER BY series
OFFSET 0 ROWS FETCH NEXT @p8 ROWS ONLY;
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
