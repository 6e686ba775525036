//! What a turn works with.

use std::time::Instant;

use super::{
    LazySession,
    dispatch::{Calls, Dispatch},
    keeper::Lease,
    progress::Progress,
};
use crate::port::Sessions;

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
    /// On which session the numbers of rows were asked for.
    pub(super) numbered: Option<u64>,
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
            numbered: None,
        }
    }

    /// Whether there are rows to read, and few enough under way.
    pub(super) fn wants_rows(&self) -> bool {
        self.more && self.dispatch.is_low()
    }
}
