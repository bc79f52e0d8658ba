-- report_circuits
BEGIN TRANSACTION
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    type,
    state,
    failures,
    window_started_at,
    opened_at,
    open_until,
    probes,
    probe_successes,
    forced,
    @now
FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK, ROWLOCK)
WHERE type IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY type;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO chokaq_circuit (type, state, failures, probes, probe_successes, forced, updated_at)
SELECT @p1, @p2, @p3, @p4, @p5, @p6, @now
WHERE NOT EXISTS (
        SELECT 1 FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK) WHERE type = @p7
    );
SELECT @@ROWCOUNT;
GO
-- statement 2 again
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE h
SET
    state = @p1,
    failures = @p2,
    window_started_at = @p3,
    opened_at = @p4,
    open_until = @p5,
    probes = @p6,
    probe_successes = @p7,
    updated_at = @now
FROM chokaq_circuit AS h WITH (FORCESEEK, ROWLOCK)
WHERE h.type = @p8;
SELECT @@ROWCOUNT;
GO
SET NOCOUNT ON;
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT
    type,
    state,
    failures,
    window_started_at,
    opened_at,
    open_until,
    probes,
    probe_successes,
    forced,
    @now
FROM chokaq_circuit WITH (FORCESEEK)
WHERE type IN (
        SELECT j.item COLLATE Latin1_General_100_BIN2
        FROM OPENJSON(CAST(@p1 AS NVARCHAR(MAX))) WITH (
            item NVARCHAR(510) '$'
        ) AS j
    )
ORDER BY type;
GO
COMMIT TRANSACTION
GO
