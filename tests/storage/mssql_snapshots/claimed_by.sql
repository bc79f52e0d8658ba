-- claimed_by
SET NOCOUNT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1;
SELECT h.id, h.queue, h.type, h.schema_version, h.payload, h.tags, h.priority, h.attempt, h.max_attempts,
       h.crash_count, h.snooze_count, h.claim_number, h.generation, h.created_by, h.created_at, h.started_at,
       h.run_at, h.due_at, h.deadline_at, h.headers, h.attempt_log, h.status, @now
FROM chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK)
WHERE h.status IN (1, 2) AND h.queue > N'' AND h.worker_id = @worker
ORDER BY h.priority DESC, h.run_at, h.id;
GO
