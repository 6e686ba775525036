DROP TABLE inbox_parked, inbox_events, inbox_lanes, inbox_partitions, inbox_consumers, inbox_schema_versions;
