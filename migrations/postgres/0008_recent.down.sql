DROP INDEX inbox_partitions_number;
ALTER TABLE inbox_partitions
    DROP CONSTRAINT inbox_partitions_pkey,
    DROP COLUMN slot,
    ADD PRIMARY KEY (partition_ref);
DELETE FROM inbox_schema_versions WHERE version = 8;
