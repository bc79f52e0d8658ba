-- group_drift
SET NOCOUNT ON;
SELECT fingerprint, SUM(dead), SUM(missing)
FROM (
    SELECT fingerprint, COUNT(*) AS dead, COUNT(*) AS missing
    FROM chokaq_job_dlq
    GROUP BY fingerprint
    UNION ALL
    SELECT fingerprint, 0, -SUM(count) FROM chokaq_failure_group GROUP BY fingerprint
) g
GROUP BY fingerprint
HAVING SUM(missing) <> 0
ORDER BY fingerprint;
GO
SET NOCOUNT ON;
SELECT queue, SUM(dead), SUM(missing)
FROM (
    SELECT queue, COUNT(*) AS dead, COUNT(*) AS missing FROM chokaq_job_dlq GROUP BY queue
    UNION ALL
    SELECT queue, 0, -SUM(count) FROM chokaq_failure_group GROUP BY queue
) g
GROUP BY queue
HAVING SUM(missing) <> 0
ORDER BY queue;
GO
SET NOCOUNT ON;
SELECT type, SUM(dead), SUM(missing)
FROM (
    SELECT type, COUNT(*) AS dead, COUNT(*) AS missing FROM chokaq_job_dlq GROUP BY type
    UNION ALL
    SELECT type, 0, -SUM(count) FROM chokaq_failure_group GROUP BY type
) g
GROUP BY type
HAVING SUM(missing) <> 0
ORDER BY type;
GO
