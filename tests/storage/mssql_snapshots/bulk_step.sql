-- bulk_step: the first chunk of the set
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    id,
    action,
    state,
    message,
    place,
    conditions,
    arguments,
    undo_of,
    requested_by,
    held,
    created_at,
    started_at,
    ended_at,
    total,
    counts,
    done,
    applied,
    requested,
    refused,
    left_alone,
    samples,
    succeeded,
    died,
    gone,
    rate,
    canary,
    canary_share,
    canary_timeout,
    canary_decision,
    canary_at,
    stop_share,
    stop_sample,
    stop_window,
    freeze_at,
    freeze_id,
    last_id,
    watch_id,
    paid_at,
    recent,
    history,
    @now
FROM chokaq_bulk_operation WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id = @p1;
GO
SET NOCOUNT ON;
SELECT id, generation, queue, type, failure_reason, failed_at
FROM chokaq_job_dlq
WHERE failed_at <= @p1
    AND queue = @p2
    AND failure_reason IN (1, 2)
    AND fingerprint >= @p3
    AND fingerprint <= @p4
    AND CHARINDEX(@p5, tags COLLATE Latin1_General_100_BIN2) > 0
    AND CHARINDEX(
        @p6,
        REPLACE(REPLACE(tags COLLATE Latin1_General_100_BIN2, @p7, @p8), @p9, @p10)
    ) > 0
    AND CHARINDEX(@p11, tags COLLATE Latin1_General_100_BIN2) > 0
    AND (
        CHARINDEX(
            @p12,
            REPLACE(REPLACE(tags COLLATE Latin1_General_100_BIN2, @p13, @p14), @p15, @p16)
        ) > 0
        OR tags COLLATE Latin1_General_100_BIN2 = @p17
    )
    AND failed_at >= @p18
ORDER BY failed_at, id
OFFSET 0 ROWS FETCH NEXT @p19 ROWS ONLY;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_bulk_item (operation_id, job_id, generation, state)
SELECT @p1, g.id, g.generation, 0
FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
    id NVARCHAR(26) '$[0]',
    generation INT '$[1]'
) AS g;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET total = @p1, freeze_at = @p2, freeze_id = @p3, updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p4;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: the first chunk of a set that is held
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 3 again
GO
-- statement 4 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET total = @p1, counts = @p2, freeze_at = @p3, freeze_id = @p4, updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p5;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: what another operation acted on, held
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT job_id, j.generation, j.queue, j.type, j.failure_reason, j.failed_at
FROM chokaq_bulk_item
INNER JOIN chokaq_job_dlq j ON j.id = job_id
WHERE operation_id = @p1 AND job_id > @p2 AND state IN (1, 4, 5, 6)
ORDER BY job_id
OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY;
GO
-- statement 4 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET total = @p1, counts = @p2, freeze_id = @p3, updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p4;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: ids that are held
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT job_id
FROM (
    SELECT job_id
    FROM chokaq_bulk_item WITH (FORCESEEK)
    WHERE operation_id = @p1 AND job_id > @p2
    ORDER BY job_id
    OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY
) c
ORDER BY job_id DESC
OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT DISTINCT
    queue,
    type,
    reason,
    COUNT(*) OVER (PARTITION BY queue, type, reason),
    MIN(moment) OVER (PARTITION BY queue, type, reason),
    MAX(moment) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p1 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p2 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p3 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason)
FROM (
    SELECT j.queue, j.type, -1 AS reason, j.created_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_hot j ON j.id = i.job_id
    WHERE i.operation_id = @p4 AND i.job_id > @p5 AND i.job_id <= @p6
    UNION ALL
    SELECT j.queue, j.type, -1 AS reason, j.finished_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_archive j ON j.id = i.job_id
    WHERE i.operation_id = @p7 AND i.job_id > @p8 AND i.job_id <= @p9
    UNION ALL
    SELECT j.queue, j.type, failure_reason AS reason, j.failed_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_dlq j ON j.id = i.job_id
    WHERE i.operation_id = @p10 AND i.job_id > @p11 AND i.job_id <= @p12
) f
ORDER BY queue, type, reason;
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
UPDATE h SET counts = @p1, freeze_id = @p2, updated_at = @now FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK) WHERE h.id = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: the next chunk
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT id, generation, queue, type, failure_reason, failed_at
FROM chokaq_job_dlq
WHERE failed_at <= @p1 AND 1 = 1 AND failed_at >= @p2 AND (failed_at > @p3 OR id > @p4)
ORDER BY failed_at, id
OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY;
GO
-- statement 4 again
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
UPDATE h SET total = @p1, freeze_id = @p2, updated_at = @now FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK) WHERE h.id = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: of active jobs
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT id, generation, queue, type, -1, created_at
FROM chokaq_job_hot
WHERE (created_at <= @p1 OR created_at > @p2)
    AND status = 0
    AND run_at <= @p3
    AND attempt > @p4
    AND id > @p5
