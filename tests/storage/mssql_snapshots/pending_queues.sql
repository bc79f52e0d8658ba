-- pending_queues
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
DECLARE @name NVARCHAR(510) = N'';
DECLARE @found TABLE (
    name NVARCHAR(510) COLLATE Latin1_General_100_BIN2 NOT NULL
);
SELECT @name = MIN(h.queue)
FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE h.status = 0 AND h.queue > @name;
WHILE @name IS NOT NULL
BEGIN
    INSERT INTO @found (name)
    VALUES (@name);
    SELECT @name = MIN(h.queue)
    FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.status = 0 AND h.queue > @name;
END;
SELECT f.name FROM @found AS f;
GO
