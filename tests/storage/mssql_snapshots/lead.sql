-- lead
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    term = CASE WHEN holder = @p1 THEN term ELSE term + 1 END,
    holder = @p2,
    expires_at = DATEADD(day, @p3, DATEADD(second, @p4, DATEADD(microsecond, @p5, @now)))
FROM chokaq_leader_lease AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.name = @p6 AND (holder = @p7 OR expires_at <= @now);
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_leader_lease (name, holder, term, expires_at)
SELECT @p1, @p2, 1, DATEADD(day, @p3, DATEADD(second, @p4, DATEADD(microsecond, @p5, @now)))
WHERE NOT EXISTS (
        SELECT 1
        FROM chokaq_leader_lease WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)
        WHERE name = @p6
    );
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
