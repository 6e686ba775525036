//! What has to hold, rule by rule.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Evidence, Kept, Row};
use crate::{
    Arrival,
    relay_chaos::{FaultTime, Kind},
};

/// Clocks of the broker and of this process are the same; what is asked for waits.
const SLACK_MS: i64 = 1_000;
/// The longest from a record's arrival to the mark of its row, when nothing is in the way.
const MARK_MAX_MS: i64 = 10_000;

/// Events that the database does not know.
pub(super) struct Strange {
    pub(super) wrong: Vec<String>,
    pub(super) sent_then_lost: usize,
}

/// Events that arrived more than once.
pub(super) struct Copies {
    pub(super) wrong: Vec<String>,
    /// Faults that explain some.
    pub(super) faults: usize,
}

impl Row {
    fn topic<'a>(&'a self, evidence: &Evidence<'a>) -> &'a str {
        self.topic.as_deref().unwrap_or(evidence.main)
    }
}

/// The database itself: the numbers of each aggregate, without a gap, as the ledger says.
pub(super) fn unlike_the_ledger(kept: &Kept) -> Vec<String> {
    let mut numbers: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for row in &kept.rows {
        numbers.entry(&row.aggregate).or_default().push(row.n);
    }
    let mut wrong = Vec::new();
    for (aggregate, last) in &kept.ledger {
        let found = numbers.remove(aggregate.as_str()).unwrap_or_default();
        if !found.into_iter().eq(1..=*last) {
            wrong.push(format!("the outbox has other rows of {aggregate} than the ledger"));
        }
    }
    wrong.extend(numbers.keys().map(|aggregate| format!("{aggregate} is not in the ledger")));
    wrong
}

/// Nothing in a run is wrong with any row.
pub(super) fn parked(kept: &Kept) -> Vec<String> {
    let parked = kept.rows.iter().filter(|row| row.error.is_some());
    parked.map(|row| format!("parked: {row:?}")).collect()
}

/// Each event that the database has is in its topic.
pub(super) fn lost(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let there: HashSet<(&str, &str)> = evidence
        .seen
        .iter()
        .flat_map(|seen| seen.arrivals.iter().map(|a| (seen.topic.as_str(), a.event_id.as_str())))
        .collect();
    let lost = |row: &&Row| !there.contains(&(row.topic(evidence), row.id.as_str()));
    kept.rows.iter().filter(lost).map(|row| format!("lost: {row:?}")).collect()
}

/// Each event in a topic is one that the database has, under its key and number, and in the row's topic. Or the
/// database had it, and went back to an older state just then.
pub(super) fn strange(kept: &Kept, evidence: &Evidence<'_>) -> Strange {
    let rows: HashMap<&str, &Row> = kept.rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let went_back = |arrival: &Arrival| {
        evidence.faults.iter().filter(|fault| fault.kind.goes_back()).any(|fault| {
            arrival.at_ms >= fault.since_ms - SLACK_MS && arrival.at_ms <= fault.moved_ms + SLACK_MS
        })
    };
    let (mut wrong, mut sent_then_lost) = (Vec::new(), BTreeSet::new());
    for (topic, arrival) in all(evidence) {
        match rows.get(arrival.event_id.as_str()) {
            Some(row) if row.topic(evidence) != topic => {
                wrong.push(format!("in the topic {topic}: {row:?}"));
            }
            Some(row) if (&row.aggregate, row.n) != (&arrival.key, arrival.n) => {
                wrong.push(format!("{row:?} became {arrival:?}"));
            }
            Some(_) => {}
            None if evidence.never_committed.contains(&arrival.event_id) => {
                wrong.push(format!("rolled back: {arrival:?}"));
            }
            None if went_back(arrival) => _ = sent_then_lost.insert(&arrival.event_id),
            None => wrong.push(format!("never committed: {arrival:?}")),
        }
    }
    Strange { wrong, sent_then_lost: sent_then_lost.len() }
}

/// The first arrivals of each aggregate in its topic are its numbers in sequence. Of two events with one number the database
/// has lost one; which of them came first does not matter.
pub(super) fn out_of_order(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let rows: HashMap<&str, &Row> = kept.rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let mut firsts: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (topic, arrival) in all(evidence) {
        if let Some(row) = rows.get(arrival.event_id.as_str())
            && row.topic(evidence) == topic
            && seen.insert(row.id.as_str())
        {
            firsts.entry(&row.aggregate).or_default().push(row.n);
        }
    }
    kept.out_of_order(&firsts)
}

/// An aggregate has one partition of its topic: between two there is no order.
pub(super) fn spread(evidence: &Evidence<'_>) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), i32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (topic, arrival) in all(evidence) {
        let place = *places.entry((topic, &arrival.key)).or_insert(arrival.partition);
        if place != arrival.partition {
            wrong.push(format!("in another partition than {place}: {arrival:?}"));
        }
    }
    wrong
}

