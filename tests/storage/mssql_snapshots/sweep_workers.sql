-- sweep_workers
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DELETE FROM chokaq_worker
WHERE id IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
