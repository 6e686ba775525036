//! The checker: topic against business table. It shares no code with the relay.

use std::collections::{BTreeSet, HashMap};

use super::FaultTime;
use crate::{Arrival, Outbox, firsts};

/// Clocks of the broker and of this process are the same; what is asked for waits.
const SLACK_MS: i64 = 1_000;
const LISTED_MAX: usize = 20;

/// What it found.
pub(super) struct Verdict {
    pub(super) events: usize,
    pub(super) faults_with_copies: usize,
    pub(super) violations: Vec<String>,
}

pub(super) async fn check(outbox: &Outbox, arrivals: &[Arrival], faults: &[FaultTime]) -> Verdict {
    let written: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT event_id::text, aggregate_id, (convert_from(payload, 'UTF8')::jsonb ->> 'n')::bigint
         FROM outbox_events",
    )
    .fetch_all(outbox.schema.pool())
    .await
    .expect("reading the outbox");
    let ledger: Vec<(String, i64)> = sqlx::query_as("SELECT aggregate, n FROM ledger WHERE n > 0")
        .fetch_all(outbox.schema.pool())
        .await
        .expect("reading the ledger");
    let mut violations = lost_or_strange(&written, arrivals);
    violations.extend(out_of_order(&ledger, arrivals));
    let (unexplained, faults_with_copies) = unexplained_copies(arrivals, faults);
    violations.extend(unexplained);
    violations.truncate(LISTED_MAX);
    Verdict { events: written.len(), faults_with_copies, violations }
}

/// Each committed event is in the topic, and nothing else is.
fn lost_or_strange(written: &[(String, String, i64)], arrivals: &[Arrival]) -> Vec<String> {
    let key = |id: &str, aggregate: &str, n: i64| format!("{aggregate} n {n} ({id})");
    let written: BTreeSet<String> = written.iter().map(|(id, a, n)| key(id, a, *n)).collect();
    let there: BTreeSet<String> = arrivals.iter().map(|a| key(&a.event_id, &a.key, a.n)).collect();
    let lost = written.difference(&there).map(|event| format!("lost: {event}"));
    let strange = there.difference(&written).map(|event| format!("never committed: {event}"));
    lost.chain(strange).collect()
}

/// The first arrivals of each aggregate are its numbers in sequence.
fn out_of_order(ledger: &[(String, i64)], arrivals: &[Arrival]) -> Vec<String> {
    let firsts = firsts(arrivals);
    let wrong = ledger.iter().filter_map(|(aggregate, last)| {
        let numbers = firsts.get(aggregate).map_or(&[][..], Vec::as_slice);
        let wanted: Vec<i64> = (1..=*last).collect();
        let at = numbers.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        (numbers != wanted).then(|| format!("out of order: aggregate {aggregate} at {at:?}"))
    });
    wrong.collect()
}

/// A copy has the key and the partition of its first, and a fault lies between them.
fn unexplained_copies(arrivals: &[Arrival], faults: &[FaultTime]) -> (Vec<String>, usize) {
    let mut first: HashMap<&str, &Arrival> = HashMap::new();
    let (mut wrong, mut with_copies) = (Vec::new(), BTreeSet::new());
    for arrival in arrivals {
        let Some(original) = first.get(arrival.event_id.as_str()) else {
            first.insert(&arrival.event_id, arrival);
            continue;
        };
        let place = |a: &Arrival| (a.key.clone(), a.partition, a.n);
        if place(original) != place(arrival) {
            wrong.push(format!("a copy differs: {original:?} {arrival:?}"));
        }
        let between = |fault: &FaultTime| {
            original.at_ms <= fault.moved_ms + SLACK_MS
                && arrival.at_ms >= fault.began_ms - SLACK_MS
        };
        match faults.iter().position(between) {
            Some(fault) => _ = with_copies.insert(fault),
            None => wrong.push(format!("a copy without a fault: {original:?} {arrival:?}")),
        }
    }
    (wrong, with_copies.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(key: &str, n: i64, at_ms: i64) -> Arrival {
        let event_id = format!("{key}-{n}");
        Arrival { partition: 0, offset: at_ms, key: key.into(), event_id, n, at_ms }
    }

    fn event(key: &str, n: i64) -> (String, String, i64) {
        (format!("{key}-{n}"), key.into(), n)
    }

    #[test]
    fn planted_anomalies_are_found() {
        let arrivals = [arrival("a", 1, 10), arrival("a", 3, 20), arrival("a", 2, 30)];
        let written = [event("a", 1), event("a", 2), event("a", 3)];
        assert_eq!(lost_or_strange(&written, &arrivals), [""; 0]);
        assert_eq!(lost_or_strange(&written[..2], &arrivals).len(), 1, "one was never committed");
        assert_eq!(lost_or_strange(&written, &arrivals[..2]).len(), 1, "one is lost");
        assert_eq!(out_of_order(&[("a".into(), 3)], &arrivals).len(), 1);
        assert_eq!(out_of_order(&[("a".into(), 1)], &arrivals[..1]), [""; 0]);
        let copied = [arrival("a", 1, 10_000), arrival("a", 1, 20_000)];
        let fault = |at| FaultTime { began_ms: at, moved_ms: at };
        assert_eq!(unexplained_copies(&copied, &[fault(15_000)]), (Vec::new(), 1));
        assert_eq!(unexplained_copies(&copied, &[fault(5_000)]).0.len(), 1);
        assert_eq!(unexplained_copies(&copied, &[fault(25_000)]).0.len(), 1);
        let mut moved = copied.clone();
        moved[1].partition = 1;
        assert_eq!(unexplained_copies(&moved, &[fault(15_000)]).0.len(), 1);
    }
}
