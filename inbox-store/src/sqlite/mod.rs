//! SQLite: one writer at a time, no lock waits between lanes, no lane order needed.

mod advice;
mod claim;
mod corrections;
mod declared;
mod dialect;
mod fault;
mod inspection;
mod intents;
mod keys;
mod lanes;
mod ownership;
mod parked;
mod parking;
#[cfg(feature = "testing")]
mod probe;
mod queue;
mod release;
mod retention;
mod savepoint;
mod schema;
mod session;
mod settings;
mod suspects;
mod writer;

pub use settings::SqliteSettings;

use std::fmt::Write as _;

use inbox_engine::LaneMove;

/// Lane moves as `[[lane,prev,new,leader_epoch],…]` for `json_each`.
fn moves(moves: &[LaneMove]) -> String {
    let mut json = String::with_capacity(2 + moves.len() * 32);
    for LaneMove { lane, prev, new, leader_epoch } in moves {
        json.push(if json.is_empty() { '[' } else { ',' });
        let _ = write!(json, "[{},{},{},{}]", lane.0, prev.0, new.0, leader_epoch.0);
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// Numbers as a JSON array for `json_each`.
fn numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    let mut json = String::new();
    for number in numbers {
        json.push(if json.is_empty() { '[' } else { ',' });
        let _ = write!(json, "{number}");
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// `[0,1,…]`: the places of a [`joined`] blob.
fn places(count: usize) -> String {
    numbers((0..count).filter_map(|place| i64::try_from(place).ok()))
}

/// 16-byte values in one blob; the statements cut it at the places of a JSON array.
fn joined<'a>(values: impl IntoIterator<Item = &'a [u8; 16]>) -> Vec<u8> {
    values.into_iter().flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Sqlite};

    use super::{SqliteSettings, claim, parking, release, retention};
    use crate::port::{Schemas, Sessions};

    /// SQLite's planner takes an array for the longer side of a join: it went through all inbox rows of
    /// a consumer for each duplicate.
    #[tokio::test]
    async fn what_is_named_is_found_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/inbox.db", folder.path().display());
        let mut conn = Sqlite::open(&SqliteSettings::new(&url).unwrap()).await.unwrap();
        Sqlite::migrate(&mut conn).await.unwrap();
        let texts = [
            claim::CLAIM.text(),
            claim::RECHECK.text(),
            claim::ADVANCE.text(),
            retention::LOOK.text(),
            retention::PRUNE.text(),
            parking::MARK,
            parking::PARKED_AT,
            release::TEXTS.mark,
            release::TEXTS.unmark,
            release::TEXTS.remove,
            release::SETTLE,
        ];
        for text in texts.into_iter().flat_map(|text| text.split(';')) {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"));
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(explain).fetch_all(&mut conn).await.unwrap();
            for (.., step) in plan {
                let all = step.ends_with("(partition_ref=?)") || step.ends_with("(consumer_ref=?)");
                assert!(!all || step.contains("EXISTS"), "{step}: {text}");
                let words: Vec<&str> = step.split(' ').take(2).collect();
                let scanned = matches!(*words, ["SCAN", "inbox_events" | "e" | "i"]);
                assert!(!scanned && !step.contains("TEMP B-TREE"), "{step}: {text}");
            }
        }
    }
}
