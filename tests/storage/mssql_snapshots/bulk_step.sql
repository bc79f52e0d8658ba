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
    done,
    applied,
    requested,
    refused,
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
    @now
FROM chokaq_bulk_operation WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id = @p1;
GO
SET NOCOUNT ON;
SELECT failed_at, id
FROM (
    SELECT failed_at, id
    FROM chokaq_job_dlq
    WHERE failed_at <= @p1
        AND queue = @p2
        AND failure_reason IN (1, 2)
        AND fingerprint >= @p3
        AND fingerprint <= @p4
        AND CHARINDEX(@p5, tags COLLATE Latin1_General_100_BIN2) > 0
        AND failed_at >= @p6
    ORDER BY failed_at, id
    OFFSET 0 ROWS FETCH NEXT @p7 ROWS ONLY
) c
ORDER BY failed_at DESC, id DESC
OFFSET 0 ROWS FETCH NEXT @p8 ROWS ONLY;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_bulk_item (operation_id, job_id, generation, state)
SELECT @p1, id, generation, 0
FROM chokaq_job_dlq
WHERE failed_at <= @p2
    AND queue = @p3
    AND failure_reason IN (1, 2)
    AND fingerprint >= @p4
    AND fingerprint <= @p5
    AND CHARINDEX(@p6, tags COLLATE Latin1_General_100_BIN2) > 0
    AND failed_at >= @p7
    AND NOT (failed_at >= @p8 AND (failed_at > @p9 OR id > @p10));
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
-- bulk_step: the next chunk
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT failed_at, id
FROM (
    SELECT failed_at, id
    FROM chokaq_job_dlq
    WHERE failed_at <= @p1 AND failed_at >= @p2 AND (failed_at > @p3 OR id > @p4)
    ORDER BY failed_at, id
    OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY
) c
ORDER BY failed_at DESC, id DESC
OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_bulk_item (operation_id, job_id, generation, state)
SELECT @p1, id, generation, 0
FROM chokaq_job_dlq
WHERE failed_at <= @p2
    AND failed_at >= @p3
    AND (failed_at > @p4 OR id > @p5)
    AND NOT (failed_at >= @p6 AND (failed_at > @p7 OR id > @p8));
SELECT @@ROWCOUNT;
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
SELECT id
FROM (
    SELECT id
    FROM chokaq_job_hot
    WHERE created_at <= @p1 AND status = 0 AND run_at <= @p2 AND attempt > @p3 AND id > @p4
    ORDER BY id
    OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY
) c
ORDER BY id DESC
OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY;
GO
SET NOCOUNT ON;
INSERT INTO chokaq_bulk_item (operation_id, job_id, generation, state)
SELECT @p1, id, generation, 0
FROM chokaq_job_hot
WHERE created_at <= @p2
    AND status = 0
    AND run_at <= @p3
    AND attempt > @p4
    AND id > @p5
    AND NOT (id > @p6);
SELECT @@ROWCOUNT;
GO
-- statement 10 again
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
-- statement 10 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: the set is complete
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
SELECT finished_at, id
FROM (
    SELECT finished_at, id
    FROM chokaq_job_archive
    WHERE finished_at <= @p1
    ORDER BY finished_at, id
    OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY
) c
ORDER BY finished_at DESC, id DESC
OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY;
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
SELECT id, queue, idempotency_key
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
-- statement 18 again
GO
SET NOCOUNT ON;
SELECT id, queue
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
-- statement 21 again
GO
-- statement 22 again
GO
-- statement 23 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: remove
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 18 again
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
-- statement 21 again
GO
-- statement 22 again
GO
-- statement 23 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: cancel
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 18 again
GO
-- statement 30 again
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
-- statement 21 again
GO
-- statement 22 again
GO
-- statement 23 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: restore
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 18 again
GO
SET NOCOUNT ON;
SELECT id, came_from, queue, idempotency_key, status
FROM chokaq_job_trash WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY id;
GO
-- statement 21 again
GO
-- statement 22 again
GO
-- statement 23 again
GO
COMMIT TRANSACTION
GO
-- bulk_step: edit
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 18 again
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
SELECT id, revision, modified_by, queue, type, priority, tags, schema_version
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
-- statement 21 again
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
-- statement 22 again
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
-- bulk_step: revert
BEGIN TRANSACTION
GO
-- statement 2 again
GO
-- statement 18 again
GO
-- statement 36 again
GO
-- statement 37 again
GO
-- statement 21 again
GO
-- statement 22 again
GO
-- statement 23 again
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
-- statement 18 again
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
    updated_at = @now
FROM chokaq_bulk_operation AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id = @p7;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
