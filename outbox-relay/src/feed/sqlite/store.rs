//! The texts of a store.

use crate::feed::flow::store::StoreTexts;

/// Rows as a table.
macro_rules! rows {
    () => {
        "(SELECT value ->> '$.seq' AS seq, value ->> '$.event' AS event, value ->> '$.state' AS state,
    value ->> '$.after' AS after, value ->> '$.destination' AS destination, value ->> '$.attempts' AS attempts,
    value ->> '$.error' AS error, value ->> '$.claim' AS claim FROM json_each(?1))"
    };
}
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

pub(super) static TEXTS: StoreTexts = StoreTexts {
    mine: "SELECT 1 FROM outbox_relays WHERE epoch = ?1 AND token = ?2",
    sent: concat!(
        "UPDATE outbox_events AS o SET sent_at = ",
        now!(),
        " FROM ",
        rows!(),
        " s WHERE o.seq = s.seq AND lower(hex(o.event_id)) = s.event AND o.sent_at IS NULL"
    ),
    delivered: concat!(
        "UPDATE outbox_events AS o SET sent_at = ",
        now!(),
        ", parked_at = NULL FROM ",
        rows!(),
        " s WHERE o.seq = s.seq AND lower(hex(o.event_id)) = s.event AND o.sent_at IS NULL"
    ),
    unpark: concat!(
        "DELETE FROM outbox_parked WHERE seq IN (SELECT o.seq FROM ",
        rows!(),
        " s JOIN outbox_events o ON o.seq = s.seq AND lower(hex(o.event_id)) = s.event)"
    ),
    leave_feed: concat!(
        "UPDATE outbox_events AS o SET parked_at = ",
        now!(),
        " FROM ",
        rows!(),
        " s WHERE o.seq = s.seq AND lower(hex(o.event_id)) = s.event AND o.sent_at IS NULL AND o.parked_at IS NULL"
    ),
    park: concat!(
        "INSERT INTO outbox_parked (seq, claimed_by, due_at, attempts, state, destination, aggregate_type, aggregate_id, error)
SELECT s.seq, s.claim, CASE WHEN s.state IN ('ready', 'waiting') THEN ",
        now!(),
        " WHEN s.state IN ('scheduled', 'retry') THEN ",
        now!(),
        " + s.after END, s.attempts, s.state, s.destination, o.aggregate_type, o.aggregate_id, s.error
FROM ",
        rows!(),
        " s JOIN outbox_events o ON o.seq = s.seq AND lower(hex(o.event_id)) = s.event
WHERE o.sent_at IS NULL AND o.discarded_at IS NULL
ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = excluded.attempts, state = excluded.state,
    destination = excluded.destination, error = coalesce(excluded.error, error), claimed_by = excluded.claimed_by,
    parked_at = CASE WHEN excluded.state IN ('retry', 'parked') THEN excluded.parked_at ELSE parked_at END"
    ),
    heads: concat!(
        "UPDATE outbox_parked AS p SET state = 'ready', due_at = ",
        now!(),
        " WHERE p.seq IN (SELECT s.seq FROM ",
        rows!(),
        " s) AND p.state = 'behind' AND NOT EXISTS (SELECT 1 FROM outbox_parked f
    WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq)"
    ),
    demote: concat!(
        "UPDATE outbox_parked AS p SET state = 'behind', due_at = NULL, claimed_by = NULL
FROM (SELECT o.aggregate_type, o.aggregate_id, min(o.seq) AS seq FROM ",
        rows!(),
        " s JOIN outbox_parked o ON o.seq = s.seq AND o.state <> 'ready' GROUP BY 1, 2) h
WHERE p.aggregate_type = h.aggregate_type AND p.aggregate_id = h.aggregate_id AND p.seq > h.seq AND p.state = 'ready'"
    ),
    promote: concat!(
        "UPDATE outbox_parked AS p SET state = 'ready', due_at = ",
        now!(),
        " FROM (SELECT seq, state, min(state IN ('ready', 'behind') AND destination = head)
        OVER (PARTITION BY aggregate_type, aggregate_id ORDER BY seq) AS free
    FROM (SELECT p.*, first_value(p.destination) OVER (PARTITION BY p.aggregate_type, p.aggregate_id ORDER BY p.seq) AS head
        FROM (SELECT DISTINCT o.aggregate_type, o.aggregate_id FROM ",
        rows!(),
        " s JOIN outbox_events o ON o.seq = s.seq) a
        CROSS JOIN outbox_parked p ON p.aggregate_type = a.aggregate_type AND p.aggregate_id = a.aggregate_id
            AND p.seq < coalesce((SELECT x.seq FROM outbox_parked x
                WHERE x.aggregate_type = a.aggregate_type AND x.aggregate_id = a.aggregate_id
                ORDER BY x.seq LIMIT 1 OFFSET 100), 9223372036854775807))) r
WHERE p.seq = r.seq AND r.free AND r.state = 'behind'"
    ),
    missing: concat!(
        "SELECT count(*) FROM ",
        rows!(),
        " s WHERE NOT EXISTS (SELECT 1 FROM outbox_events o WHERE o.seq = s.seq AND lower(hex(o.event_id)) = s.event)"
    ),
};
