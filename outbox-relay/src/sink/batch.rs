//! One batch: enqueued in order, waited for, committed.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use outbox_core::Record;
use rdkafka::{
    error::KafkaError,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig},
    types::RDKafkaErrorCode as Code,
};

use super::{
    Parcel, Refusal, Shipment, SinkSettings,
    context::{Context, Report},
    fault::{self, Fault},
    looking::{Topic, topics},
};
use crate::deadline::Deadline;

/// How long the client's full queue is served before a record is offered again.
const SERVE: Duration = Duration::from_millis(1);
/// How long one call may take.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long what was purged may take to be reported.
const PURGED_WITHIN: Duration = Duration::from_secs(2);

/// A producer, and what is known of the topics.
pub(super) struct Line {
    pub(super) producer: BaseProducer<Context>,
    settings: SinkSettings,
    there: HashSet<String>,
}

/// What was handed to the client.
#[derive(Default)]
struct Handed {
    refused: Vec<Refusal>,
    left: Vec<usize>,
    sent: Vec<usize>,
    /// Why the client took no more.
    stopped: Option<Code>,
}

/// What the client said to a record.
enum Taken {
    Sent,
    Refused(Code),
    Stopped(Code),
}

impl Line {
    pub(super) fn new(producer: BaseProducer<Context>, settings: &SinkSettings) -> Self {
        let settings = settings.clone();
        Self { producer, settings, there: HashSet::new() }
    }

    pub(super) fn transactional(&self) -> bool {
        self.settings.transactional_id.is_some()
    }

    /// Sends a batch, in its order, and waits for all of it.
    pub(super) fn ship(&mut self, parcels: &[Parcel], until: &Deadline) -> Shipment {
        if self.transactional()
            && let Err(error) = self.producer.begin_transaction()
        {
            return self.broken(&error);
        }
        let handed = match self.hand_over(parcels, until) {
            Ok(handed) => handed,
            Err(shipment) => return shipment,
        };
        let reports = self.await_reports(handed.sent.len(), handed.stopped.is_some(), until);
        let failed = reports.iter().any(|(_, error)| error.is_some());
        if failed || handed.stopped.is_some() || reports.len() < handed.sent.len() {
            return self.judge(parcels, handed, &reports);
        }
        if self.transactional()
            && let Err(shipment) = self.commit(until)
        {
            return shipment;
        }
        Shipment::Done { refused: handed.refused, left: handed.left }
    }

    /// Ends what is open as well as it goes: whoever comes next ends the rest.
    pub(super) fn abandon(self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(CALL_MAX / 5);
        if self.transactional() {
            let _ = self.producer.abort_transaction(CALL_MAX / 2);
        }
    }

    fn hand_over(&mut self, parcels: &[Parcel], until: &Deadline) -> Result<Handed, Shipment> {
        // Before anything is on its way: asking takes time, and what fails meanwhile would be misread.
        let refused = self.ask(parcels)?;
        let several = parcels.windows(2).any(|pair| pair[0].topic != pair[1].topic);
        let in_turn = several && !self.transactional() && Rule::TopicsInTurn.on();
        let mut ways: HashMap<&str, &str> = HashMap::new();
        let mut handed = Handed::default();
        let mut held: HashSet<&str> = HashSet::new();
        for (place, parcel) in parcels.iter().enumerate() {
            if held.contains(parcel.aggregate.as_str()) {
                handed.left.push(place);
                continue;
            }
            // Without a transaction one of them could be acknowledged and the one before it not.
            if in_turn && *ways.entry(&parcel.aggregate).or_insert(&parcel.topic) != parcel.topic {
                held.insert(&parcel.aggregate);
                handed.left.push(place);
                continue;
            }
            let taken = match refused.get(parcel.topic.as_str()) {
                Some(code) => Taken::Refused(*code),
                None => self.enqueue(place, parcel, until),
            };
            match taken {
                Taken::Sent => handed.sent.push(place),
                Taken::Refused(code) => {
                    held.insert(&parcel.aggregate);
                    handed.refused.push(refusal(place, parcel, code));
                }
                Taken::Stopped(code) => {
                    handed.stopped = Some(code);
                    break;
                }
            }
        }
        Ok(handed)
    }

