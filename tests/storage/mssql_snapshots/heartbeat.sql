-- heartbeat: a row is passed over
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @leases nvarchar(max) = @p2;
UPDATE h SET heartbeat_at = @now, updated_at = @now
OUTPUT inserted.id, inserted.cancel_requested_at, inserted.cancel_requested_by
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 2;
GO
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @leases nvarchar(max) = @p2;
SELECT h.id, h.cancel_requested_at, h.cancel_requested_by
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, NOWAIT)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 2;
GO
