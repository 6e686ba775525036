-- What a take-over needs to see that the log, the database or the configuration is not what it was.
-- The statements lock the tables in the order of a transaction, so that old processes may run beside them.

-- As in `inbox_parked`; rows that are there already are not looked at.
ALTER TABLE inbox_events
    ADD CONSTRAINT inbox_events_fingerprint_check CHECK (octet_length(fingerprint) = 16) NOT VALID;

-- The order of a queue is that of its offsets: a logical copy of a database carries rows, not sequences.
CREATE INDEX inbox_parked_order ON inbox_parked (partition_ref, aggregate_key, "offset", leader_epoch);

-- `record_next`, `record_leader_epoch`: the offset after the last record below the watermark, and the leader epoch of
-- that record; -1: not known. The watermark's own leader epoch is unknown behind a transaction marker.
-- `log_end_seen`: the lowest end of the log that was seen below the watermark; NULL: none.
-- `key_rule`: how the keys of parked rows were made, while `key_epoch` is set. A build before this one does not set
-- it with the epoch, so it does not take a partition over while rows are parked under keys that it would not find.
-- `next_lane_count`, `next_lane_rule`: the lanes that the configuration wants, until the partition is drained.
-- `held_lanes`: JSON for `status`, the lanes whose first event has been that for some seconds, and why.
ALTER TABLE inbox_partitions
    ADD COLUMN record_next         bigint NOT NULL DEFAULT -1,
    ADD COLUMN record_leader_epoch integer NOT NULL DEFAULT -1,
    ADD COLUMN log_end_seen        bigint,
    ADD COLUMN key_rule            text NOT NULL DEFAULT '',
    ADD COLUMN key_epoch           bigint
        CONSTRAINT inbox_parked_keys_need_a_newer_build CHECK (key_epoch = epoch),
    ADD COLUMN next_lane_count     integer,
    ADD COLUMN next_lane_rule      text,
    ADD COLUMN held_lanes          text;

-- Events that are run with care: while they run after an owner that ended without a word (`incarnation` is the process
-- that runs them), when processes have ended meanwhile (`deaths`), and when a person wants them parked (`doom`).
CREATE TABLE inbox_suspects (
    partition_ref bigint NOT NULL,
    "offset"      bigint NOT NULL,
    incarnation   uuid,
    deaths        integer NOT NULL DEFAULT 0,
    doom          text,
    PRIMARY KEY (partition_ref, "offset")
);

-- `inbox_id` names this inbox in the metadata of Kafka commits: a group's offset with this mark is ours, and a
-- partition without a row is then a database that has lost history, not a first start.
ALTER TABLE inbox_consumers ADD COLUMN inbox_id uuid NOT NULL DEFAULT gen_random_uuid();
