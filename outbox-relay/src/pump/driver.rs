//! The loop of a turn: it carries out what the planner decides, and reports what came of it.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use outbox_planner::internal::{CallId, Effect, Planner, Time};
use tokio::task::JoinSet;

use super::{
    LazySession, Pump, PumpEnd, TurnEnd,
    calls::{Calls, EndedCall},
    fencings::Fencings,
    kafka::{KafkaClient, KafkaEvent},
    keeper::Lease,
    missing_topics::MissingTopics,
    reader::{Answer, Asked, Reader},
    routing::{Content, ContentKind, KAFKA_NUMBER, Router},
    settings::planner_settings,
    sleep_until,
    storing::Storage,
};
use crate::{
    port::{Conclusion, Finding, Owners, Row, Stored},
    telemetry::Signal,
};

/// How soon to look again whether the lease is ours.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// After this time without a row, and while every append is announced, polls are rarer.
const IDLE_AFTER: Duration = Duration::from_mins(1);
const IDLE_TIMES: u32 = 5;

/// What a turn works with.
pub(super) struct Driver<'a, F: Owners> {
    pub(super) pump: &'a Pump<F>,
    pub(super) lease: &'a Lease,
    /// When the planner's time began.
    pub(super) began: Instant,
    pub(super) planner: Planner<Content>,
    /// `None` while it asks.
    reader: Option<Box<Reader<F>>>,
    asking: JoinSet<Asked<F>>,
    storage: Storage<F>,
    calls: Calls,
    pub(super) kafka: KafkaClient<'a>,
    pub(super) missing_topics: MissingTopics,
    pub(super) fencings: Fencings,
    /// The sessions of reader and writer that what is known of rows was learnt on.
    sessions: Option<(u64, u64)>,
    /// When rows were last found.
    rows_at: Instant,
    poll_at: Option<Instant>,
}

/// What happened.
enum Event<F: Owners> {
    Asked(Asked<F>),
    Stored(Result<(Conclusion, Stored), String>),
    Called(EndedCall),
    Kafka(KafkaEvent),
    Announced,
    Polled,
    Ending,
    Nothing,
}

impl<'a, F: Owners> Driver<'a, F> {
    pub(super) fn new(pump: &'a Pump<F>, lease: &'a Lease) -> Self {
        let now = Instant::now();
        let session = || LazySession::<F>::new(pump.settings.clone());
        let mut driver = Self {
            pump,
            lease,
            began: now,
            planner: Planner::new(planner_settings(&pump.options)),
            reader: Some(Box::new(Reader::new(session(), lease.turn))),
            asking: JoinSet::new(),
            storage: Storage::new(session(), lease.turn),
            calls: Calls::default(),
            kafka: KafkaClient::new(pump.backoff()),
            missing_topics: MissingTopics::default(),
            fencings: Fencings::default(),
            sessions: None,
            rows_at: now,
            poll_at: None,
        };
        if pump.options.routes.reach_kafka() {
            driver.connect();
        } else {
            // What was parked for it goes where routes lead now.
            driver.planner.handle_up(KAFKA_NUMBER, Time::ZERO);
        }
        driver
    }

