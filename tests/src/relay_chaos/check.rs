//! The checker: topics against business table and outbox as they are in the end. It shares no code with the
//! relay.

mod rules;

use std::collections::{BTreeMap, HashSet};

use super::FaultTime;
use crate::{Arrival, Outbox};

/// Of each rule.
pub(super) const LISTED_MAX: usize = 5;

/// A row of the outbox.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) aggregate: String,
    pub(super) n: i64,
    /// Its own.
    topic: Option<String>,
    /// Why it is parked.
    error: Option<String>,
}

/// What the database has in the end.
pub(super) struct Kept {
    pub(super) rows: Vec<Row>,
    /// The last number of each aggregate.
    pub(super) ledger: Vec<(String, i64)>,
}

/// What is in a topic, partition by partition in their order.
pub(super) struct Seen {
    pub(super) topic: String,
    pub(super) arrivals: Vec<Arrival>,
}

/// What it is judged by.
pub(super) struct Evidence<'a> {
    /// The topic of rows that name none.
    pub(super) main: &'a str,
    pub(super) seen: &'a [Seen],
    pub(super) faults: &'a [FaultTime],
    /// Ids of events for which a commit was never asked.
    pub(super) never_committed: &'a HashSet<String>,
}

/// What it found.
pub(super) struct Verdict {
    pub(super) sent_then_lost: usize,
    pub(super) numbers_sent_twice: usize,
    pub(super) faults_with_copies: usize,
    pub(super) violations: Vec<String>,
}

impl Row {
    /// One as it should be.
    #[cfg(test)]
    pub(super) fn of(id: &str, aggregate: &str, n: i64) -> Self {
        Self { id: id.to_owned(), aggregate: aggregate.to_owned(), n, topic: None, error: None }
    }
}

/// Reads what the database has.
pub(super) async fn kept(outbox: &Outbox) -> Kept {
    let pool = outbox.schema.pool();
    let rows = sqlx::query_as(
        "SELECT event_id::text AS id, e.aggregate_id AS aggregate,
            (convert_from(payload, 'UTF8')::jsonb ->> 'n')::bigint AS n, topic,
            CASE WHEN p.seq IS NOT NULL THEN p.state || ' ' || coalesce(error, '')
                WHEN e.parked_at IS NOT NULL AND sent_at IS NULL THEN 'parked by its column alone' END AS error
         FROM outbox_events e LEFT JOIN outbox_parked p USING (seq) ORDER BY seq",
    );
    let rows = rows.fetch_all(pool).await.expect("reading the outbox");
    let ledger = sqlx::query_as("SELECT aggregate, n FROM ledger WHERE n > 0").fetch_all(pool);
    Kept { rows, ledger: ledger.await.expect("reading the ledger") }
}

impl Kept {
    /// What is wrong with the database itself.
    pub(super) fn unsound(&self) -> [Vec<String>; 2] {
        [rules::unlike_the_ledger(self), rules::parked(self)]
    }

    /// The aggregates whose numbers, in the order in which they came first, are not those of the ledger in sequence.
    pub(super) fn out_of_order(&self, firsts: &BTreeMap<&str, Vec<i64>>) -> Vec<String> {
        let wrong = self.ledger.iter().filter_map(|(aggregate, last)| {
            let numbers = firsts.get(aggregate.as_str()).map_or(&[][..], Vec::as_slice);
            let wanted: Vec<i64> = (1..=*last).collect();
            let at = numbers.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
            (numbers != wanted).then(|| format!("out of order: aggregate {aggregate} at {at:?}"))
        });
        wrong.collect()
    }

    /// How many of these events it does not have.
    pub(super) fn lacks(&self, events: &HashSet<String>) -> usize {
        let there: HashSet<&str> = self.rows.iter().map(|row| row.id.as_str()).collect();
        events.iter().filter(|id| !there.contains(id.as_str())).count()
    }
}

/// Every rule. The first violations of each are listed.
pub(super) fn check(kept: &Kept, evidence: &Evidence<'_>) -> Verdict {
    let strange = rules::strange(kept, evidence);
    let copies = rules::unexplained_copies(evidence);
    let found = [
        rules::lost(kept, evidence),
        strange.wrong,
        rules::out_of_order(kept, evidence),
        rules::spread(evidence),
        copies.wrong,
    ];
    let found = kept.unsound().into_iter().chain(found);
    let listed = found.flat_map(|wrong| wrong.into_iter().take(LISTED_MAX));
    Verdict {
        sent_then_lost: strange.sent_then_lost,
        numbers_sent_twice: rules::numbers_sent_twice(evidence),
        faults_with_copies: copies.faults,
        violations: listed.collect(),
    }
}
