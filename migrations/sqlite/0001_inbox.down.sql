DROP TABLE inbox_parked;
DROP TABLE inbox_events;
DROP TABLE inbox_lanes;
DROP TABLE inbox_partitions;
DROP TABLE inbox_consumers;
DROP TABLE inbox_schema_versions;
