-- cancel_requests
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @leases nvarchar(max) = @p1;
SELECT h.id, h.cancel_requested_by
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.status = 2 AND h.cancel_requested_at IS NOT NULL;
GO
