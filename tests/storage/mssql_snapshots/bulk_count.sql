-- bulk_count
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
SET NOCOUNT ON;
SELECT DISTINCT
    queue,
    type,
    COUNT(*) OVER (PARTITION BY queue, type),
    MIN(moment) OVER (PARTITION BY queue, type),
    MAX(moment) OVER (PARTITION BY queue, type),
    SUM(CASE WHEN moment > @p1 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type),
    SUM(CASE WHEN moment > @p2 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type),
    SUM(CASE WHEN moment > @p3 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type)
FROM (
    SELECT queue, type, failed_at AS moment
    FROM chokaq_job_dlq
    WHERE failed_at <= @p4
        AND queue = @p5
        AND failure_reason IN (1, 2)
        AND fingerprint >= @p6
        AND fingerprint <= @p7
        AND CHARINDEX(@p8, tags COLLATE Latin1_General_100_BIN2) > 0
        AND failed_at >= @p9
    ORDER BY failed_at, id
    OFFSET 0 ROWS FETCH NEXT @p10 ROWS ONLY
) f
ORDER BY queue, type;
GO
