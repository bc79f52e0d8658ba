-- edit
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, revision, modified_by, queue, type, priority, tags, schema_version, status
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
SELECT
    id,
    revision,
    modified_by,
    queue,
    type,
    priority,
    tags,
    schema_version,
    fingerprint,
    failure_reason,
    error_type,
    failed_at
FROM chokaq_job_dlq WITH (FORCESEEK, UPDLOCK, ROWLOCK)
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
INSERT INTO chokaq_payload_version (
    job_id,
    revision,
    type,
    schema_version,
    payload,
    replaced_at,
    replaced_by
)
SELECT id, revision, type, schema_version, payload, @now, @p1
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    revision = revision + 1,
    modified_by = @p1,
    payload = @p2,
    schema_version = @p3,
    tags = @p4,
    priority = @p5,
    queue = @p6,
    type = @p7,
    updated_at = @now
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p8 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_payload_version (
    job_id,
    revision,
    type,
    schema_version,
    payload,
    replaced_at,
    replaced_by
)
SELECT id, revision, type, schema_version, payload, @now, @p1
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
UPDATE h
SET
    revision = revision + 1,
    modified_by = @p1,
    payload = @p2,
    schema_version = @p3,
    tags = @p4,
    priority = @p5,
    queue = @p6,
    type = @p7
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p8 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
UPDATE h SET total = total + 1 FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK) WHERE h.name = @p1;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
SELECT MIN(failed_at)
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark WHERE place = @p1;
GO
SET NOCOUNT ON;
UPDATE h
SET again_at = CASE WHEN again_at < @p1 THEN again_at ELSE @p2 END
FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
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
