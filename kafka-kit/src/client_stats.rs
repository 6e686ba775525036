//! What the thread that owns the consumer lets others see of itself without asking it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use inbox_engine::internal::NextOffset;
use outbox_core::TopicPartition;

use crate::{
    broker::TopicState,
    event::{Isolation, NoFacts},
    ffi,
    forbidden::Forbidden,
    health::{BrokerHealth, LogEnds, TopicPresence, Unread},
    poll_loop::PollLoop,
};

/// How often the ends of the logs are noted.
const NOTED_EVERY: Duration = Duration::from_secs(1);
/// How often the brokers are asked where the logs end: what fetches said is of no use when they have ceased.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// Partitions of one such question: librdkafka compares each with each.
const ASKED_MAX: usize = 128;

/// Written by the thread, read by anyone.
#[derive(Debug)]
pub(crate) struct ClientStats {
    origin: Instant,
    /// The last round, in milliseconds since `origin`.
    round: AtomicU64,
    joined: AtomicBool,
    /// When brokers were first asked for what they have not answered, in milliseconds since `origin`; 0: never.
    no_answer: AtomicU64,
    ends: Mutex<HashMap<TopicPartition, NextOffset>>,
    asked: Mutex<HashMap<TopicPartition, LogEnds>>,
    unread: Mutex<HashMap<TopicPartition, Unread>>,
    /// The group, and the topics that are consumed.
    group: Arc<str>,
    names: Vec<Arc<str>>,
    forbidden: Mutex<BTreeSet<Forbidden>>,
    /// Whether anything is: looked at for each record.
    any_forbidden: AtomicBool,
    unassigned: Mutex<Vec<Arc<str>>>,
    topics: Mutex<HashMap<Arc<str>, TopicPresence>>,
}

impl ClientStats {
    pub(crate) fn new(group: &str, topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self {
            origin: Instant::now(),
            round: AtomicU64::new(0),
            joined: AtomicBool::new(false),
            no_answer: AtomicU64::new(0),
            ends: Mutex::default(),
            asked: Mutex::default(),
            unread: Mutex::default(),
            group: group.into(),
            names: topics.into_iter().collect(),
            forbidden: Mutex::default(),
            any_forbidden: AtomicBool::new(false),
            unassigned: Mutex::default(),
            topics: Mutex::default(),
        }
    }

