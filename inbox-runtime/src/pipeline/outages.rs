//! What keeps partitions from their database or the client from Kafka: reported once for each cause, and once when it
//! is over.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::{PartitionId, Snapshot, Standstill};
use kafka_kit::internal::Trouble;
use outbox_core::TopicPartition;
use service_kit::throttle::{Cause, Occurrences, Throttle};

use crate::telemetry::{Signal, Unready};

/// One answer of a broker does not prove that all of them are back: it is over when nothing was met for as long
/// as two attempts to connect can be apart, and more.
const KAFKA_QUIET: Duration = Duration::from_secs(5);

/// Outages that are under way. Where there is none, nothing is done here.
#[derive(Debug)]
pub(super) struct Outages {
    database: Throttle,
    kafka: Throttle,
    /// What nobody says the end of.
    others: Throttle,
    /// Topics, and the group (`None`), that cannot be read though no partition says so, with the reason.
    group: BTreeMap<(&'static str, Option<Arc<str>>), Throttle>,
    /// What stands still for the database.
    out: HashSet<PartitionId>,
    /// How many did at once.
    most: usize,
    /// The last that met it, and how.
    last: Option<(TopicPartition, String)>,
    /// What the client said last.
    said: String,
}

impl Outages {
    pub(super) fn new() -> Self {
        Self {
            database: Throttle::outage(Duration::ZERO),
            kafka: Throttle::outage(KAFKA_QUIET),
            others: Throttle::by_cause(),
            group: BTreeMap::new(),
            out: HashSet::new(),
            most: 0,
            last: None,
            said: String::new(),
        }
    }

    /// Whether a partition stands still for the database.
    pub(super) fn has(&self, id: PartitionId) -> bool {
        self.out.contains(&id)
    }

    /// Records why topics and the group cannot be read now, where no partition reports it. A reason that is missing from
    /// `stalled` is over.
    pub(super) fn record_group(&mut self, stalled: impl Iterator<Item = Unready>, now: Instant) {
        let mut met = Vec::new();
        for Unready { topic, reason, sentence, .. } in stalled {
            let key = (reason, topic);
            let of_key = || Throttle::outage(Duration::ZERO);
            let throttle = self.group.entry(key.clone()).or_insert_with(of_key);
            if let Some(Occurrences { seconds, .. }) = throttle.record(Cause::of(reason, ""), now) {
                let topic = key.1.as_deref().map(str::to_owned);
                Signal::GroupStalled { topic, reason, seconds, sentence }.emit();
            }
            met.push(key);
        }
        for (key, throttle) in &mut self.group {
            if !met.contains(key)
                && let Some(Occurrences { seconds, .. }) = throttle.resolve(now)
            {
                let topic = key.1.as_deref().map(str::to_owned);
                Signal::GroupResumed { topic, reason: key.0, seconds }.emit();
            }
        }
    }

    /// A partition has met an outage of the database.
    pub(super) fn note_outage(
        &mut self,
        id: PartitionId,
        place: TopicPartition,
        error: &str,
        now: Instant,
    ) {
        self.out.insert(id);
        self.most = self.most.max(self.out.len());
        let occurrences = self.database.record(Cause::of("outage", error), now);
        self.last = Some((place, error.to_owned()));
        self.report(occurrences);
    }

    fn report(&self, occurrences: Option<Occurrences>) {
        if let (Some(Occurrences { times, seconds }), Some((partition, error))) =
            (occurrences, &self.last)
        {
            let (partition, error) = (partition.clone(), error.clone());
            let partitions = self.out.len().max(1);
            Signal::Outage { partition, partitions, times, seconds, error }.emit();
        }
    }

    /// Whether what a partition stands still for, or that it moves, is told as an outage.
    pub(super) fn note_report(
        &mut self,
        id: PartitionId,
        place: &TopicPartition,
        standstill: Option<&Standstill>,
        now: Instant,
    ) -> bool {
        match standstill {
            Some(Standstill::Outage(error)) => {
                if !self.has(id) {
                    self.note_outage(id, place.clone(), error, now);
                }
                true
            }
            // On its way out of it, or back into it.
            Some(Standstill::TakingOver) => self.has(id),
            Some(_) => {
                self.out.remove(&id);
                false
            }
            None => self.out.remove(&id),
        }
    }

