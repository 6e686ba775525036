-- Positions of lanes are found at once, also while an old snapshot is open.

-- While any snapshot is open (a dump, a report, a replica's feedback, an idle transaction), no version of a row that was
-- written after it can be removed. A lane's row has a new version after each transaction, and all of them stood behind
-- one key of the index: a claim and an advance walked along every version since the snapshot. `slot` is the position
-- without its last eight bits and part of the key, so that at most those of 256 offsets are walked. Within a slot an
-- update is still HOT. A lane has one row, as before; take-overs see to that, one at a time for each partition, and to
-- the slot of rows that a build before this version has moved. No generated column: those are not replicated, and the
-- key is what a subscriber finds rows by.
--
-- The table is rewritten, which takes a moment: it has a row for each lane of each partition.
ALTER TABLE inbox_lanes
    ADD COLUMN slot bigint NOT NULL DEFAULT 0,
    ADD COLUMN added_by smallint NOT NULL DEFAULT 7;
UPDATE inbox_lanes SET slot = last_offset >> 8;
ALTER TABLE inbox_lanes
    DROP CONSTRAINT inbox_lanes_pkey,
    ADD PRIMARY KEY (partition_ref, lane, slot);

-- A build before this version adds the lanes that it takes for missing by the key of before, and would add each one a
-- second time. It is refused, and goes on with the partitions that it has.
ALTER TABLE inbox_lanes ALTER COLUMN added_by SET DEFAULT 0,
    ADD CONSTRAINT inbox_lanes_need_a_newer_build CHECK (added_by >= 7);
