-- trim_due
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
SET NOCOUNT ON;
SELECT others, at, job_id, again_at FROM chokaq_retention_mark WITH (FORCESEEK) WHERE name = @p1 ;
GO
SET NOCOUNT ON;
SELECT id, finished_at, queue, type, -1
FROM chokaq_job_archive WITH (INDEX (chokaq_archive_type), FORCESEEK)
WHERE type = @p1 AND finished_at >= @p2 AND finished_at <= @p3 AND (finished_at > @p4 OR id > @p5)
ORDER BY finished_at, id
OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY;
GO
