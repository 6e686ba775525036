-- The inbox: who consumes, where each partition and lane stands, which events were seen, which are parked.
-- Times are the database's. `watermark` is the next offset (exclusive), `last_offset` the last settled one (inclusive).

CREATE TABLE inbox_schema_versions (
    version    bigint PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE inbox_consumers (
    consumer_ref bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer     text NOT NULL UNIQUE
);

-- One row per partition of a topic, as long as the topic has this id; all zero: the id is not known.
CREATE TABLE inbox_partitions (
    partition_ref          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_ref           bigint NOT NULL,
    topic                  text NOT NULL,
    topic_id               uuid NOT NULL,
    partition              integer NOT NULL CHECK (partition >= 0),
    lane_count             integer NOT NULL CHECK (lane_count BETWEEN 1 AND 65535),
    lane_rule              text NOT NULL,
    remapped_below         bigint NOT NULL DEFAULT 0,
    epoch                  bigint NOT NULL DEFAULT 0,
    watermark              bigint NOT NULL CHECK (watermark >= 0),
    watermark_leader_epoch integer NOT NULL DEFAULT -1,
    owner                  text,
    owner_instance         text,
    owner_incarnation      uuid,
    owner_seen             timestamptz,
    standstill             text,
    created_at             timestamptz NOT NULL DEFAULT now(),
    retired_at             timestamptz,
    UNIQUE (consumer_ref, topic, topic_id, partition)
) WITH (fillfactor = 50);

-- No foreign key and no further index: every advance shall be a HOT update, and a foreign key to these
-- rows would make a MultiXact of nearly each one.
CREATE TABLE inbox_lanes (
    partition_ref     bigint NOT NULL,
    lane              integer NOT NULL,
    epoch             bigint NOT NULL,
    last_offset       bigint NOT NULL,
    last_leader_epoch integer NOT NULL,
    PRIMARY KEY (partition_ref, lane)
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE inbox_events (
    consumer_ref  bigint NOT NULL,
    partition_ref bigint NOT NULL,
    "offset"      bigint NOT NULL,
    processed_at  timestamptz NOT NULL DEFAULT now(),
    event_id      uuid NOT NULL,
    parked        boolean NOT NULL DEFAULT false,
    fingerprint   bytea NOT NULL,
    -- The id first: comparing two keys of the index ends at the first column.
    PRIMARY KEY (event_id, consumer_ref)
);

-- `due_at`: NULL follows an earlier event of its aggregate, 'infinity' waits for a person.
CREATE TABLE inbox_parked (
    parked_seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_ref bigint NOT NULL,
    lane          integer NOT NULL,
    aggregate_key bytea NOT NULL CHECK (octet_length(aggregate_key) = 16),
    consumer_ref  bigint NOT NULL,
    event_id      uuid NOT NULL,
    fingerprint   bytea NOT NULL CHECK (octet_length(fingerprint) = 16),
    "offset"      bigint NOT NULL,
    leader_epoch  integer NOT NULL,
    reason        text NOT NULL,
    attempts      integer NOT NULL,
    due_at        timestamptz,
    intent        text CHECK (intent IN ('release', 'discard')),
    intent_by     text,
    intent_at     timestamptz,
    parked_at     timestamptz NOT NULL DEFAULT now(),
    record        text NOT NULL,
    UNIQUE (partition_ref, "offset", leader_epoch)
);
CREATE INDEX inbox_parked_queue ON inbox_parked (partition_ref, aggregate_key, parked_seq);
CREATE INDEX inbox_parked_due ON inbox_parked (partition_ref, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_parked_intent ON inbox_parked (partition_ref) WHERE intent IS NOT NULL;
