//! What a turn works with.

use std::time::{Duration, Instant};

use super::{
    LazySession,
    dispatch::{Calls, Dispatch, kafka},
    keeper::Lease,
    progress::Progress,
};
use crate::port::Sessions;

/// How long Kafka may be away before what waits for it makes room for others.
const KAFKA_PATIENCE: Duration = Duration::from_secs(2);

/// What a turn works with.
pub(super) struct Work<'a, F: Sessions> {
    pub(super) lease: &'a Lease,
    pub(super) session: &'a mut LazySession<F>,
    pub(super) progress: Progress,
    /// What goes to destinations other than Kafka.
    pub(super) dispatch: Dispatch,
    pub(super) calls: Calls,
    /// The last look may have left rows.
    pub(super) more: bool,
    /// When that was.
    pub(super) looked: Instant,
    /// Whether there are new rows.
    pub(super) new_rows: NewRows,
    /// Since when there is no producer, where Kafka is a destination.
    pub(super) without_kafka: Option<Instant>,
    /// Since when no batch has come through.
    pub(super) kafka_fails: Option<Instant>,
    /// What is for Kafka waits in the database.
    pub(super) kafka_waits: bool,
    /// What rows waited for when the turn began is known.
    pub(super) names_known: bool,
    /// On which session the numbers of rows were asked for.
    pub(super) numbered: Option<u64>,
}

/// What was told of new rows while Kafka was waited for.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct NewRows {
    /// There are some, and no look has followed yet.
    pub(super) pending: bool,
    /// A look has followed, which passed over what is for Kafka.
    pub(super) passed: bool,
}

impl NewRows {
    /// Whether a round has to look.
    pub(super) fn any(self) -> bool {
        self.pending || self.passed
    }
}

impl<'a, F: Sessions> Work<'a, F> {
    pub(super) fn new(
        lease: &'a Lease,
        session: &'a mut LazySession<F>,
        events_max: usize,
        dispatch: Dispatch,
    ) -> Self {
        let progress = Progress::new(events_max, Instant::now());
        Self {
            lease,
            session,
            progress,
            dispatch,
            calls: Calls::default(),
            more: false,
            looked: Instant::now(),
            new_rows: NewRows::default(),
            without_kafka: None,
            kafka_fails: None,
            names_known: false,
            kafka_waits: false,
            numbered: None,
        }
    }

    /// Whether the session is the one that what is known of rows was learnt on.
    pub(super) fn knows_session(&self) -> bool {
        self.numbered.is_some() && self.numbered == self.session.number()
    }

    /// There is no producer.
    pub(super) fn lose_kafka(&mut self) {
        let since = self.kafka_fails.unwrap_or_else(Instant::now);
        self.without_kafka.get_or_insert(since);
        // What waits for it goes on waiting.
        self.kafka_waits |= self.progress.keep_destination(&kafka());
    }

    /// Whether Kafka has been away for so long that what waits for it must not hide what does not.
    pub(super) fn kafka_hides(&self) -> bool {
        self.without_kafka.is_some_and(|since| since.elapsed() >= KAFKA_PATIENCE)
    }

    /// Whether there are rows to read, and few enough under way.
    pub(super) fn wants_rows(&self) -> bool {
        self.dispatch.is_low() && (self.more || self.dispatch.has_room_again(Instant::now()))
    }
}
