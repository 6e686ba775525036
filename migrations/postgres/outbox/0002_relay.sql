-- Who a turn was given to, beside its number: after a failover, a restore or in a clone a number is given twice.
-- `lease_ms`: how long the lease was taken for, so that one that ends later than it can is known for what it is.
-- `token_epoch`: the turn that both belong to; a build without them leaves them as they are.
ALTER TABLE outbox_relays ADD COLUMN token uuid, ADD COLUMN token_epoch bigint,
    ADD COLUMN lease_ms bigint;

-- `held`: set aside only since one before it of its aggregate is; out of the index of what a relay looks at, like that one.
-- `waits_for`: the topic that is missing; the row goes by itself when it is there.
ALTER TABLE outbox_events ADD COLUMN held boolean NOT NULL DEFAULT false, ADD COLUMN waits_for text;
-- What people look at: what was set aside for itself, however much waits behind it.
CREATE INDEX outbox_events_heads ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held;
CREATE INDEX outbox_events_waits ON outbox_events (waits_for, seq) WHERE waits_for IS NOT NULL;

-- `headers` in the form that relays read, or nobody could send the row. What only a relay can tell (base64) is left to
-- it. Rows of before are as they are, and a relay has to mark them, which would check them: `headers_checked` is false
-- on them alone. Neither a row without headers nor the mark of a sent one costs anything; NOT VALID, so that the table
-- is not read under its lock.
ALTER TABLE outbox_events ADD COLUMN headers_checked boolean NOT NULL DEFAULT false;
ALTER TABLE outbox_events ALTER COLUMN headers_checked SET DEFAULT true;
ALTER TABLE outbox_events ADD CONSTRAINT outbox_events_headers CHECK (
    headers = '[]' OR sent_at IS NOT NULL OR NOT headers_checked OR (
        headers ~ '^\s*\[\s*(?:,?\s*\[\s*"(?:[^"\\]|\\.)+"\s*,\s*(?:"(?:[^"\\]|\\.)*"|null|\{\s*"base64"\s*:\s*"[A-Za-z0-9+/=\\]*"\s*\})\s*\]\s*)*\]\s*$'
        AND headers::json IS NOT NULL
        AND headers NOT LIKE ALL (ARRAY['%["event\_id"%', '%["event\_type"%', '%["aggregate\_type"%', '%["aggregate\_id"%',
            '%["aggregate\_version"%', '%["occurred\_at"%', '%["schema\_version"%']))) NOT VALID;

-- Aggregates of which a row goes again, or never will: the relay lets what is held behind it go, in steps.
-- `asked` counts how often that was asked for: what is asked for meanwhile is not forgotten.
CREATE TABLE outbox_releases (
    release_ref    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked          bigint NOT NULL DEFAULT 1,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    CONSTRAINT outbox_releases_aggregate UNIQUE (aggregate_type, aggregate_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
