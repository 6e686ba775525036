//! The texts of a store.

use crate::feed::flow::store::StoreTexts;

pub(super) static TEXTS: StoreTexts = StoreTexts {
    mine: "SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE",
    sent: "UPDATE outbox_events o SET sent_at = now() FROM json_to_recordset($1::json) s(seq bigint, event uuid)
WHERE o.seq = s.seq AND o.event_id = s.event AND o.sent_at IS NULL",
    delivered: "UPDATE outbox_events o SET sent_at = now(), parked_at = NULL
FROM json_to_recordset($1::json) s(seq bigint, event uuid)
WHERE o.seq = s.seq AND o.event_id = s.event AND o.sent_at IS NULL",
    unpark: "DELETE FROM outbox_parked p USING json_to_recordset($1::json) s(seq bigint, event uuid), outbox_events o
WHERE p.seq = s.seq AND o.seq = s.seq AND o.event_id = s.event",
    leave_feed: "UPDATE outbox_events o SET parked_at = now() FROM json_to_recordset($1::json) s(seq bigint, event uuid)
WHERE o.seq = s.seq AND o.event_id = s.event AND o.sent_at IS NULL AND o.parked_at IS NULL",
    park: "INSERT INTO outbox_parked AS p
    (seq, claimed_by, due_at, attempts, state, destination, aggregate_type, aggregate_id, error)
SELECT s.seq, s.claim, CASE WHEN s.state IN ('ready', 'waiting') THEN now()
        WHEN s.state IN ('scheduled', 'retry') THEN now() + s.after * interval '1 millisecond' END,
    s.attempts, s.state, s.destination, o.aggregate_type, o.aggregate_id, s.error
FROM json_to_recordset($1::json)
        s(seq bigint, event uuid, state text, after bigint, destination text, attempts integer, error text, claim bigint)
    JOIN outbox_events o ON o.seq = s.seq AND o.event_id = s.event AND o.sent_at IS NULL AND o.discarded_at IS NULL
ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = excluded.attempts, state = excluded.state,
    destination = excluded.destination, error = coalesce(excluded.error, p.error), claimed_by = excluded.claimed_by,
    parked_at = CASE WHEN excluded.state IN ('retry', 'parked') THEN now() ELSE p.parked_at END",
    heads: "UPDATE outbox_parked p SET state = 'ready', due_at = now() FROM json_to_recordset($1::json) s(seq bigint)
WHERE p.seq = s.seq AND p.state = 'behind' AND NOT EXISTS (SELECT FROM outbox_parked f
    WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq OFFSET 0)",
    demote: "UPDATE outbox_parked p SET state = 'behind', due_at = NULL, claimed_by = NULL
FROM (SELECT o.aggregate_type, o.aggregate_id, min(o.seq) AS seq
    FROM json_to_recordset($1::json) s(seq bigint) JOIN outbox_parked o ON o.seq = s.seq AND o.state <> 'ready'
    GROUP BY 1, 2) h
WHERE p.aggregate_type = h.aggregate_type AND p.aggregate_id = h.aggregate_id AND p.seq > h.seq AND p.state = 'ready'",
    promote: "WITH run AS MATERIALIZED (SELECT r.seq FROM
    (SELECT DISTINCT o.aggregate_type, o.aggregate_id
        FROM json_to_recordset($1::json) s(seq bigint) JOIN outbox_events o ON o.seq = s.seq) a
    CROSS JOIN LATERAL (SELECT seq, state, bool_and(state IN ('ready', 'behind') AND destination = head)
            OVER (ORDER BY seq) AS free FROM (
        SELECT seq, state, destination, first_value(destination) OVER (ORDER BY seq) AS head FROM (
            SELECT p.seq, p.state, p.destination FROM outbox_parked p
            WHERE p.aggregate_type = a.aggregate_type AND p.aggregate_id = a.aggregate_id ORDER BY p.seq LIMIT 100) p) p) r
    WHERE r.free AND r.state = 'behind')
UPDATE outbox_parked p SET state = 'ready', due_at = now() FROM run r WHERE p.seq = r.seq",
    missing: "SELECT count(*) FROM json_to_recordset($1::json) s(seq bigint, event uuid)
WHERE NOT EXISTS (SELECT FROM outbox_events o WHERE o.seq = s.seq AND o.event_id = s.event)",
};
