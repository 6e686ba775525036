//! What the topic holds: the same records for everybody, made from their numbers.
//!
//! One story: its files know each other.

use std::collections::VecDeque;

use outbox_core::header_names;
use uuid::{Builder, Uuid};

use crate::form::Form;

/// Partitions of every topic.
pub(crate) const PARTITIONS: i32 = 8;
/// The name of our consumer.
pub(crate) const CONSUMER: &str = "bench";
/// The type of every event.
pub(crate) const EVENT_TYPE: &str = "Deposited";
/// One record in so many is a second copy.
const COPY_EVERY: u64 = 20;
/// A second copy comes so many records after its original.
const COPY_BEHIND: u64 = 500;
/// 2026-01-01, the time of the first event; fifty happen in each millisecond.
pub(crate) const FIRST_MS: u64 = 1_767_225_600_000;
const EVENTS_PER_MS: u64 = 50;
/// Bytes of a payload beside the note.
const AROUND_THE_NOTE: usize = 70;

/// The records of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// How many, second copies included.
    pub(crate) records: u64,
    /// Accounts that money is paid to, each an aggregate.
    pub(crate) accounts: usize,
    /// Bytes of a payload, about.
    pub(crate) payload: usize,
    /// What ids look like.
    pub(crate) ids: Ids,
    /// Whether half of all events are on account 0.
    pub(crate) skewed: bool,
    /// Whether events carry the version of their account.
    pub(crate) versioned: bool,
    /// Whose format the records are in.
    pub(crate) form: Form,
}

/// What ids look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ids {
    /// Version 7: they begin with the time.
    Timed,
    /// Version 4: nothing but chance.
    Random,
}

/// A deposit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deposit {
    pub(crate) id: Uuid,
    pub(crate) account: usize,
    /// Its number among the deposits of its account, from 1.
    pub(crate) sequence: i64,
    pub(crate) amount: i64,
    payload: usize,
    versioned: bool,
    form: Form,
}

/// What the database must hold when every event had its effect once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    /// Events with ids of their own.
    pub(crate) distinct: i64,
    /// Sum and number of deposits of each account.
    pub(crate) accounts: Vec<(i64, i64)>,
    /// Records on other partitions than account 0 is on, second copies included.
    pub(crate) elsewhere: u64,
}

impl Expected {
    /// How many events have an effect.
    pub(crate) fn events(&self) -> usize {
        usize::try_from(self.distinct).unwrap_or(usize::MAX)
    }
}

impl Plan {
    /// So many records as most scenarios have them.
    pub(crate) fn of(records: u64) -> Self {
        Self {
            records,
            accounts: 10_000,
            payload: 300,
            ids: Ids::Timed,
            skewed: false,
            versioned: false,
            form: Form::Own,
        }
    }

    /// The name of a topic with these records.
    pub(crate) fn topic(self) -> String {
        let Self { records, accounts, payload, ids, skewed, versioned, form } = self;
        let ids = if ids == Ids::Random { "-random" } else { "" };
        let skewed = if skewed { "-skewed" } else { "" };
        let versioned = if versioned { "-versioned" } else { "" };
        let form = form.suffix();
        format!("bench-{records}-{accounts}-{payload}{ids}{skewed}{versioned}{form}")
    }

    /// The records in the order they are sent.
    pub(crate) fn deposits(self) -> Deposits {
        Deposits {
            plan: self,
            record: 0,
            event: 0,
            sequences: vec![0; self.accounts],
            copies: VecDeque::new(),
        }
    }

    /// What they come to.
    pub(crate) fn expected(self) -> Expected {
        let accounts = vec![(0, 0); self.accounts];
        let mut expected = Expected { distinct: 0, accounts, elsewhere: 0 };
        for deposit in self.deposits() {
            expected.elsewhere += u64::from(deposit.partition() != 0);
            let (sum, number) = &mut expected.accounts[deposit.account];
            if deposit.sequence == *number + 1 {
                (*sum, *number) = (*sum + deposit.amount, deposit.sequence);
                expected.distinct += 1;
            }
        }
        expected
    }
}

/// The records of a [`Plan`], one after the other.
#[derive(Debug)]
pub(crate) struct Deposits {
    plan: Plan,
    record: u64,
    event: u64,
    sequences: Vec<i64>,
    /// Second copies, and the record that each takes the place of.
    copies: VecDeque<(u64, Deposit)>,
}

impl Deposits {
    fn next_event(&mut self) -> Deposit {
        let noise = mixed(self.event);
        let hot = self.plan.skewed && noise >> 63 == 0;
        let account = usize::try_from(noise >> 8).unwrap_or_default() % self.plan.accounts;
        let account = if hot { 0 } else { account };
        self.sequences[account] += 1;
        let deposit = Deposit {
            id: id(self.event, self.plan.ids),
            payload: self.plan.payload,
            versioned: self.plan.versioned,
            form: self.plan.form,
            account,
            sequence: self.sequences[account],
            amount: i64::try_from(noise >> 40).unwrap_or_default() % 1_000 + 1,
        };
        if self.event.is_multiple_of(COPY_EVERY) {
            self.copies.push_back((self.record + COPY_BEHIND, deposit));
        }
        self.event += 1;
        deposit
    }
}

