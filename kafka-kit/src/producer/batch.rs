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
    OutgoingRecord, ProducerSettings, Refusal, Shipment, TopicWait, Until,
    context::{Context, Report},
    fault::{self, SendFault},
    inspection::TopicStatus,
    known_topics::{KnownTopics, Refused},
};

/// Between two looks at the client's queue. Its own poll would wait for whole milliseconds and spin for the rest.
const SERVE: Duration = Duration::from_micros(300);
/// How long one call may take.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long what was purged may take to be reported.
const PURGED_WITHIN: Duration = Duration::from_secs(2);

/// A producer, and what is known of the topics.
pub(super) struct BatchProducer {
    pub(super) producer: BaseProducer<Context>,
    transactional_id: Option<String>,
    delivery_timeout: Duration,
    topics: KnownTopics,
}

/// What was handed to the client.
#[derive(Default)]
struct Handoff {
    refused: Vec<Refusal>,
    left: Vec<usize>,
    sent: Vec<usize>,
    /// Why the client took no more.
    stopped: Option<Code>,
}

/// What the client said to a record.
enum Enqueued {
    Sent,
    Refused(Code),
    Stopped(Code),
}

impl BatchProducer {
    pub(super) fn new<O>(producer: BaseProducer<Context>, settings: &ProducerSettings<O>) -> Self {
        let transactional_id = settings.transactional_id.clone();
        let delivery_timeout = settings.delivery_timeout;
        Self { producer, transactional_id, delivery_timeout, topics: KnownTopics::default() }
    }

    pub(super) fn transactional(&self) -> bool {
        self.transactional_id.is_some()
    }

    /// Sends a batch, in its order, and waits for all of it.
    pub(super) fn ship(&mut self, records: &[OutgoingRecord], until: &dyn Until) -> Shipment {
        if self.transactional()
            && let Err(error) = self.producer.begin_transaction()
        {
            return self.broken_shipment(&error);
        }
        let handoff = match self.hand_over(records, until) {
            Ok(handoff) => handoff,
            Err(shipment) => return shipment,
        };
        let reports = self.await_reports(handoff.sent.len(), handoff.stopped.is_some(), until);
        let failed = reports.iter().any(|(_, error)| error.is_some());
        if failed || handoff.stopped.is_some() || reports.len() < handoff.sent.len() {
            return self.judge(records, handoff, &reports);
        }
        if self.transactional()
            && let Err(shipment) = self.commit(until)
        {
            return shipment;
        }
        Shipment::Done { refused: handoff.refused, left: handoff.left }
    }

    /// Ends what is open as well as it goes: whoever comes next ends the rest.
    pub(super) fn abandon(self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(CALL_MAX / 5);
        if self.transactional() {
            let _ = self.producer.abort_transaction(CALL_MAX / 2);
        }
    }

    fn hand_over(
        &mut self,
        records: &[OutgoingRecord],
        until: &dyn Until,
    ) -> Result<Handoff, Shipment> {
        // Before anything is on its way: asking takes time, and what fails meanwhile would be misread.
        let client = self.producer.client();
        let closed = self.topics.closed(client, records).map_err(|why| unknown(Vec::new(), why))?;
        let several = records.windows(2).any(|pair| pair[0].topic != pair[1].topic);
        let in_turn = several && !self.transactional() && Rule::TopicsInTurn.on();
        let mut ways: HashMap<&str, &str> = HashMap::new();
        let mut handoff = Handoff::default();
        let mut held: HashSet<&str> = HashSet::new();
        for (place, outgoing) in records.iter().enumerate() {
            if held.contains(outgoing.aggregate.as_str()) {
                handoff.left.push(place);
                continue;
            }
            // Without a transaction one of them could be acknowledged and the one before it not.
            if in_turn
                && *ways.entry(&outgoing.aggregate).or_insert(&outgoing.topic) != outgoing.topic
            {
                held.insert(&outgoing.aggregate);
                handoff.left.push(place);
                continue;
            }
            let enqueued = match closed.get(&outgoing.topic).and_then(|it| it.refuses(outgoing)) {
                Some(Refused::Code(code)) => Enqueued::Refused(code),
                Some(Refused::Leaderless(partition)) => {
                    held.insert(&outgoing.aggregate);
                    handoff.refused.push(without_leader(place, outgoing, partition));
                    continue;
                }
                None => self.enqueue(place, outgoing, until),
            };
            match enqueued {
                Enqueued::Sent => handoff.sent.push(place),
                Enqueued::Refused(code) => {
                    held.insert(&outgoing.aggregate);
                    handoff.refused.push(refusal(place, outgoing, code));
                }
                Enqueued::Stopped(code) => {
                    handoff.stopped = Some(code);
                    break;
                }
            }
        }
        Ok(handoff)
    }

