-- circuits
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
FROM chokaq_circuit
WHERE state <> 0 OR failures > 0
ORDER BY type;
GO
