-- Who a turn was given to, beside its number: after a restore or in a copy of the file a number is given twice.
-- `lease_ms`: how long the lease was taken for, so that one that ends later than it can is known for what it is.
-- `token_epoch`: the turn that both belong to; a build without them leaves them as they are.
ALTER TABLE outbox_relays ADD COLUMN token BLOB CHECK (length(token) = 16);
ALTER TABLE outbox_relays ADD COLUMN token_epoch INTEGER;
ALTER TABLE outbox_relays ADD COLUMN lease_ms INTEGER;

-- `held`: set aside only since one before it of its aggregate is; out of the index of what a relay looks at, like that one.
-- `waits_for`: the topic that is missing; the row goes by itself when it is there.
ALTER TABLE outbox_events ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox_events ADD COLUMN waits_for TEXT;
-- What people look at: what was set aside for itself, however much waits behind it.
CREATE INDEX outbox_events_heads ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0;
CREATE INDEX outbox_events_waits ON outbox_events (waits_for, seq) WHERE waits_for IS NOT NULL;

-- `headers` in the form that relays read, or nobody could send the row. What only a relay can tell (base64) is left to
-- it. A trigger, since a CHECK of SQLite takes no subquery, and for new rows only: those of before are as they are, and
-- a relay has to mark them.
CREATE TRIGGER outbox_events_headers BEFORE INSERT ON outbox_events WHEN NEW.headers <> '[]' BEGIN
    SELECT RAISE(ABORT, 'CHECK constraint failed: outbox_events_headers') WHERE CASE
        WHEN NOT json_valid(NEW.headers) THEN true
        WHEN json_type(NEW.headers) <> 'array' THEN true
        ELSE EXISTS (SELECT 1 FROM json_each(NEW.headers) h WHERE CASE
            WHEN h.type <> 'array' THEN true
            WHEN json_array_length(h.value) <> 2 OR json_type(h.value, '$[0]') <> 'text' THEN true
            WHEN h.value ->> 0 IN ('', 'event_id', 'event_type', 'aggregate_type', 'aggregate_id', 'aggregate_version',
                'occurred_at', 'schema_version') THEN true
            WHEN json_type(h.value, '$[1]') = 'object'
                THEN (SELECT count(*) <> 1 OR min(v.key = 'base64' AND v.type = 'text') = 0 FROM json_each(h.value, '$[1]') v)
            ELSE json_type(h.value, '$[1]') NOT IN ('text', 'null') END)
        END;
END;

-- Aggregates of which a row goes again, or never will: the relay lets what is held behind it go, in steps.
-- `asked` counts how often that was asked for: what is asked for meanwhile is not forgotten.
CREATE TABLE outbox_releases (
    release_ref    INTEGER PRIMARY KEY AUTOINCREMENT,
    asked          INTEGER NOT NULL DEFAULT 1,
    aggregate_type TEXT NOT NULL,
    aggregate_id   TEXT NOT NULL,
    CONSTRAINT outbox_releases_aggregate UNIQUE (aggregate_type, aggregate_id)
) STRICT;
