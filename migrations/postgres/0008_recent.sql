-- The row of a partition is found at once, also while an old snapshot is open.
-- Its watermark is written once a second, and an open snapshot keeps every version since it began, behind one key of the
-- index. `slot` is when the row was last written, in units of 128 seconds, and part of the key: a statement begins its
-- search at the current slot or the one before. Within a slot an update is still HOT. A build before this version writes
-- no slot: the row is found then by reading all versions, as before.
ALTER TABLE inbox_partitions ADD COLUMN slot bigint NOT NULL DEFAULT 0;
ALTER TABLE inbox_partitions
    DROP CONSTRAINT inbox_partitions_pkey,
    ADD PRIMARY KEY (partition_ref, slot);
-- No number is given twice, as after a copy without its sequence. An index of the number itself would be taken for the
-- key's, and read every version.
CREATE UNIQUE INDEX inbox_partitions_number ON inbox_partitions ((partition_ref + 0));