impl Iterator for Deposits {
    type Item = Deposit;

    fn next(&mut self) -> Option<Deposit> {
        if self.record == self.plan.records {
            return None;
        }
        let due = self.copies.front().is_some_and(|(record, _)| *record <= self.record);
        let copy = if due { self.copies.pop_front() } else { None };
        let deposit = copy.map_or_else(|| self.next_event(), |(_, deposit)| deposit);
        self.record += 1;
        Some(deposit)
    }
}

impl Deposit {
    /// The partition: chosen here, so that it is known which accounts share one.
    pub(crate) fn partition(&self) -> i32 {
        i32::try_from(self.account).unwrap_or_default() % PARTITIONS
    }

    /// The record key: the aggregate's id.
    pub(crate) fn key(&self) -> String {
        self.account.to_string()
    }

    /// The record's value.
    pub(crate) fn value(&self) -> Vec<u8> {
        self.form.value(self)
    }

    /// JSON of about the planned length.
    pub(crate) fn payload(&self) -> String {
        let note = self.note();
        format!(
            "{{\"account\":{},\"amount\":{},\"sequence\":{},\"currency\":\"EUR\",\"note\":\"{note}\"}}",
            self.account, self.amount, self.sequence,
        )
    }

    /// The account, the amount, and the how-many-th of the account it is.
    pub(crate) fn numbers(&self) -> [i64; 3] {
        let number = |number: usize| i64::try_from(number).unwrap_or_default();
        [number(self.account), self.amount, self.sequence]
    }

    /// What makes it about as long as planned.
    pub(crate) fn note(&self) -> String {
        "n".repeat(self.payload.saturating_sub(AROUND_THE_NOTE))
    }

    /// When it happened, in milliseconds since 1970.
    pub(crate) fn time_ms(&self) -> u64 {
        let time = self.id.get_timestamp().map(|time| time.to_unix());
        time.map_or(FIRST_MS, |(s, ns)| s * 1_000 + u64::from(ns) / 1_000_000)
    }

    /// The headers of its record.
    pub(crate) fn headers(&self) -> Vec<(&'static str, String)> {
        self.form.headers(self)
    }

    /// Those that an outbox of ours writes.
    pub(crate) fn own_headers(&self) -> Vec<(&'static str, String)> {
        let ms = self.time_ms();
        let mut headers = vec![
            (header_names::EVENT_ID, self.id.to_string()),
            (header_names::EVENT_TYPE, EVENT_TYPE.to_owned()),
            (header_names::AGGREGATE_TYPE, "Account".to_owned()),
            (header_names::OCCURRED_AT, ms.to_string()),
        ];
        if self.versioned {
            headers.push((header_names::AGGREGATE_VERSION, self.sequence.to_string()));
        }
        headers
    }
}

/// The id of an event: the time it happened, if it is timed, and the rest as random as any.
fn id(event: u64, ids: Ids) -> Uuid {
    let mut random = [0; 16];
    random[..8].copy_from_slice(&mixed(event ^ 0x5eed).to_be_bytes());
    random[8..].copy_from_slice(&mixed(!event).to_be_bytes());
    if ids == Ids::Random {
        return Builder::from_random_bytes(random).into_uuid();
    }
    let [rest @ .., _, _, _, _, _, _] = random;
    Builder::from_unix_timestamp_millis(FIRST_MS + event / EVENTS_PER_MS, &rest).into_uuid()
}

/// A number that looks random (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn one_record_in_twenty_is_a_second_copy_behind_its_original() {
        let plan = Plan::of(100_000);
        let all: Vec<Deposit> = plan.deposits().collect();
        let ids: HashSet<Uuid> = all.iter().map(|deposit| deposit.id).collect();
        let expected = plan.expected();
        assert_eq!(all.len(), 100_000);
        assert_eq!(ids.len(), usize::try_from(expected.distinct).unwrap());
        assert!((4_500..5_000).contains(&(all.len() - ids.len())), "{}", all.len() - ids.len());
        let sum: i64 = expected.accounts.iter().map(|(_, number)| number).sum();
        assert_eq!(sum, expected.distinct);
    }

    #[test]
    fn a_skewed_plan_has_half_of_its_events_on_one_account() {
        let expected = Plan { skewed: true, ..Plan::of(100_000) }.expected();
        let hot = expected.accounts[0].1;
        assert!((45_000..50_000).contains(&hot), "{hot}");
        assert!((40_000..48_000).contains(&expected.elsewhere), "{}", expected.elsewhere);
    }

    #[test]
    fn a_payload_has_about_300_bytes_and_an_id_is_of_version_7() {
        let deposit = Plan::of(1).deposits().next().unwrap();
        assert!((280..=310).contains(&deposit.payload().len()), "{}", deposit.payload().len());
        assert_eq!(deposit.id.get_version_num(), 7);
        assert_eq!(deposit.headers()[3].1, FIRST_MS.to_string());
    }
}