    pub(crate) fn topics(&self) -> Vec<Arc<str>> {
        self.names.clone()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// An assignment arrived, possibly an empty one; or this member is out.
    pub(crate) fn joined(&self, joined: bool) {
        self.joined.store(joined, Relaxed);
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.joined.load(Relaxed)
    }

    pub(crate) fn read(&self) -> BrokerHealth {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let no_answer = self.no_answer.load(Relaxed);
        let brokers_silence = if no_answer == 0 { 0 } else { self.now().saturating_sub(no_answer) };
        BrokerHealth {
            brokers_silence: Duration::from_millis(brokers_silence),
            joined: self.joined.load(Relaxed),
            silence: Duration::from_millis(self.now().saturating_sub(self.round.load(Relaxed))),
            ends,
            asked: self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            unread: self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            topics: self.topics.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            forbidden: self.forbidden.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            unassigned: self.unassigned.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether the configuration names a topic.
    pub(crate) fn consumes(&self, topic: &str) -> bool {
        self.names.iter().any(|name| &**name == topic)
    }

    /// The brokers forbid a topic, or the group.
    pub(crate) fn note_forbidden(&self, topic: Option<&str>) {
        let forbidden = match topic {
            Some(topic) => Forbidden::reading("topic", topic),
            None => Forbidden::reading("group", &self.group),
        };
        self.forbidden.lock().unwrap_or_else(PoisonError::into_inner).insert(forbidden);
        self.any_forbidden.store(true, Relaxed);
    }

    /// They have just served it.
    pub(crate) fn note_allowed(&self, topic: Option<&[u8]>) {
        if !self.any_forbidden.load(Relaxed) {
            return;
        }
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        forbidden.retain(|it| match topic {
            Some(topic) => it.resource != "topic" || it.name.as_bytes() != topic,
            None => it.resource != "group",
        });
        self.any_forbidden.store(!forbidden.is_empty(), Relaxed);
    }

    /// Topics that no member of the group has, of those that are there.
    pub(crate) fn note_unassigned(&self, assigned: &HashSet<String>) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let there = |name: &&Arc<str>| {
            let there = matches!(topics.get(*name), Some(TopicPresence::There(..)));
            there && !assigned.contains(&***name)
        };
        let unassigned: Vec<_> = self.names.iter().filter(there).cloned().collect();
        *self.unassigned.lock().unwrap_or_else(PoisonError::into_inner) = unassigned;
    }

    pub(crate) fn unassigned(&self) -> Vec<Arc<str>> {
        self.unassigned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Brokers are asked something that each can answer at once.
    fn ask(&self) {
        let now = self.now().max(1);
        let _ = self.no_answer.compare_exchange(0, now, Relaxed, Relaxed); // the first counts
    }

    /// A broker has answered.
    pub(crate) fn note_answer(&self) {
        self.no_answer.store(0, Relaxed);
    }

    /// Whether a topic is there and does not have this partition.
    pub(crate) fn lacks(&self, topic_partition: &TopicPartition) -> bool {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        match topics.get(&topic_partition.topic) {
            Some(TopicPresence::There(state, _)) => state.lacks(topic_partition).is_some(),
            Some(TopicPresence::Missing(_)) | None => false,
        }
    }

    /// What the brokers know of a topic. A question that failed says nothing of it.
    pub(crate) fn note_topic(&self, topic: &str, facts: &Result<TopicState, NoFacts>) {
        let Some(name) = self.names.iter().find(|name| &***name == topic) else { return };
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let sight = match (facts, topics.get(name)) {
            (Ok(facts), _) => TopicPresence::There(*facts, Instant::now()),
            (Err(NoFacts::Missing), Some(TopicPresence::Missing(since))) => {
                TopicPresence::Missing(*since)
            }
            (Err(NoFacts::Missing), _) => TopicPresence::Missing(Instant::now()),
            (Err(NoFacts::Forbidden), _) => return self.note_forbidden(Some(name)),
            (Err(NoFacts::Failed(_) | NoFacts::Unsupported), _) => return,
        };
        topics.insert(Arc::clone(name), sight);
    }

    /// What brokers have answered; `None` where one has not, of which nothing is known then.
    pub(crate) fn note_ends(
        &self,
        isolation: Isolation,
        ends: impl Iterator<Item = (TopicPartition, Option<NextOffset>)>,
    ) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic_partition, end) in ends {
            if end.is_some() {
                self.note_answer();
            }
            let known = asked.entry(topic_partition).or_default();
            match isolation {
                Isolation::Committed => known.stable = end,
                Isolation::Uncommitted => known.high = end,
            }
        }
    }
}

impl PollLoop {
    /// Notes that a round begins, and now and then where the logs end, as the client's fetches said, without
    /// asking a broker; and what cannot be read.
    pub(crate) fn tick(&mut self) {
        self.stats.round.store(self.stats.now(), Relaxed);
        let now = Instant::now();
        if self.ends_due > now {
            return;
        }
        self.ends_due = now + NOTED_EVERY;
        let (mut ends, mut unread) = (HashMap::new(), HashMap::new());
        for number in self.states.ours() {
            let state = self.states.get(number);
            let topic_partition = state.topic_partition.clone();
            if let Some(batch) = state.unread(now) {
                unread.insert(topic_partition.clone(), batch);
            }
            if let Some(end) =
                ffi::log_end(&self.client, &topic_partition.topic, topic_partition.partition)
            {
                ends.insert(topic_partition, NextOffset(end));
            }
        }
        *self.stats.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
        *self.stats.unread.lock().unwrap_or_else(PoisonError::into_inner) = unread;
        self.ask_all_ends(now);
        self.rejoin_where_misfit(now);
    }

    fn ask_all_ends(&mut self, now: Instant) {
        if self.asked_due > now || self.open_questions.asks_for_ends() {
            return;
        }
        self.asked_due = now + ASKED_EVERY;
        let partitions = self.states.topic_partitions(&self.states.ours());
        let ours: HashSet<&TopicPartition> = partitions.iter().collect();
        {
            let mut asked = self.stats.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.retain(|topic_partition, _| ours.contains(topic_partition));
        }
        self.ask_all_topics();
        self.ask_group();
        // Where nothing is assigned, what is known of topics tells that a broker is there.
        if !partitions.is_empty() || self.open_questions.asks_for_topics() {
            self.stats.ask();
        }
        for some in partitions.chunks(ASKED_MAX) {
            // Later than the end that can be read: then what lies between the two was there.
            self.ask_ends(some, Isolation::Committed);
            self.ask_ends(some, Isolation::Uncommitted);
        }
    }
}
