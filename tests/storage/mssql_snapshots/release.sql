-- release
SET NOCOUNT ON;
DECLARE
    @now DATETIME2(6) = SYSUTCDATETIME(),
    @worker NVARCHAR(200) = @p1,
    @leases NVARCHAR(MAX) = @p2,
    @delayed BIT = @p3,
    @days INT = @p4,
    @seconds INT = @p5,
    @microseconds INT = @p6;
UPDATE h
SET
    status = 0,
    worker_id = NULL,
    updated_at = @now,
    run_at = CASE
        WHEN @delayed = 1 THEN DATEADD(
            day,
            @days,
            DATEADD(second, @seconds, DATEADD(microsecond, @microseconds, @now))
        )
        ELSE h.run_at
    END
OUTPUT inserted.id
FROM OPENJSON(@leases) WITH (
    id NVARCHAR(26),
    claim_number INT
) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 1;
GO
