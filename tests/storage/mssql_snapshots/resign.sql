-- resign
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
UPDATE chokaq_leader_lease SET expires_at = @now WHERE name = @p1 AND holder = @p2;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