    /// Ships until the turn or the relay ends.
    pub(super) async fn run(&mut self) -> TurnEnd {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    pub(super) fn now(&self) -> Time {
        self.began.elapsed()
    }

    async fn step(&mut self) -> Result<(), TurnEnd> {
        let ending = self.pump.is_ending();
        if !ending {
            self.give_surplus().await;
        }
        if !self.knows_sessions() || self.has_other_shards() {
            self.begin_sessions().await;
        }
        if ending {
            self.planner.pause();
            if self.planner.is_settled() && !self.storage.lags() {
                return Err(TurnEnd::Ended(PumpEnd::Shutdown));
            }
        }
        let next = self.carry_out_all();
        self.report_news();
        let topics_at = self.missing_topics.next().filter(|_| self.kafka.may_ask());
        let event = tokio::select! {
            Some(asked) = self.asking.join_next() => match asked {
                Ok(asked) => Event::Asked(asked),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            stored = self.storage.next() => Event::Stored(stored),
            ended = self.calls.next() => Event::Called(ended),
            kafka = self.kafka.next() => Event::Kafka(kafka),
            () = self.pump.signals.rows.notified() => Event::Announced,
            () = sleep_until(self.poll_at) => Event::Polled,
            () = self.pump.wait_for_shutdown(), if !ending => Event::Ending,
            () = self.lease.changed.notified() => Event::Nothing,
            () = sleep_until(next) => Event::Nothing,
            () = sleep_until(topics_at) => Event::Nothing,
        };
        self.handle(event).await
    }

    async fn handle(&mut self, event: Event<F>) -> Result<(), TurnEnd> {
        let now = self.now();
        match event {
            Event::Asked((reader, answer)) => {
                self.reader = Some(reader);
                match answer {
                    Ok(answer) => self.answered(answer)?,
                    Err(error) => {
                        self.pump.database_failed(self.lease, error);
                        self.planner.handle_ask_failed(now);
                    }
                }
            }
            Event::Stored(result) => self.stored(result)?,
            Event::Called(ended) => self.called(ended),
            Event::Kafka(event) => self.handle_kafka(event).await?,
            Event::Announced => self.planner.handle_announced(now),
            Event::Polled => {
                self.poll_at = None;
                self.planner.handle_poll();
            }
            Event::Ending | Event::Nothing => {}
        }
        Ok(())
    }

    /// Whether the sessions are those that what is known of rows was learnt on. One that is in use counts as such.
    fn knows_sessions(&self) -> bool {
        let Some((reader, writer)) = self.sessions else { return false };
        let same = |number: Option<u64>, known| number == Some(known);
        self.reader.as_ref().is_none_or(|it| same(it.session.number(), reader))
            && self.storage.is_on(writer)
    }

    /// Whether the seat has got shards, or has given some.
    fn has_other_shards(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.shards != self.lease.shards())
    }

    /// Gives others what they should have, once nothing is under way: who gets a shard reads what is not delivered.
    async fn give_surplus(&mut self) {
        let surplus = self.lease.surplus();
        if surplus.is_empty() {
            return self.planner.resume();
        }
        self.planner.pause();
        let Some(reader) = self.reader.as_mut().filter(|_| self.planner.is_settled()) else {
            return;
        };
        // Of a batch whose outcome is unknown nothing is certain before the next producer is ready.
        let unknown = self.pump.options.routes.reach_kafka() && self.kafka.sink.is_none();
        if self.storage.lags() || unknown {
            return;
        }
        let turn = self.lease.turn;
        for (to, shards) in surplus {
            self.lease.part_with(shards);
            let given = reader.session.call(async |s| F::give_shards(s, turn, to, shards).await);
            if let Err(error) = given.await {
                self.pump.database_failed(self.lease, error);
            }
        }
        self.lease.end_giving();
        self.planner.resume();
    }

    /// Makes both sessions ready, and forgets what was learnt on earlier ones, or of other shards: behind a new session may
    /// be another server, with a turn that was copied. Does not go on while new rows get numbers below others.
    async fn begin_sessions(&mut self) {
        let lags = self.storage.lags();
        let (Some(reader), Some(writer)) = (&mut self.reader, self.storage.session()) else {
            return;
        };
        // Those that are given meanwhile come with the next look.
        let shards = self.lease.shards();
        let (mut backoff, mut told, turn) = (self.pump.backoff(), false, self.lease.turn);
        while !self.pump.is_ending() || lags {
            let ready = async {
                writer.call(async |s| F::end_claims(s, turn).await).await?;
                reader.session.call(async |s| F::numbering(s).await).await
            };
            match ready.await {
                Ok(Some(Finding { fatal: true, text })) => {
                    self.lease.report_standstill(&text);
                    if !told {
                        Signal::SequenceBehind { reason: text }.emit();
                    }
                    told = true;
                }
                Ok(_) => {
                    self.pump.troubles().database_works();
                    self.sessions = reader.session.number().zip(writer.number());
                    reader.forget();
                    reader.shards = shards;
                    self.planner.forget_rows(self.began.elapsed());
                    break;
                }
                Err(error) => self.pump.database_failed(self.lease, error),
            }
            self.pump.pause(backoff.next()).await;
        }
        self.storage.begin_again();
    }

    /// Carries out what the planner decides; answers when to ask it again.
    fn carry_out_all(&mut self) -> Option<Instant> {
        // What is in memory may be of shards that are another's.
        if !self.knows_sessions() || self.has_other_shards() {
            return None;
        }
        if self.lease.until.passed() && Rule::CallsNeedTurn.on() {
            return Some(Instant::now() + LEASE_LOOK);
        }
        while let Some(effect) = self.planner.poll_effect(self.now()) {
            match effect {
                Effect::Read(_) | Effect::Claim(..) | Effect::AskDues => self.ask(effect),
                Effect::Store(conclusion) => self.storage.begin(conclusion),
                Effect::Call(id, KAFKA_NUMBER) => self.ship(id),
                Effect::Call(id, number) => self.call(id, number),
            }
        }
        if let Some(topics) = self.due_topics() {
            self.kafka.ask(topics);
        }
        self.planner.next_timeout(self.now()).map(|at| self.began + at)
    }

    fn ask(&mut self, effect: Effect) {
        let Some(mut reader) = self.reader.take() else { return };
        self.asking.spawn(async move {
            let answer = reader.ask(effect).await;
            (reader, answer)
        });
    }

    fn answered(&mut self, answer: Answer) -> Result<(), TurnEnd> {
        let (instant, now) = (Instant::now(), self.now());
        match answer {
            Answer::Page(page, request) => {
                self.pump.counters.looks.add(1);
                let bytes: usize = page.rows.iter().map(Row::bytes).sum();
                // The database counts in its own way: one read too many finds nothing, one too few leaves rows to the poll.
                let full = page.rows.len() >= request.rows_max || bytes * 2 >= request.bytes_max;
                if !page.rows.is_empty() {
                    self.rows_at = instant;
                }
                let last = page.rows.last().map(|row| row.id.seq);
                let rows = self.route(page.rows, instant);
                self.planner.handle_page(&page.earlier, rows, (last, full), now);
                self.poll_at = self.poll_interval().map(|interval| instant + interval);
            }
            Answer::Claimed(None, _) => return Err(TurnEnd::Lost),
            Answer::Claimed(Some(rows), most) => {
                let whole = rows.len() >= most;
                let rows = self.route(rows, instant);
                self.planner.handle_claimed(rows, whole, now);
            }
            Answer::Dues(found) => self.planner.handle_dues(found, now),
        }
        self.pump.troubles().database_works();
        self.note_progress();
        Ok(())
    }

    fn route(
        &self,
        rows: Vec<Row>,
        now: Instant,
    ) -> Vec<outbox_planner::internal::Incoming<Content>> {
        let router = Router {
            format: &self.pump.options.format,
            routes: &self.pump.options.routes,
            missing_topics: &self.missing_topics,
            destinations: &self.pump.options.destinations,
        };
        rows.into_iter().map(|row| router.route(row, now)).collect()
    }

    /// How long to wait for an announcement before reading all the same; `None`: for ever.
    fn poll_interval(&self) -> Option<Duration> {
        let interval = self.pump.options.poll_interval;
        let listens = self.pump.meters.listens.load(Relaxed);
        let idle = listens && self.rows_at.elapsed() >= IDLE_AFTER;
        (!interval.is_zero()).then(|| interval * if idle { IDLE_TIMES } else { 1 })
    }

    /// Hands events to a destination other than Kafka.
    fn call(&mut self, id: CallId, number: usize) {
        let Some(destination) = self.pump.options.destinations.get(number - 1) else { return };
        let deliveries = self.planner.call(id).iter().filter_map(|item| match &item.content.what {
            ContentKind::Delivery(delivery) => Some((**delivery).clone()),
            ContentKind::Record(_) => None,
        });
        let batch = deliveries.collect();
        self.calls.start((id, destination), batch, &self.lease.until);
    }
}
