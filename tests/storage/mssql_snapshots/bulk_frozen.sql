-- bulk_frozen
SET NOCOUNT ON;
SELECT counts FROM chokaq_bulk_operation WITH (FORCESEEK) WHERE id = @p1;
GO
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
    SELECT j.queue, j.type, -1 AS reason, j.created_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_hot j ON j.id = i.job_id
    WHERE i.operation_id = @p4
    UNION ALL
    SELECT j.queue, j.type, -1 AS reason, j.finished_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_archive j ON j.id = i.job_id
    WHERE i.operation_id = @p5
    UNION ALL
    SELECT j.queue, j.type, failure_reason AS reason, j.failed_at AS moment
    FROM chokaq_bulk_item i
    INNER JOIN chokaq_job_dlq j ON j.id = i.job_id
    WHERE i.operation_id = @p6
) f
ORDER BY queue, type, reason;
GO
