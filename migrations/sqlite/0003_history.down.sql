DROP INDEX inbox_parked_order;
ALTER TABLE inbox_partitions DROP COLUMN record_next;
ALTER TABLE inbox_partitions DROP COLUMN record_leader_epoch;
ALTER TABLE inbox_partitions DROP COLUMN log_end_seen;
ALTER TABLE inbox_partitions DROP COLUMN key_rule;
ALTER TABLE inbox_partitions DROP COLUMN next_lane_count;
ALTER TABLE inbox_partitions DROP COLUMN next_lane_rule;
ALTER TABLE inbox_consumers DROP COLUMN inbox_id;
DELETE FROM inbox_schema_versions WHERE version = 3;
