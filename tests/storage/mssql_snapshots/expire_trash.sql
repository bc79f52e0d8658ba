-- expire_trash
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT id, revision
FROM chokaq_job_trash WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE expires_at <= @now
ORDER BY expires_at
OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY;
GO
SET NOCOUNT ON;
DELETE FROM chokaq_job_trash
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DELETE FROM chokaq_payload_version
WHERE job_id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