    /// Asks for topics, and remembers those that are there.
    pub(super) fn ask_topics(&mut self, names: Vec<String>) -> Vec<(String, TopicStatus)> {
        self.topics.ask(self.producer.client(), names)
    }

    /// Puts a record into the client's queue, behind those that are there. While that is full, this very
    /// record is offered again, and nothing else.
    fn enqueue(&self, place: usize, outgoing: &OutgoingRecord, until: &dyn Until) -> Enqueued {
        loop {
            let error = match self.producer.send(record(place, outgoing)) {
                Ok(()) => return Enqueued::Sent,
                Err((error, _)) => error,
            };
            let code = fault::code(&error);
            match fault::classify(code) {
                _ if code == Code::QueueFull && !until.passed() => {
                    self.serve();
                }
                // The client looked at this record alone.
                SendFault::Record | SendFault::Neighbour => return Enqueued::Refused(code),
                // Something that was sent before has failed, or the client is done for: reports tell.
                _ => return Enqueued::Stopped(self.real(code)),
            }
        }
    }

    fn serve(&self) {
        self.producer.poll(Duration::ZERO);
        std::thread::sleep(SERVE);
    }

    /// Waits until each record has its report, or until the turn or the patience is over. When one has
    /// failed, the rest is purged: the batch is read again.
    fn await_reports(&self, wanted: usize, stopped: bool, until: &dyn Until) -> Vec<Report> {
        let mut reports = Vec::new();
        let (mut purged, mut first) = (false, true);
        let mut patience = Instant::now() + self.delivery_timeout + CALL_MAX;
        while reports.len() < wanted && !until.passed() && Instant::now() < patience {
            // One event at a time, which has many reports.
            self.producer.poll(Duration::ZERO);
            let new = self.producer.context().reports();
            if new.is_empty() {
                std::thread::sleep(SERVE);
            }
            reports.extend(new);
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
    fn judge(
        &mut self,
        records: &[OutgoingRecord],
        handoff: Handoff,
        reports: &[Report],
    ) -> Shipment {
        if self.transaction_error() == Some(Code::TopicAuthorizationFailed) {
            return forbidden_topic(records, handoff);
        }
        let mut refused = handoff.refused;
        let (mut neighbours, mut why) = (Vec::new(), None);
        match handoff.stopped.map(|code| (code, fault::classify(code))) {
            Some((code, SendFault::Fenced)) => return Shipment::Fenced(code.to_string()),
            Some((code, SendFault::Forbidden)) => return self.forbidden(code),
            _ => {}
        }
        for (place, code) in reports.iter().filter_map(|(place, code)| Some((*place, (*code)?))) {
            let code = self.real(code);
            match fault::classify(code) {
                SendFault::Fenced => return Shipment::Fenced(code.to_string()),
                SendFault::Forbidden => return self.forbidden(code),
                SendFault::Record if self.confirm_refusal(&records[place].topic, code) => {
                    refused.push(refusal(place, &records[place], code));
                }
                SendFault::Neighbour => neighbours.push((place, code)),
                SendFault::Record | SendFault::Unknown => {}
            }
            if !is_purge(code) {
                why.get_or_insert(code);
            }
        }
        let mixed = neighbours.len() > 1;
        if let [(place, code)] = neighbours[..] {
            refused.push(refusal(place, &records[place], code));
        }
        let acknowledged = self.acknowledged_places(reports);
        let why = match why.or(handoff.stopped) {
            Some(code) => code.to_string(),
            None => format!(
                "{} of {} records were not acknowledged in time",
                handoff.sent.len() - reports.len(),
                handoff.sent.len()
            ),
        };
        Shipment::Broken { refused, acknowledged, mixed, why }
    }

    /// What the client calls fatal has a reason behind it.
    fn real(&self, code: Code) -> Code {
        match self.producer.client().fatal_error() {
            Some((reason, _)) if code == Code::Fatal || is_purge(code) => reason,
            _ => code,
        }
    }

    /// Without fencing what was acknowledged is there to stay.
    fn acknowledged_places(&self, reports: &[Report]) -> Vec<usize> {
        if self.transactional() {
            return Vec::new();
        }
        reports.iter().filter(|(_, error)| error.is_none()).map(|(place, _)| *place).collect()
    }

    /// A topic that is said to be missing is looked for once more.
    fn confirm_refusal(&mut self, name: &str, code: Code) -> bool {
        if matches!(code, Code::TopicAuthorizationFailed | Code::UnknownPartition) {
            return true;
        }
        self.topics.forget(name);
        let found = self.ask_topics(vec![name.to_owned()]);
        matches!(found[..], [(_, TopicStatus::Missing | TopicStatus::Refused(_))])
    }

    fn commit(&self, until: &dyn Until) -> Result<(), Shipment> {
        loop {
            let Err(error) = self.producer.commit_transaction(CALL_MAX) else { return Ok(()) };
            let again = match &error {
                KafkaError::Transaction(said) => said.is_retriable() && !said.txn_requires_abort(),
                _ => false,
            };
            if !again || until.passed() {
                return Err(self.broken_shipment(&error));
            }
            self.serve();
        }
    }

    /// A call failed.
    fn broken_shipment(&self, error: &KafkaError) -> Shipment {
        let code = self.real(fault::code(error));
        match fault::classify(code) {
            SendFault::Fenced => Shipment::Fenced(error.to_string()),
            SendFault::Forbidden => self.forbidden(code),
            _ => unknown(
                self.acknowledged_places(&self.producer.context().reports()),
                error.to_string(),
            ),
        }
    }

    fn forbidden(&self, code: Code) -> Shipment {
        Shipment::Forbidden(fault::forbidden(code, self.transactional_id.as_deref()))
    }

    /// Why the client has given the transaction up, and purged its records: these do not have the reason in their
    /// reports. A second begin changes nothing and answers it.
    fn transaction_error(&self) -> Option<Code> {
        if !self.transactional() {
            return None;
        }
        let answer = self.producer.begin_transaction().err();
        answer.map(|error| fault::code(&error)).filter(|code| *code != Code::State)
    }
}

/// The brokers do not let a topic into the transaction, and the client does not say which: one that is alone is it.
fn forbidden_topic(records: &[OutgoingRecord], handoff: Handoff) -> Shipment {
    let Handoff { mut refused, sent, .. } = handoff;
    let mixed = sent.windows(2).any(|pair| records[pair[0]].topic != records[pair[1]].topic);
    let code = Code::TopicAuthorizationFailed;
    if !mixed {
        refused.extend(sent.into_iter().map(|place| refusal(place, &records[place], code)));
    }
    Shipment::Broken { refused, acknowledged: Vec::new(), mixed, why: code.to_string() }
}

fn is_purge(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight)
}

fn unknown(acknowledged: Vec<usize>, why: String) -> Shipment {
    Shipment::Broken { refused: Vec::new(), acknowledged, mixed: false, why }
}

fn without_leader(place: usize, outgoing: &OutgoingRecord, partition: i32) -> Refusal {
    let OutgoingRecord { topic, aggregate, .. } = outgoing;
    Refusal {
        place,
        aggregate: aggregate.clone(),
        topic: topic.clone(),
        error: format!("partition {partition} of topic {topic} has no leader"),
        waits: Some(TopicWait::Leader(partition)),
    }
}

fn refusal(place: usize, outgoing: &OutgoingRecord, code: Code) -> Refusal {
    let waits = match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition => Some(TopicWait::Presence),
        Code::TopicAuthorizationFailed => Some(TopicWait::Permission),
        _ => None,
    };
    let OutgoingRecord { topic, record, .. } = outgoing;
    let error = match code {
        Code::InvalidTimestamp => fault::of_timestamp(topic, record.timestamp_ms),
        _ => fault::of_record(code, topic, record.size()),
    };
    let aggregate = outgoing.aggregate.clone();
    Refusal { place, aggregate, topic: topic.clone(), error, waits }
}

fn record(place: usize, outgoing: &OutgoingRecord) -> BaseRecord<'_, [u8], [u8], Box<usize>> {
    let Record { key, payload, timestamp_ms, .. } = &outgoing.record;
    let mut sent = BaseRecord::with_opaque_to(&outgoing.topic, Box::new(place));
    sent.headers = Some(headers(&outgoing.record));
    sent.key = key.as_deref();
    sent.payload = payload.as_deref();
    sent.timestamp = *timestamp_ms;
    sent.partition = outgoing.partition;
    sent
}

/// The headers of a record as the client takes them.
pub(crate) fn headers(record: &Record) -> OwnedHeaders {
    let none = OwnedHeaders::new_with_capacity(record.headers.len());
    record.headers.iter().fold(none, |headers, header| {
        headers.insert(Header { key: &header.name, value: header.value.as_deref() })
    })
}
