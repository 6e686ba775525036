-- What waits for its next attempt is unsent again, and what is held behind it goes after it. What has a time goes at once.
INSERT INTO outbox_releases AS r (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_events
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = r.asked + 1;
UPDATE outbox_events SET failed_at = NULL, error = NULL
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL;
DROP TABLE outbox_audit;
DROP INDEX outbox_events_retries, outbox_events_set_aside, outbox_events_dedup;
ALTER TABLE outbox_events DROP COLUMN attempts, DROP COLUMN retry_at, DROP COLUMN deliver_after, DROP COLUMN dedup_key;
DELETE FROM outbox_schema_versions WHERE version = 3;