    /// How the partitions are now: the last that moves again ends the outage.
    pub(super) fn refresh(&mut self, snapshots: &[Snapshot], now: Instant) {
        if self.database.is_open() {
            let waits = |snapshot: &&Snapshot| match &snapshot.standstill {
                Some(Standstill::Outage(_)) => true,
                Some(Standstill::TakingOver) => self.out.contains(&snapshot.partition),
                _ => false,
            };
            self.out = snapshots.iter().filter(waits).map(|snapshot| snapshot.partition).collect();
            self.most = self.most.max(self.out.len());
            let occurrences = self.database.repeat(now);
            self.report(occurrences);
            if self.out.is_empty()
                && let Some(Occurrences { times, seconds }) = self.database.resolve(now)
            {
                let partitions = u32::try_from(std::mem::take(&mut self.most)).ok();
                Signal::OutageOver { of: "outage", partitions, times, seconds }.emit();
            }
        }
        if let Some(Occurrences { times, seconds }) = self.kafka.repeat(now) {
            Signal::BrokerTrouble { times, seconds, error: self.said.clone() }.emit();
        }
    }

    /// The client has trouble.
    pub(super) fn trouble(&mut self, trouble: Trouble, now: Instant) {
        let Trouble { error, passing } = trouble;
        let throttle = if passing { &mut self.kafka } else { &mut self.others };
        let occurrences = throttle.record(Cause::of("broker_trouble", &error), now);
        if passing {
            self.said.clone_from(&error);
        }
        if let Some(Occurrences { times, seconds }) = occurrences {
            Signal::BrokerTrouble { times, seconds, error }.emit();
        }
    }

    /// A broker has answered.
    pub(super) fn note_answer(&mut self, now: Instant) {
        if let Some(Occurrences { times, seconds }) = self.kafka.resolve(now) {
            Signal::OutageOver { of: "broker_trouble", partitions: None, times, seconds }.emit();
        }
    }

    pub(super) fn commit_failed(&mut self, error: String, now: Instant) {
        let occurrences = self.others.record(Cause::of("commit_failed", &error), now);
        if let Some(Occurrences { times, .. }) = occurrences {
            Signal::CommitFailed { times, error }.emit();
        }
    }

    pub(super) fn commit_unknown(
        &mut self,
        partition: TopicPartition,
        events: usize,
        error: &str,
        now: Instant,
    ) {
        let occurrences = self.others.record(Cause::of("commit_unknown", error), now);
        if let Some(Occurrences { times, .. }) = occurrences {
            let error = error.to_owned();
            Signal::CommitUnknown { partition, events, times, error }.emit();
        }
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::NextOffset;
    use service_kit::testing::capture_log;

    use super::*;

    fn place(partition: i32) -> TopicPartition {
        TopicPartition { topic: "orders".into(), partition }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as snapshots have it")]
    fn out() -> Option<Standstill> {
        Some(Standstill::Outage("connection refused".into()))
    }

    /// Partitions that stand still for these reasons.
    fn stand(standstills: &[Option<Standstill>]) -> Vec<Snapshot> {
        let snapshot = |(id, standstill): (u32, &Option<Standstill>)| Snapshot {
            partition: PartitionId(id),
            watermark: NextOffset(0),
            committed: None,
            position: NextOffset(0),
            waiting: 0,
            open: 0,
            due: 0,
            bytes: 0,
            paused: false,
            standstill: standstill.clone(),
        };
        (0..).zip(standstills).map(snapshot).collect()
    }

    /// Of each line what is told: its signal, and some of its fields.
    fn lines(act: impl FnOnce()) -> Vec<String> {
        let shown = |fields: &[(String, String)]| {
            let value =
                |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, v)| v.as_str());
            let names = ["signal", "of", "topic", "reason", "partitions", "times", "seconds"];
            names.iter().filter_map(|name| value(name)).collect::<Vec<_>>().join(" ")
        };
        capture_log(act).iter().map(|(_, fields)| shown(fields)).collect()
    }

