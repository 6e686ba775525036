ALTER TABLE inbox_events DROP CONSTRAINT inbox_events_fingerprint_check;
DROP TABLE inbox_suspects;
DROP INDEX inbox_parked_order;
ALTER TABLE inbox_partitions DROP COLUMN record_next, DROP COLUMN record_leader_epoch, DROP COLUMN log_end_seen,
    DROP COLUMN key_rule, DROP COLUMN key_epoch, DROP COLUMN next_lane_count, DROP COLUMN next_lane_rule,
    DROP COLUMN held_lanes;
ALTER TABLE inbox_consumers DROP COLUMN inbox_id;
DELETE FROM inbox_schema_versions WHERE version = 3;
