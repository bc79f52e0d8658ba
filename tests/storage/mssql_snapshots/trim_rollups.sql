-- trim_rollups
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @limit int = @p1,
    @span int = @p2,
    @days int = @p3,
    @seconds int = @p4,
    @microseconds int = @p5;
DECLARE @last datetime2(6), @deleted int, @all int = 0;
SELECT @last = MAX(old.at)
FROM (
    SELECT TOP (@limit) b.at FROM chokaq_metric_rollup AS b WITH (FORCESEEK)
    WHERE b.span = @span
        AND b.at <= DATEADD(day, @days, DATEADD(second, @seconds, DATEADD(microsecond, @microseconds, @now)))
    ORDER BY b.at) AS old;
WHILE @last IS NOT NULL
BEGIN
    DELETE TOP (2000) b FROM chokaq_metric_rollup AS b WITH (FORCESEEK, ROWLOCK) WHERE b.span = @span AND b.at <= @last;
    SET @deleted = @@ROWCOUNT;
    SET @all = @all + @deleted;
    IF @deleted < 2000 BREAK;
END;
SELECT @all;
GO