    /// The topics of a batch that do not take records, and why; those that are not known to be there are asked for,
    /// all at once.
    fn ask(&mut self, parcels: &[Parcel]) -> Result<HashMap<String, Code>, Shipment> {
        let new: HashSet<&String> = parcels
            .iter()
            .map(|parcel| &parcel.topic)
            .filter(|topic| !self.there.contains(*topic))
            .collect();
        let mut refused = HashMap::new();
        for (name, topic) in self.look(new.into_iter().cloned().collect()) {
            match topic {
                Topic::There => {}
                Topic::Missing => _ = refused.insert(name, Code::UnknownTopicOrPartition),
                Topic::Refused(code) => _ = refused.insert(name, code),
                Topic::Unknown(why) => return Err(unknown(Vec::new(), why)),
            }
        }
        Ok(refused)
    }

    /// Asks for topics, and remembers those that are there.
    pub(super) fn look(&mut self, names: Vec<String>) -> Vec<(String, Topic)> {
        let found = topics(&self.producer, names);
        let there = found.iter().filter(|(_, topic)| matches!(topic, Topic::There));
        self.there.extend(there.map(|(name, _)| name.clone()));
        found
    }

    /// Puts a record into the client's queue, behind those that are there. While that is full, this very
    /// record is offered again, and nothing else.
    fn enqueue(&self, place: usize, parcel: &Parcel, until: &Deadline) -> Taken {
        loop {
            let error = match self.producer.send(record(place, parcel)) {
                Ok(()) => return Taken::Sent,
                Err((error, _)) => error,
            };
            let code = fault::code(&error);
            match fault::classify(code) {
                _ if code == Code::QueueFull && !until.passed() => {
                    self.producer.poll(SERVE);
                }
                // The client looked at this record alone.
                Fault::Record | Fault::Neighbour => return Taken::Refused(code),
                // Something that was sent before has failed, or the client is done for: reports tell.
                _ => return Taken::Stopped(self.real(code)),
            }
        }
    }

    /// Waits until each record has its report, or until the turn or the patience is over. When one has
    /// failed, the rest is purged: the batch is read again.
    fn await_reports(&self, wanted: usize, stopped: bool, until: &Deadline) -> Vec<Report> {
        let mut reports = Vec::new();
        let (mut purged, mut first) = (false, true);
        let mut patience = Instant::now() + self.settings.delivery_timeout + CALL_MAX;
        while reports.len() < wanted && !until.passed() && Instant::now() < patience {
            // Short, since a poll goes on for its whole time.
            self.producer.poll(SERVE);
            reports.extend(self.producer.context().reports());
            let failed = reports.iter().any(|(_, error): &Report| error.is_some());
            if !purged && (failed || (stopped && !first)) {
                self.producer.purge(PurgeConfig::default().queue().inflight());
                patience = Instant::now() + PURGED_WITHIN;
                purged = true;
            }
            first = false;
        }
        reports
    }

    /// What became of a batch of which not everything was acknowledged.
    fn judge(&mut self, parcels: &[Parcel], handed: Handed, reports: &[Report]) -> Shipment {
        let mut refused = handed.refused;
        let (mut neighbours, mut why) = (Vec::new(), None);
        match handed.stopped.map(|code| (code, fault::classify(code))) {
            Some((code, Fault::Fenced)) => return Shipment::Fenced(code.to_string()),
            Some((code, Fault::Fatal)) => return self.fatal(code, &code.to_string()),
            _ => {}
        }
        for (place, code) in reports.iter().filter_map(|(place, code)| Some((*place, (*code)?))) {
            let code = self.real(code);
            match fault::classify(code) {
                Fault::Fenced => return Shipment::Fenced(code.to_string()),
                Fault::Fatal => return self.fatal(code, &code.to_string()),
                Fault::Record if self.confirmed(&parcels[place].topic, code) => {
                    refused.push(refusal(place, &parcels[place], code));
                }
                Fault::Neighbour => neighbours.push((place, code)),
                Fault::Record | Fault::Unknown => {}
            }
            if !purged(code) {
                why.get_or_insert(code);
            }
        }
        let mixed = neighbours.len() > 1;
        if let [(place, code)] = neighbours[..] {
            refused.push(refusal(place, &parcels[place], code));
        }
        let acknowledged = self.acknowledged(reports);
        let why = match why.or(handed.stopped) {
            Some(code) => code.to_string(),
            None => format!(
                "{} of {} records were not acknowledged in time",
                handed.sent.len() - reports.len(),
                handed.sent.len()
            ),
        };
        Shipment::Broken { refused, acknowledged, mixed, why }
    }