    #[test]
    fn four_partitions_without_their_database_are_one_line_and_one_when_the_last_moves() {
        let (mut outages, began) = (Outages::new(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let told = lines(|| {
            outages.refresh(&stand(&[None, None, None, None]), began);
            for second in 0..32 {
                for partition in 0..4 {
                    let (id, place) = (PartitionId(partition), place(0));
                    outages.note_outage(id, place.clone(), "connection refused", at(second));
                    assert!(outages.note_report(id, &place, out().as_ref(), at(second)));
                }
                outages.refresh(&stand(&[out(), out(), out(), out()]), at(second));
            }
            for partition in 0..4 {
                let (id, place) = (PartitionId(partition), place(0));
                let taking_over = Standstill::TakingOver;
                assert!(outages.note_report(id, &place, Some(&taking_over), at(32)), "on its way");
                assert!(outages.has(id));
                let mut now = [out(), out(), out(), out()];
                now[..=partition as usize].fill(None);
                assert!(outages.note_report(id, &place, None, at(33)), "told for all");
                outages.refresh(&stand(&now), at(33));
            }
            outages.refresh(&stand(&[None, None, None, None]), at(34));
            assert!(
                !outages.note_report(PartitionId(0), &place(0), None, at(35)),
                "for another reason"
            );
        });
        assert_eq!(told, ["outage 1 1 0", "outage 4 121 30", "outage_over outage 4 128 33"]);
    }

    #[test]
    fn an_outage_that_nothing_meets_is_told_again_all_the_same() {
        let (mut outages, began) = (Outages::new(), Instant::now());
        let told = lines(|| {
            outages.note_report(PartitionId(0), &place(0), out().as_ref(), began);
            outages.refresh(&stand(&[out()]), began + Duration::from_secs(31));
            // Its partition has gone to another process.
            outages.refresh(&stand(&[]), began + Duration::from_secs(40));
        });
        assert_eq!(told, ["outage 1 1 0", "outage 1 1 31", "outage_over outage 1 1 40"]);
    }

    #[test]
    fn what_waits_for_a_person_is_no_outage_any_more() {
        let (mut outages, began) = (Outages::new(), Instant::now());
        outages.note_report(PartitionId(0), &place(0), out().as_ref(), began);
        let reused = Standstill::Reused("another log".into());
        assert!(!outages.note_report(PartitionId(0), &place(0), Some(&reused), began));
        assert!(!outages.note_report(PartitionId(0), &place(0), None, began), "it moves is told");
    }

    #[test]
    fn trouble_with_brokers_is_over_when_one_answers_and_none_was_met_for_a_while() {
        let (mut outages, began) = (Outages::new(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let trouble = |n: u64| Trouble { error: format!("broker {n}: refused"), passing: true };
        let told = lines(|| {
            for second in 0..20 {
                outages.trouble(trouble(second), at(second));
            }
            outages.note_answer(at(21));
            outages.note_answer(at(26));
            outages.note_answer(at(31));
            let missing = Trouble { error: "no such topic".into(), passing: false };
            outages.trouble(missing, at(40));
            outages.note_answer(at(60));
        });
        assert_eq!(
            told,
            ["broker_trouble 1 0", "outage_over broker_trouble 20 26", "broker_trouble 1 0"]
        );
    }

    /// A topic that was never created has no partition that could report it.
    #[test]
    fn a_topic_that_does_not_exist_is_reported_every_30_s_until_it_does() {
        let (mut outages, began) = (Outages::new(), Instant::now());
        let of = |topic: &str, reason| Unready {
            topic: Some(topic.into()),
            partition: None,
            reason,
            sentence: "create it".into(),
        };
        let told = lines(|| {
            for second in 0..70 {
                let mut stalled = vec![of("bills", "topic_missing")];
                stalled.extend((second >= 65).then(|| of("orders", "forbidden")));
                outages.record_group(stalled.into_iter(), began + Duration::from_secs(second));
            }
            outages.record_group(std::iter::empty(), began + Duration::from_secs(70));
            outages.record_group(std::iter::empty(), began + Duration::from_secs(71));
        });
        let bills = |signal, seconds| format!("{signal} bills topic_missing {seconds}");
        let orders = |signal, seconds| format!("{signal} orders forbidden {seconds}");
        let (stalled, resumed) = ("group_stalled", "group_resumed");
        assert_eq!(
            told,
            [
                bills(stalled, 0),
                bills(stalled, 30),
                bills(stalled, 60),
                orders(stalled, 0),
                orders(resumed, 5),
                bills(resumed, 70),
            ]
        );
    }
}
