-- bulk_count
SET NOCOUNT ON;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
SELECT @now;
GO
SET NOCOUNT ON;
SELECT DISTINCT
    queue,
    type,
    reason,
    COUNT(*) OVER (PARTITION BY queue, type, reason),
    MIN(moment) OVER (PARTITION BY queue, type, reason),
    MAX(moment) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p1 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p2 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason),
    SUM(CASE WHEN moment > @p3 THEN 1 ELSE 0 END) OVER (PARTITION BY queue, type, reason)
FROM (
    SELECT queue, type, failure_reason AS reason, failed_at AS moment
    FROM chokaq_job_dlq
    WHERE queue = @p4
        AND failure_reason IN (1, 2)
        AND fingerprint >= @p5
        AND fingerprint <= @p6
        AND CHARINDEX(@p7, tags COLLATE Latin1_General_100_BIN2) > 0
        AND CHARINDEX(
            @p8,
            REPLACE(REPLACE(tags COLLATE Latin1_General_100_BIN2, @p9, @p10), @p11, @p12)
        ) > 0
        AND CHARINDEX(@p13, tags COLLATE Latin1_General_100_BIN2) > 0
        AND (
            CHARINDEX(
                @p14,
                REPLACE(REPLACE(tags COLLATE Latin1_General_100_BIN2, @p15, @p16), @p17, @p18)
            ) > 0
            OR tags COLLATE Latin1_General_100_BIN2 = @p19
        )
        AND failed_at >= @p20
    ORDER BY failed_at, id
    OFFSET 0 ROWS FETCH NEXT @p21 ROWS ONLY
) f
ORDER BY queue, type, reason;
GO
