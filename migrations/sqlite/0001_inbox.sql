-- The inbox: who consumes, where each partition and lane stands, which events were seen, which are parked.
-- Times are milliseconds since 1970. `watermark` is the next offset (exclusive), `last_offset` the last settled one (inclusive).

CREATE TABLE inbox_schema_versions (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))
) STRICT;

CREATE TABLE inbox_consumers (
    consumer_ref INTEGER PRIMARY KEY,
    consumer     TEXT NOT NULL UNIQUE
) STRICT;

-- One row per partition of a topic, as long as the topic has this id; all zero: the id is not known.
CREATE TABLE inbox_partitions (
    partition_ref          INTEGER PRIMARY KEY,
    consumer_ref           INTEGER NOT NULL,
    topic                  TEXT NOT NULL,
    topic_id               BLOB NOT NULL CHECK (length(topic_id) = 16),
    "partition"            INTEGER NOT NULL CHECK ("partition" >= 0),
    lane_count             INTEGER NOT NULL CHECK (lane_count BETWEEN 1 AND 65535),
    lane_rule              TEXT NOT NULL,
    remapped_below         INTEGER NOT NULL DEFAULT 0,
    epoch                  INTEGER NOT NULL DEFAULT 0,
    watermark              INTEGER NOT NULL CHECK (watermark >= 0),
    watermark_leader_epoch INTEGER NOT NULL DEFAULT -1,
    owner                  TEXT,
    owner_instance         TEXT,
    owner_incarnation      BLOB,
    owner_seen             INTEGER,
    standstill             TEXT,
    created_at             INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    retired_at             INTEGER,
    UNIQUE (consumer_ref, topic, topic_id, "partition")
) STRICT;

CREATE TABLE inbox_lanes (
    partition_ref     INTEGER NOT NULL,
    lane              INTEGER NOT NULL,
    epoch             INTEGER NOT NULL,
    last_offset       INTEGER NOT NULL,
    last_leader_epoch INTEGER NOT NULL,
    PRIMARY KEY (partition_ref, lane)
) STRICT, WITHOUT ROWID;

-- `seq`: rows lie in the order of their arrival, which is that of their age: what is written goes to the end, what is
-- pruned is at the beginning. The key beside it is narrow, so that ids in any order touch few pages.
CREATE TABLE inbox_events (
    seq           INTEGER PRIMARY KEY,
    consumer_ref  INTEGER NOT NULL,
    event_id      BLOB NOT NULL CHECK (length(event_id) = 16),
    fingerprint   BLOB NOT NULL CHECK (length(fingerprint) = 16),
    partition_ref INTEGER NOT NULL,
    "offset"      INTEGER NOT NULL,
    parked        INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
    processed_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    UNIQUE (consumer_ref, event_id)
) STRICT;

-- `due_at`: NULL follows an earlier event of its aggregate, 9223372036854775807 waits for a person.
-- AUTOINCREMENT: a number is never used again, so the order of a queue is the order of parking.
CREATE TABLE inbox_parked (
    parked_seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    partition_ref INTEGER NOT NULL,
    lane          INTEGER NOT NULL,
    aggregate_key BLOB NOT NULL CHECK (length(aggregate_key) = 16),
    consumer_ref  INTEGER NOT NULL,
    event_id      BLOB NOT NULL CHECK (length(event_id) = 16),
    fingerprint   BLOB NOT NULL CHECK (length(fingerprint) = 16),
    "offset"      INTEGER NOT NULL,
    leader_epoch  INTEGER NOT NULL,
    reason        TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    due_at        INTEGER,
    intent        TEXT CHECK (intent IN ('release', 'discard')),
    intent_by     TEXT,
    intent_at     INTEGER,
    parked_at     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    record        TEXT NOT NULL,
    UNIQUE (partition_ref, "offset", leader_epoch)
) STRICT;
CREATE INDEX inbox_parked_queue ON inbox_parked (partition_ref, aggregate_key, parked_seq);
CREATE INDEX inbox_parked_due ON inbox_parked (partition_ref, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_parked_intent ON inbox_parked (partition_ref) WHERE intent IS NOT NULL;