ORDER BY id
OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY;
GO
-- statement 4 again
GO
-- statement 17 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: of another operation
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT job_id
FROM (
    SELECT job_id
    FROM chokaq_bulk_item WITH (FORCESEEK)
    WHERE operation_id = @p1 AND job_id > @p2 AND state IN (1, 4, 5, 6)
    ORDER BY job_id
    OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY
) c
ORDER BY job_id DESC
OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_bulk_item (operation_id, job_id, generation, state, note)
SELECT @p1, job_id, NULL, 0, note
FROM chokaq_bulk_item WITH (FORCESEEK)
WHERE operation_id = @p2 AND job_id > @p3 AND state IN (1, 4, 5, 6) AND job_id <= @p4;
SELECT @@ROWCOUNT;
GO
-- statement 17 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: dead ones of another operation
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 11 again
GO
-- statement 4 again
GO
-- statement 17 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: the set is complete
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT id, generation, queue, type, -1, finished_at
FROM chokaq_job_archive
WHERE finished_at <= @p1 AND 1 = 1
ORDER BY finished_at, id
OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT id, generation, queue, type, -1, finished_at
FROM chokaq_job_archive
WHERE finished_at > @p1 AND 1 = 1
ORDER BY finished_at, id
OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
UPDATE h SET state = @p1, started_at = @p2, updated_at = @now FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK) WHERE h.id = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: resurrect
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT job_id, generation, note
FROM chokaq_bulk_item WITH (FORCESEEK)
WHERE operation_id = @p1 AND job_id > @p2
ORDER BY job_id
OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT id, generation
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT id, queue, type, fingerprint, failure_reason, error_type, failed_at, idempotency_key
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
SET NOCOUNT ON;
UPDATE h
SET state = 2, note = @p1
FROM chokaq_bulk_item AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.operation_id = @p2
    AND job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    state = @p1,
    ended_at = @p2,
    done = @p3,
    refused = @p4,
    samples = @p5,
    last_id = @p6,
    updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p7;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: purge
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
SET NOCOUNT ON;
SELECT id, queue, type, fingerprint, failure_reason, error_type, failed_at
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
SELECT id, queue
FROM chokaq_job_archive WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
-- statement 29 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: remove
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
SET NOCOUNT ON;
SELECT id, generation
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
SELECT id, status
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
-- statement 29 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: cancel
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
-- statement 38 again
GO
SET NOCOUNT ON;
SELECT id, status, queue, type
FROM chokaq_job_hot WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
-- statement 29 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: restore
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
SET NOCOUNT ON;
SELECT
    id,
    operation_id,
    came_from,
    idempotency_key,
    status,
    queue,
    type,
    fingerprint,
    failure_reason,
    error_type,
    failed_at
FROM chokaq_job_trash WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
-- statement 29 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: restore what another has purged
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
-- statement 42 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: edit
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
SET NOCOUNT ON;
SELECT id, generation
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, generation
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
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
UPDATE h
SET revision = revision + 1, modified_by = @p1, priority = @p2, updated_at = @now
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 29 again
GO
SET NOCOUNT ON;
UPDATE h
SET state = 1, note = @p1
FROM chokaq_bulk_item AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.operation_id = @p2
    AND job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 30 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    state = @p1,
    ended_at = @p2,
    done = @p3,
    applied = @p4,
    refused = @p5,
    samples = @p6,
    last_id = @p7,
    updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p8;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: edit by a patch
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
-- statement 44 again
GO
-- statement 45 again
GO
SET NOCOUNT ON;
SELECT id, payload
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
    updated_at = @now
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p4 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 48 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET state = @p1, ended_at = @p2, done = @p3, applied = @p4, last_id = @p5, updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p6;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
-- bulk_step: revert
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
-- statement 45 again
GO
-- statement 46 again
GO
-- statement 29 again
GO
-- statement 30 again
GO
-- statement 31 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: revert of a patch
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 26 again
GO
SET NOCOUNT ON;
SELECT job_id, payload, schema_version
FROM chokaq_payload_version WITH (FORCESEEK)
WHERE job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
    AND revision = @p2;
GO
-- statement 45 again
GO
-- statement 52 again
GO
-- statement 53 again
GO
-- statement 54 again
GO
SET NOCOUNT ON;
UPDATE h
SET state = 1
FROM chokaq_bulk_item AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.operation_id = @p1
    AND job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 56 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: watching
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT job_id, state
FROM chokaq_bulk_item WITH (FORCESEEK)
WHERE operation_id = @p1 AND job_id > @p2 AND job_id <= @p3
ORDER BY job_id
OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT id, -1
FROM chokaq_job_hot WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, -2
FROM chokaq_job_archive WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
UNION ALL
SELECT id, failure_reason
FROM chokaq_job_dlq WITH (FORCESEEK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
GO
SET NOCOUNT ON;
UPDATE h
SET state = 4
FROM chokaq_bulk_item AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.operation_id = @p1
    AND job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
UPDATE h
SET state = 5
FROM chokaq_bulk_item AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.operation_id = @p1
    AND job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p2 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 26 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    state = @p1,
    ended_at = @p2,
    done = @p3,
    succeeded = @p4,
    died = @p5,
    recent = @p6,
    history = @p7,
    updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p8;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
