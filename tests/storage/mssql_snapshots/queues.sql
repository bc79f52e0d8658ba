-- queues
SET NOCOUNT ON;
SELECT
    name,
    is_paused,
    is_active,
    max_workers,
    zombie_timeout,
    execution_timeout,
    window_start,
    window_end,
    window_zone
FROM chokaq_queue
ORDER BY name;
GO
