-- trim_buckets
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @limit int = @p1,
    @days int = @p2,
    @seconds int = @p3,
    @microseconds int = @p4;
DECLARE @last datetime2(6), @deleted int, @all int = 0;
SELECT @last = MAX(old.at)
FROM (
    SELECT TOP (@limit) b.at FROM chokaq_metric_bucket AS b WITH (FORCESEEK)
    WHERE b.at <= DATEADD(day, @days, DATEADD(second, @seconds, DATEADD(microsecond, @microseconds, @now)))
    ORDER BY b.at) AS old;
WHILE @last IS NOT NULL
BEGIN
    DELETE TOP (2000) b FROM chokaq_metric_bucket AS b WITH (FORCESEEK, ROWLOCK) WHERE b.at <= @last;
    SET @deleted = @@ROWCOUNT;
    SET @all = @all + @deleted;
    IF @deleted < 2000 BREAK;
END;
SELECT @all;
GO
