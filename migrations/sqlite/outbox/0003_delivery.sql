-- Delivery with further attempts, and at a time. Each column has a default, so that who appends without knowing of them
-- goes on, and no row is rewritten.

-- `attempts`: how often it was tried in vain. `retry_at`: it waits for its next attempt, set aside (`failed_at`) and not
-- held, so that what comes behind it of its aggregate is held, as behind every row that is set aside. A build before this
-- one takes it for a row that waits for a person: it sends neither it nor what comes behind it.
-- `deliver_after`: not sent before. A build before this one does not know of it, and sends the row at once.
-- `dedup_key`: a second row with it is refused while the first is in the table.
ALTER TABLE outbox_events ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox_events ADD COLUMN retry_at INTEGER;
ALTER TABLE outbox_events ADD COLUMN deliver_after INTEGER;
ALTER TABLE outbox_events ADD COLUMN dedup_key TEXT
    CHECK (length(CAST(dedup_key AS BLOB)) BETWEEN 1 AND 255);
-- What waits for its next attempt, the longest due first. Whatever else a row is, it says with the rest of the condition:
-- the commands of a build before this one leave `retry_at` as it is.
CREATE INDEX outbox_events_retries ON outbox_events (retry_at, seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NOT NULL;
-- What waits for a person: looked at often, so that what goes by itself must not be in the way.
CREATE INDEX outbox_events_set_aside ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NULL AND waits_for IS NULL;
CREATE UNIQUE INDEX outbox_events_dedup ON outbox_events (dedup_key) WHERE dedup_key IS NOT NULL;

-- Who let rows go again (`retry`) or gave them up (`discard`), and why. One row for each step of a command, with the ids
-- of the events that it changed, a thousand at most, as JSON. Never pruned: people make it, and no relay may change it.
CREATE TABLE outbox_audit (
    audit_seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    who       TEXT NOT NULL,
    what      TEXT NOT NULL,
    why       TEXT NOT NULL DEFAULT '',
    choice    TEXT NOT NULL,
    rows      INTEGER NOT NULL,
    event_ids TEXT NOT NULL
) STRICT;