/// Between an arrival and the next one of the same event lies a fault that loses a mark, and the first of the two
/// is not older than the marks that this fault can have lost.
pub(super) fn unexplained_copies(evidence: &Evidence<'_>) -> Copies {
    let mut latest: HashMap<(&str, &str), &Arrival> = HashMap::new();
    let (mut wrong, mut with_copies) = (Vec::new(), BTreeSet::new());
    for (topic, arrival) in all(evidence) {
        let Some(before) = latest.insert((topic, &arrival.event_id), arrival) else { continue };
        if (&before.key, before.n) != (&arrival.key, arrival.n) {
            wrong.push(format!("a copy differs: {before:?} {arrival:?}"));
        }
        let explains = |fault: &FaultTime| {
            fault.kind != Kind::MissingTopics
                && before.at_ms >= fault.since_ms - MARK_MAX_MS
                && before.at_ms <= fault.moved_ms + SLACK_MS
                && arrival.at_ms >= fault.began_ms - SLACK_MS
        };
        match evidence.faults.iter().position(explains) {
            Some(fault) => _ = with_copies.insert(fault),
            None => wrong.push(format!("a copy without a fault: {before:?} {arrival:?}")),
        }
    }
    Copies { wrong, faults: with_copies.len() }
}

/// How many numbers of an aggregate are in a topic under more than one id.
pub(super) fn numbers_sent_twice(evidence: &Evidence<'_>) -> usize {
    let mut ids: HashMap<(&str, &str, i64), HashSet<&str>> = HashMap::new();
    for (topic, arrival) in all(evidence) {
        ids.entry((topic, &arrival.key, arrival.n)).or_default().insert(&arrival.event_id);
    }
    ids.values().filter(|ids| ids.len() > 1).count()
}

