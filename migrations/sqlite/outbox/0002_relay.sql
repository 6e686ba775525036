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

-- Aggregates of which a row goes again, or never will: the relay lets what is held behind it go, in steps.
-- `asked` counts how often that was asked for: what is asked for meanwhile is not forgotten.
CREATE TABLE outbox_releases (
    release_ref    INTEGER PRIMARY KEY AUTOINCREMENT,
    asked          INTEGER NOT NULL DEFAULT 1,
    aggregate_type TEXT NOT NULL,
    aggregate_id   TEXT NOT NULL,
    CONSTRAINT outbox_releases_aggregate UNIQUE (aggregate_type, aggregate_id)
) STRICT;
