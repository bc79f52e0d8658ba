-- trim_bulk
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT id
FROM chokaq_bulk_operation
WHERE ended_at <= DATEADD(day, @p1, DATEADD(second, @p2, DATEADD(microsecond, @p3, @now)))
ORDER BY id
OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY;
GO
SET NOCOUNT ON;
SELECT job_id FROM chokaq_bulk_item WHERE operation_id = @p1 ORDER BY job_id OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO
SET NOCOUNT ON;
DELETE FROM chokaq_bulk_item WHERE operation_id = @p1 AND job_id <= @p2;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DELETE FROM chokaq_bulk_operation WHERE id = @p1;
SELECT @@ROWCOUNT;
GO
COMMIT TRANSACTION
GO