    /// What the client calls fatal has a reason behind it.
    fn real(&self, code: Code) -> Code {
        match self.producer.client().fatal_error() {
            Some((reason, _)) if code == Code::Fatal || purged(code) => reason,
            _ => code,
        }
    }

    /// Without fencing what was acknowledged is there to stay.
    fn acknowledged(&self, reports: &[Report]) -> Vec<usize> {
        if self.transactional() {
            return Vec::new();
        }
        reports.iter().filter(|(_, error)| error.is_none()).map(|(place, _)| *place).collect()
    }

    /// A topic that is said to be missing is looked for once more.
    fn confirmed(&mut self, name: &str, code: Code) -> bool {
        if code == Code::TopicAuthorizationFailed {
            return true;
        }
        self.there.remove(name);
        let found = self.look(vec![name.to_owned()]);
        matches!(found[..], [(_, Topic::Missing | Topic::Refused(_))])
    }

    fn commit(&self, until: &Deadline) -> Result<(), Shipment> {
        loop {
            let Err(error) = self.producer.commit_transaction(CALL_MAX) else { return Ok(()) };
            let again = match &error {
                KafkaError::Transaction(said) => said.is_retriable() && !said.txn_requires_abort(),
                _ => false,
            };
            if !again || until.passed() {
                return Err(self.broken(&error));
            }
            self.producer.poll(SERVE);
        }
    }

    /// A call failed.
    fn broken(&self, error: &KafkaError) -> Shipment {
        let code = self.real(fault::code(error));
        match fault::classify(code) {
            Fault::Fenced => Shipment::Fenced(error.to_string()),
            Fault::Fatal => self.fatal(code, &error.to_string()),
            _ => unknown(self.acknowledged(&self.producer.context().reports()), error.to_string()),
        }
    }

    fn fatal(&self, code: Code, why: &str) -> Shipment {
        Shipment::Fatal(fault::of_fatal(code, self.settings.transactional_id.as_deref(), why))
    }
}

fn purged(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight)
}

fn unknown(acknowledged: Vec<usize>, why: String) -> Shipment {
    Shipment::Broken { refused: Vec::new(), acknowledged, mixed: false, why }
}

fn refusal(place: usize, parcel: &Parcel, code: Code) -> Refusal {
    let missing = matches!(code, Code::UnknownTopic | Code::UnknownTopicOrPartition);
    let error = fault::of_record(code, &parcel.topic, parcel.record.size());
    let aggregate = parcel.aggregate.clone();
    Refusal { place, aggregate, error, missing: missing.then(|| parcel.topic.clone()) }
}

fn record(place: usize, parcel: &Parcel) -> BaseRecord<'_, [u8], [u8], Box<usize>> {
    let Record { key, headers, payload, timestamp_ms } = &parcel.record;
    let mut sent = BaseRecord::with_opaque_to(&parcel.topic, Box::new(place));
    let none = OwnedHeaders::new_with_capacity(headers.len());
    sent.headers = Some(headers.iter().fold(none, |headers, header| {
        headers.insert(Header { key: &header.name, value: header.value.as_deref() })
    }));
    sent.key = key.as_deref();
    sent.payload = payload.as_deref();
    sent.timestamp = *timestamp_ms;
    sent
}
