-- live_rows
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME();
DECLARE @first nvarchar(510) = N'';
SELECT h.id, h.claim_number, h.status, h.worker_id, h.queue, h.type, h.attempt, h.max_attempts, h.crash_count,
       h.attempt_log, h.started_at, h.heartbeat_at, h.updated_at, h.cancel_requested_at, h.cancel_requested_by
FROM chokaq_job_hot AS h WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE h.status IN (1, 2) AND h.queue > @first;
GO
