-- trimmed
BEGIN TRANSACTION
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
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET passed_at = @now, removed = @p1, total = total + @p2
FROM chokaq_retention_mark AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name = @p3;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
