//! SQLite: one writer at a time, no lock waits between lanes, no lane order needed.

#[cfg(feature = "ablation")]
mod ablation;
mod advice;
mod claim;
mod claim_values;
mod client;
mod corrections;
mod declared;
mod fault;
mod inspection;
mod intake;
mod intents;
mod keys;
mod lanes;
mod ownership;
mod parked;
mod parking;
mod queue;
mod release;
mod retention;
mod savepoint;
mod schema;
mod session;
mod settings;
mod suspects;
mod versions;
mod writer;

pub use settings::SqliteSettings;

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Sqlite};

    use super::{SqliteSettings, claim, parking, release, retention, versions};
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
            claim::CLAIM,
            claim::RECHECK,
            claim::ADVANCE,
            versions::CLAIM,
            versions::ADVANCE,
            retention::LOOK,
            retention::PRUNE,
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
