-- trim
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT others, at, job_id, again_at FROM chokaq_retention_mark WITH (FORCESEEK) WHERE name = @p1 ;
GO
SET NOCOUNT ON;
UPDATE h SET total = total + 1 FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p1;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
SELECT others, at, job_id, again_at FROM chokaq_retention_mark WITH (FORCESEEK, UPDLOCK, ROWLOCK) WHERE name = @p1 ;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_retention_mark (name, place, others, job_id, removed, total)
SELECT @p1, @p2, '', '', 0, 0
WHERE NOT EXISTS (
        SELECT 1
        FROM chokaq_retention_mark WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
        WHERE name = @p3
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
UPDATE h
SET others = @p1, at = @p2, job_id = @p3, again_at = NULL
FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name = @p4;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, finished_at, queue, type, -1
FROM chokaq_job_archive WITH (INDEX (chokaq_archive_time), FORCESEEK)
WHERE finished_at >= @p1 AND finished_at <= @p2 AND (finished_at > @p3 OR id > @p4)
ORDER BY finished_at, id
OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
-- statement 5 again
GO
SET NOCOUNT ON;
SELECT id, revision, queue, type
FROM chokaq_job_archive WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND finished_at <= @p2
ORDER BY id;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_job_archive AS h WITH (FORCESEEK, ROWLOCK)
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
SET NOCOUNT ON;
UPDATE h SET at = @p1, job_id = @p2 FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
BEGIN TRANSACTION
GO
-- statement 3 again
GO
-- statement 4 again
GO
-- statement 5 again
GO
-- statement 6 again
GO
-- statement 7 again
GO
COMMIT TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, failed_at, queue, type, failure_reason
FROM chokaq_job_dlq WITH (INDEX (chokaq_dlq_queue), FORCESEEK)
WHERE queue = @p1 AND failed_at >= @p2 AND failed_at <= @p3 AND (failed_at > @p4 OR id > @p5)
ORDER BY failed_at, id
OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY;
GO
BEGIN TRANSACTION
GO
-- statement 5 again
GO
SET NOCOUNT ON;
SELECT id, revision, queue, type, fingerprint, failure_reason, error_type, failed_at
FROM chokaq_job_dlq WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND failed_at <= @p2
ORDER BY id;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
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
-- statement 14 again
GO
COMMIT TRANSACTION
GO
