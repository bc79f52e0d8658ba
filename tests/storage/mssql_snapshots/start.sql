-- start
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @leases nvarchar(max) = @p2;
DECLARE @held TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY, status int NOT NULL, attempt int NOT NULL);
BEGIN TRANSACTION;
INSERT INTO @held (id, status, attempt)
SELECT h.id,
    CASE
        WHEN EXISTS (
    SELECT 1 FROM chokaq_queue AS s WITH (FORCESEEK)
    WHERE s.name = h.queue AND (s.is_paused = 1 OR s.is_active = 0)) THEN 0
        WHEN h.deadline_at < @now THEN 1
        ELSE 2
    END,
    h.attempt
FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, ROWLOCK)
    ON h.id = l.id COLLATE Latin1_General_100_BIN2
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 1;
UPDATE @held SET attempt = attempt + 1 WHERE status = 2;
UPDATE h SET
    status = s.status, attempt = s.attempt, updated_at = @now,
    worker_id = CASE WHEN s.status = 0 THEN NULL ELSE h.worker_id END,
    started_at = CASE WHEN s.status = 2 THEN @now ELSE h.started_at END,
    heartbeat_at = CASE WHEN s.status = 2 THEN @now ELSE NULL END
FROM @held AS s INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = s.id;
COMMIT TRANSACTION;
SELECT s.id, s.status, s.attempt, @now FROM @held AS s;
GO