fn all<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (&'a str, &'a Arrival)> {
    let topics = evidence.seen.iter();
    topics.flat_map(|seen| seen.arrivals.iter().map(|arrival| (seen.topic.as_str(), arrival)))
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::*;

    /// An arrival of the event `id`.
    fn record(id: &str, key: &str, n: i64, at_ms: i64) -> Arrival {
        Arrival { partition: 0, offset: at_ms, key: key.into(), event_id: id.into(), n, at_ms }
    }

    fn arrival(key: &str, n: i64, at_ms: i64) -> Arrival {
        record(&format!("{key}-{n}"), key, n, at_ms)
    }

    fn row(key: &str, n: i64) -> Row {
        Row::of(&format!("{key}-{n}"), key, n)
    }

    fn kept(rows: &[Row]) -> Kept {
        let mut last = BTreeMap::new();
        for row in rows {
            last.insert(row.aggregate.clone(), row.n);
        }
        Kept { rows: rows.to_vec(), ledger: last.into_iter().collect() }
    }

    /// What a fault of this kind explains, when nothing was lost before `began_ms`.
    fn fault(kind: Kind, began_ms: i64) -> FaultTime {
        FaultTime { kind, since_ms: began_ms, began_ms, moved_ms: began_ms }
    }

    /// Judges one topic.
    fn judged<T>(
        arrivals: &[Arrival],
        faults: &[FaultTime],
        judge: impl FnOnce(&Evidence<'_>) -> T,
    ) -> T {
        let seen = [Seen { topic: "main".into(), arrivals: arrivals.to_vec() }];
        let never_committed = HashSet::from(["back".to_owned()]);
        judge(&Evidence { main: "main", seen: &seen, faults, never_committed: &never_committed })
    }

    #[test]
    fn planted_losses_and_reorderings_are_found() {
        let arrivals = [arrival("a", 1, 10), arrival("a", 3, 20), arrival("a", 2, 30)];
        let all = kept(&[row("a", 1), row("a", 2), row("a", 3)]);
        judged(&arrivals, &[], |found| {
            assert_eq!(lost(&all, found), [""; 0]);
            assert_eq!(strange(&all, found).wrong, [""; 0]);
            assert_eq!(strange(&kept(&all.rows[..2]), found).wrong.len(), 1, "never committed");
            assert_eq!(out_of_order(&all, found).len(), 1);
        });
        judged(&arrivals[..2], &[], |found| assert_eq!(lost(&all, found).len(), 1));
        let sound = [arrival("a", 1, 10), arrival("a", 2, 20), arrival("a", 1, 30)];
        let two = kept(&all.rows[..2]);
        judged(&sound, &[], |found| assert_eq!(out_of_order(&two, found), [""; 0], "a copy"));
    }

    #[test]
    fn planted_copies_are_found() {
        let copied = [arrival("a", 1, 20_000), arrival("a", 1, 30_000)];
        let wrong = |arrivals: &[Arrival], faults: &[FaultTime]| {
            judged(arrivals, faults, unexplained_copies).wrong.len()
        };
        for kind in [Kind::Kill, Kind::Freeze, Kind::Failover, Kind::Restore, Kind::ClockStep] {
            assert_eq!(wrong(&copied, &[fault(kind, 25_000)]), 0);
        }
        assert_eq!(wrong(&copied, &[fault(Kind::MissingTopics, 25_000)]), 1, "loses no mark");
        assert_eq!(wrong(&copied, &[fault(Kind::Kill, 15_000)]), 1, "before both");
        assert_eq!(wrong(&copied, &[fault(Kind::Kill, 35_000)]), 1, "after both");
        let late = [arrival("a", 1, 20_000), arrival("a", 1, 60_000)];
        assert_eq!(wrong(&late, &[fault(Kind::Kill, 50_000)]), 1, "it was marked long before");
        let back = FaultTime { since_ms: 21_000, ..fault(Kind::Restore, 50_000) };
        assert_eq!(wrong(&late, &[back]), 0, "the mark was lost");
        let mut thrice = copied.to_vec();
        thrice.push(arrival("a", 1, 31_500));
        assert_eq!(wrong(&thrice, &[fault(Kind::Kill, 25_000)]), 1, "one fault, two copies");
        let other = [copied[0].clone(), Arrival { n: 2, ..copied[1].clone() }];
        assert_eq!(wrong(&other, &[fault(Kind::Kill, 25_000)]), 1, "a copy differs");
        let moved = [copied[0].clone(), Arrival { partition: 1, ..copied[1].clone() }];
        assert_eq!(judged(&moved, &[], spread).len(), 1);
        assert_eq!(judged(&copied, &[], spread), [""; 0]);
    }

    #[test]
    fn what_the_database_lost_is_known_by_its_time() {
        // The second number was given twice; the database knows the second event of the two.
        let found = [
            arrival("a", 1, 10_000),
            record("old", "a", 2, 20_000),
            arrival("a", 2, 30_000),
            arrival("a", 3, 31_000),
        ];
        let all = kept(&[row("a", 1), row("a", 2), row("a", 3)]);
        let lost_by = |fault: FaultTime| {
            judged(&found, &[fault], |found| {
                assert_eq!(out_of_order(&all, found), [""; 0]);
                assert_eq!(numbers_sent_twice(found), 1);
                let strange = strange(&all, found);
                (strange.wrong.len(), strange.sent_then_lost)
            })
        };
        let window =
            |kind, since_ms, moved_ms| FaultTime { kind, since_ms, began_ms: moved_ms, moved_ms };
        for kind in [Kind::Failover, Kind::Restore] {
            assert_eq!(lost_by(window(kind, 19_000, 25_000)), (0, 1));
            assert_eq!(lost_by(window(kind, 22_000, 25_000)), (1, 0), "it was kept then");
            assert_eq!(lost_by(window(kind, 15_000, 18_000)), (1, 0), "the database had gone back");
        }
        for kind in [Kind::Kill, Kind::Freeze, Kind::ClockStep, Kind::MissingTopics] {
            assert_eq!(lost_by(window(kind, 19_000, 25_000)), (1, 0), "{kind:?} loses nothing");
        }
        let back = [record("back", "a", 1, 20_000)];
        let wrong = judged(&back, &[window(Kind::Failover, 19_000, 25_000)], |found| {
            strange(&all, found).wrong.len()
        });
        assert_eq!(wrong, 1, "what was rolled back was never the database's");
        // The order of what it knows counts, whatever lies between.
        let swapped = [found[0].clone(), found[3].clone(), found[1].clone(), found[2].clone()];
        assert_eq!(judged(&swapped, &[], |found| out_of_order(&all, found).len()), 1);
    }

    #[test]
    fn rows_of_other_topics_are_looked_for_there() {
        let late = |n| Row { topic: Some("late".into()), ..row("b", n) };
        let all = kept(&[row("a", 1), late(1), late(2)]);
        let judge = |main: &[Arrival], other: &[Arrival]| {
            let topics = [("main", main), ("late", other)];
            let seen =
                topics.map(|(topic, found)| Seen { topic: topic.into(), arrivals: found.to_vec() });
            let never_committed = HashSet::new();
            let found = Evidence {
                main: "main",
                seen: &seen,
                faults: &[],
                never_committed: &never_committed,
            };
            (
                lost(&all, &found).len(),
                strange(&all, &found).wrong.len(),
                out_of_order(&all, &found).len(),
            )
        };
        let a = [arrival("a", 1, 10)];
        let (b1, b2) = (arrival("b", 1, 20), arrival("b", 2, 30));
        let both = [b1.clone(), b2.clone()];
        assert_eq!(judge(&a, &both), (0, 0, 0));
        assert_eq!(judge(&a, &[b2.clone(), b1]), (0, 0, 1), "in another order");
        assert_eq!(judge(&a, &both[..1]), (1, 0, 1), "one is lost");
        assert_eq!(judge(&[a[0].clone(), b2], &both[..1]), (1, 1, 1), "one is in the other topic");
    }

    #[test]
    fn rows_that_need_a_person_are_found() {
        let all = kept(&[row("a", 1), Row { error: Some("no topic".into()), ..row("b", 1) }]);
        assert_eq!(parked(&all).len(), 1);
        assert_eq!(unlike_the_ledger(&all), [""; 0]);
        let gap = Kept { rows: vec![row("a", 2)], ledger: vec![("a".into(), 2)] };
        assert_eq!(unlike_the_ledger(&gap).len(), 1, "a gap");
        let unknown = Kept { rows: vec![row("a", 1)], ledger: Vec::new() };
        assert_eq!(unlike_the_ledger(&unknown).len(), 1);
    }
}
