//! The body of a call, which knows how much of it was taken to be sent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// What is handed to the connection at once: it takes the last part when what is before it is on its way.
const PART_BYTES: usize = 64 << 10;

/// How far a call has come. What was never whole at the receiver was not taken by it.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    taken: Arc<AtomicUsize>,
    bytes: usize,
}

impl Progress {
    /// Whether a connection has begun to send it.
    pub(crate) fn is_begun(&self) -> bool {
        self.bytes == 0 || self.taken.load(Relaxed) > 0
    }

    /// Whether all of it may have arrived. Nobody is asked for a body without bytes, so it always may.
    pub(crate) fn is_whole(&self) -> bool {
        self.taken.load(Relaxed) >= self.bytes
    }
}

/// Bytes that are sent part by part.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    rest: Bytes,
    progress: Progress,
}

impl TrackedBody {
    pub(crate) fn new(bytes: Bytes) -> (Self, Progress) {
        let progress = Progress { taken: Arc::default(), bytes: bytes.len() };
        (Self { rest: bytes, progress: progress.clone() }, progress)
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PART_BYTES);
        let part = self.rest.split_to(length);
        self.progress.taken.fetch_add(length, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
