-- lock_ahead
SET NOCOUNT ON;
SELECT id, queue
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
