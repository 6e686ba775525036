//! What was sent to the pipeline and has not been taken by it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::broker::{Arrival, ByteGuard};

/// Bytes beyond which nothing more is polled. The pipeline takes them within milliseconds, whatever its
/// lanes do; the thread that polls is faster, and what waits between them is in no limit.
const MAX: usize = 2 << 20;
/// How long the pipeline is given to take some.
pub(crate) const WAIT: Duration = Duration::from_micros(500);
/// What structures a record takes besides its bytes.
const RECORD_OVERHEAD: usize = 512;

/// Counts bytes that were sent and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct InFlightBytes(Arc<AtomicUsize>);

impl InFlightBytes {
    /// Whether it is too much.
    pub(crate) fn full(&self) -> bool {
        self.0.load(Relaxed) > MAX
    }

    /// Counts what is to be sent.
    pub(crate) fn guard(&self, arrivals: &[Arrival]) -> ByteGuard {
        let size = |arrival: &Arrival| arrival.weight() + RECORD_OVERHEAD;
        ByteGuard::of(arrivals.iter().map(size).sum(), &self.0)
    }
}
