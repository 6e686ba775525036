-- The outbox: events written in the transaction of what they tell, and the relays that ship them.
-- Rows are marked one by one, as in every database. Times are milliseconds since 1970.

CREATE TABLE outbox_schema_versions (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))
) STRICT;

-- `headers`: JSON, [["name", "text" | {"base64": "…"} | null], …], without those that the columns make.
-- `payload`: NULL is a tombstone. `topic`: NULL is what the relay's template says.
-- `bytes_max`: what whoever wrote the row held for the most that its consumers take.
-- `failed_at`: set aside, with everything behind it of its aggregate; `error` says why. `discarded_at`: a person decided
-- that it is never sent; it is not waited for any more.
-- AUTOINCREMENT: a number is never used again, so the order of numbers is the order of writing.
CREATE TABLE outbox_events (
    seq               INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id          BLOB NOT NULL CHECK (length(event_id) = 16),
    occurred_at_ms    INTEGER,
    aggregate_version INTEGER,
    created_at        INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    sent_at           INTEGER,
    failed_at         INTEGER,
    discarded_at      INTEGER,
    schema_version    INTEGER,
    bytes_max         INTEGER NOT NULL DEFAULT 1048576,
    event_type        TEXT NOT NULL CHECK (length(CAST(event_type AS BLOB)) BETWEEN 1 AND 255),
    aggregate_type    TEXT NOT NULL CHECK (length(CAST(aggregate_type AS BLOB)) BETWEEN 1 AND 255),
    aggregate_id      TEXT NOT NULL CHECK (length(CAST(aggregate_id AS BLOB)) BETWEEN 1 AND 1024),
    topic             TEXT CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 249),
    headers           TEXT NOT NULL DEFAULT '[]',
    payload           BLOB,
    error             TEXT,
    discarded_by      TEXT,
    CONSTRAINT outbox_events_size CHECK (
        length(CAST(aggregate_id AS BLOB)) + coalesce(length(payload), 0) <= bytes_max
        AND length(CAST(headers AS BLOB)) <= bytes_max * 8)
) STRICT;
-- What a relay looks at: no larger than what waits.
CREATE INDEX outbox_events_unsent ON outbox_events (seq) WHERE sent_at IS NULL AND failed_at IS NULL;
CREATE INDEX outbox_events_failed ON outbox_events (aggregate_type, aggregate_id, seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL;

-- One row: which relay's turn it is. `outbox_id` names the outbox at the broker, `epoch` counts turns.
CREATE TABLE outbox_relays (
    relay_ref   INTEGER PRIMARY KEY DEFAULT 1 CHECK (relay_ref = 1),
    outbox_id   TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    epoch       INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    lease_until INTEGER,
    taken_at    INTEGER,
    standstill  TEXT
) STRICT;
INSERT INTO outbox_relays DEFAULT VALUES;
