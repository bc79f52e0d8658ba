-- progress
SET NOCOUNT, XACT_ABORT ON;
DECLARE
    @now datetime2(6) = SYSUTCDATETIME(),
    @worker nvarchar(200) = @p1,
    @notes nvarchar(max) = @p2,
    @texts nvarchar(max) = @p3;
DECLARE @note TABLE (
    id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY, claim_number int NOT NULL, progress int NULL,
    message_at int NULL, message_length int NULL);
INSERT INTO @note (id, claim_number, progress, message_at, message_length)
SELECT j.id, j.claim_number, j.progress, j.message_at, j.message_length
FROM OPENJSON(@notes) WITH (
    id nvarchar(26), claim_number int, progress int, message_at int, message_length int) AS j;
DECLARE @held TABLE (id nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
BEGIN TRANSACTION;
INSERT INTO @held (id)
SELECT h.id
FROM @note AS l INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK) ON h.id = l.id
WHERE h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = 2;
UPDATE h SET progress = l.progress, progress_message = SUBSTRING(@texts, l.message_at, l.message_length), updated_at = @now
FROM @held AS s
INNER JOIN @note AS l ON l.id = s.id
INNER LOOP JOIN chokaq_job_hot AS h WITH (FORCESEEK, ROWLOCK) ON h.id = l.id;
COMMIT TRANSACTION;
SELECT s.id FROM @held AS s;
GO
