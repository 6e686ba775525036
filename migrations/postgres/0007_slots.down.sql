ALTER TABLE inbox_lanes
    DROP CONSTRAINT inbox_lanes_pkey,
    DROP COLUMN slot,
    DROP COLUMN added_by,
    ADD PRIMARY KEY (partition_ref, lane);
DELETE FROM inbox_schema_versions WHERE version = 7;
