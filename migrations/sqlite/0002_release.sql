-- Releasing parked events: what a person has to know of one, how often its release was tried, and who did what.

-- `errors`: the last ten as JSON, `[{"at", "attempt", "error"}, …]`. `releases`: rounds of release that failed.
ALTER TABLE inbox_parked ADD COLUMN event_type TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox_parked ADD COLUMN aggregate TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox_parked ADD COLUMN errors TEXT NOT NULL DEFAULT '[]';
ALTER TABLE inbox_parked ADD COLUMN releases INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inbox_parked_event ON inbox_parked (consumer_ref, event_id);

-- One row per parked event and act, and per partition that was skipped or retired. Never pruned.
CREATE TABLE inbox_audit (
    audit_seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    who          TEXT NOT NULL,
    what         TEXT NOT NULL,
    why          TEXT NOT NULL DEFAULT '',
    consumer_ref INTEGER NOT NULL,
    topic        TEXT,
    "partition"  INTEGER,
    "offset"     INTEGER,
    event_id     BLOB CHECK (length(event_id) = 16),
    aggregate    TEXT,
    event_type   TEXT
) STRICT;
