-- forget_rules
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
SELECT name FROM chokaq_retention_mark;
GO
SET NOCOUNT ON;
DELETE h
FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
