-- annotate
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT id, note, assignee, acknowledged_at
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
SET note = @p1, assignee = @p2, acknowledged_at = COALESCE(acknowledged_at, @now)
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p3 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
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
BEGIN TRANSACTION
GO
-- statement 2 again
GO
SET NOCOUNT ON;
UPDATE h
SET assignee = NULL, acknowledged_at = NULL
FROM chokaq_job_dlq AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
-- statement 4 again
GO
COMMIT TRANSACTION
GO
