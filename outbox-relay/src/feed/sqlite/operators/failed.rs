//! Failed rows, and what a person decides about them.

use sqlx::{Row as _, Sqlite, sqlite::SqliteRow};
use uuid::Uuid;

use crate::feed::flow::operators::failed::{ActTexts, FailedSql};

/// What a choice means: ?1 number, ?2 aggregate type, ?3 aggregate id, ?4 part of the error, ?5 event type, each NULL for
/// any; ?6 behind which number, ?7 how many. What only waits for its time has to be named by number.
macro_rules! chosen {
    ($before:literal) => {
        concat!(
            $before,
            " FROM outbox_parked p JOIN outbox_events o ON o.seq = p.seq WHERE p.state NOT IN ('ready', 'behind')
AND (?1 IS NULL OR p.seq = ?1) AND (?2 IS NULL OR (p.aggregate_type = ?2 AND p.aggregate_id = ?3))
AND (?4 IS NULL OR instr(p.error, ?4) > 0) AND (?5 IS NULL OR o.event_type = ?5)
AND (?1 IS NOT NULL OR p.state <> 'scheduled' OR p.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER))
AND p.seq > ?6 ORDER BY p.seq LIMIT ?7"
        )
    };
}
/// A time in words; one that no calendar has as its number.
macro_rules! at {
    ($time:literal, $name:literal) => {
        concat!(
            "coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', ",
            $time,
            " / 1000.0, 'unixepoch'), CAST(",
            $time,
            " AS TEXT)) AS ",
            $name
        )
    };
}
pub(in crate::feed) const WRITE: &str =
    "INSERT INTO outbox_audit (what, who, why, choice, rows, event_ids)
SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?5 > 0";
static TEXTS: ActTexts = ActTexts {
    lock: "SELECT 1 FROM outbox_relays",
    chosen: chosen!(
        "SELECT p.seq, o.event_id, EXISTS (SELECT 1 FROM outbox_relays r WHERE r.epoch = p.claimed_by
    AND r.lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS claimed"
    ),
    retry_events: "UPDATE outbox_events SET deliver_after = NULL
WHERE deliver_after IS NOT NULL AND seq IN (SELECT value ->> '$.seq' FROM json_each(?1))",
    retry: "UPDATE outbox_parked SET state = 'behind', due_at = NULL, attempts = 0, error = NULL, claimed_by = NULL,
    destination = CASE WHEN destination LIKE 'kafka:%' THEN 'kafka' ELSE destination END
WHERE seq IN (SELECT value ->> '$.seq' FROM json_each(?1))",
    discard_events: "UPDATE outbox_events
SET discarded_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), discarded_by = ?2
WHERE seq IN (SELECT value ->> '$.seq' FROM json_each(?1))",
    discard: "DELETE FROM outbox_parked WHERE seq IN (SELECT value ->> '$.seq' FROM json_each(?1))",
    write: WRITE,
    notify: None,
};

impl FailedSql for Sqlite {
    const FAILED: &'static str = chosen!(
        "SELECT o.seq, o.event_id, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    unixepoch() - p.parked_at / 1000 AS failed, p.error, p.attempts,
    CASE WHEN p.state = 'waiting' THEN p.destination END AS waits_for,
    CASE WHEN p.state IN ('retry', 'scheduled') THEN max(0, p.due_at / 1000 - unixepoch()) END AS retry,
    (SELECT count(*) FROM (SELECT 1 FROM outbox_parked b WHERE b.seq > p.seq AND b.state = 'behind'
        AND b.aggregate_type = p.aggregate_type AND b.aggregate_id = p.aggregate_id LIMIT 10001)) AS behind"
    );
    const CONTENT: &'static str = concat!(
        "SELECT o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_version,
    o.schema_version, o.occurred_at_ms, o.bytes_max, o.topic, o.dedup_key, ",
        at!("o.created_at", "created_at"),
        ", ",
        at!("o.deliver_after", "deliver_after"),
        ", ",
        at!("o.sent_at", "sent_at"),
        ", ",
        at!("coalesce(p.parked_at, o.parked_at)", "parked_at"),
        ", p.state, coalesce(p.attempts, 0) AS attempts, ",
        at!("p.due_at", "due_at"),
        ", p.destination, p.error, ",
        at!("o.discarded_at", "discarded_at"),
        ", o.discarded_by, o.headers,
    length(o.payload) AS payload_bytes, substr(o.payload, 1, ?2) AS payload
FROM outbox_events o LEFT JOIN outbox_parked p ON p.seq = o.seq WHERE o.seq = ?1"
    );

    fn act_texts() -> &'static ActTexts {
        &TEXTS
    }

    fn event_id(row: &SqliteRow) -> Result<String, sqlx::Error> {
        Ok(row.try_get::<Uuid, _>("event_id")?.to_string())
    }

    /// What cannot be read of it is shown as such.
    fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, sqlx::Error> {
        let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
