//! What waits to be exported, and what is told of what is lost.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    TracesNotice,
    throttle::{Cause, Throttle},
};

/// So many spans wait at most, those that are being sent included.
pub(super) const QUEUE_MAX: usize = 2_048;

/// What waits, and what was lost.
#[derive(Debug)]
pub(super) struct Queue {
    tell: fn(TracesNotice),
    waiting: AtomicUsize,
    /// Since spans were exported last.
    lost: AtomicU64,
    /// Whether the queue is full, and that is known.
    full: AtomicBool,
    throttle: Mutex<Throttle>,
    /// The process ends: nothing is tried again.
    ending: AtomicBool,
}

impl Queue {
    pub(super) fn new(tell: fn(TracesNotice)) -> Self {
        Self {
            tell,
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            full: AtomicBool::new(false),
            throttle: Mutex::new(Throttle::outage(Duration::ZERO)),
            ending: AtomicBool::new(false),
        }
    }

    /// Whether there is room for one more span, which then waits. One without room is lost.
    pub(super) fn take(&self) -> bool {
        if self.waiting.fetch_add(1, Relaxed) < QUEUE_MAX {
            return true;
        }
        self.waiting.fetch_sub(1, Relaxed);
        let lost = self.lost.fetch_add(1, Relaxed) + 1;
        if !self.full.swap(true, Relaxed) {
            self.met(lost, format!("{QUEUE_MAX} spans are queued; the receiver is too slow"));
        }
        false
    }

    /// Whether another attempt is worth it: not while the receiver is known to be away, nor at the end.
    pub(super) fn tries_again(&self) -> bool {
        !self.ending.load(Relaxed) && !self.throttle().is_open()
    }

    /// A batch was taken, but for some of its spans that the receiver refused.
    pub(super) fn sent(&self, spans: usize, refused: Option<(u64, String)>) {
        self.waiting.fetch_sub(spans, Relaxed);
        self.full.store(false, Relaxed);
        if let Some((refused, why)) = refused {
            let lost = self.lost.fetch_add(refused, Relaxed) + refused;
            return self.met(lost, format!("the receiver refused some: {why}"));
        }
        let over = self.throttle().resolve(Instant::now());
        if let Some(met) = over {
            let spans = self.lost.swap(0, Relaxed);
            (self.tell)(TracesNotice::Exported { spans, seconds: met.seconds });
        }
    }

    /// A batch was not taken.
    pub(super) fn failed(&self, spans: usize, error: String) {
        self.waiting.fetch_sub(spans, Relaxed);
        let spans = spans as u64;
        let lost = self.lost.fetch_add(spans, Relaxed) + spans;
        self.met(lost, error);
    }

    /// The process ends.
    pub(super) fn end(&self) {
        self.ending.store(true, Relaxed);
    }

    /// The end did not wait for what waits.
    pub(super) fn left(&self) {
        let left = self.waiting.load(Relaxed) as u64;
        if left > 0 {
            let lost = self.lost.fetch_add(left, Relaxed) + left;
            self.met(lost, "the process ended before the receiver accepted them".into());
        }
    }

    /// Tells what was met, once until it is over.
    fn met(&self, spans: u64, error: String) {
        let mut throttle = self.throttle();
        let begins = !throttle.is_open();
        // Whatever the causes: they are one outage.
        let met = throttle.record(Cause::of("traces", ""), Instant::now());
        drop(throttle);
        // What comes back soon was not over.
        if begins && met.is_some_and(|met| met.times == 1) {
            (self.tell)(TracesNotice::Lost { spans, error });
        }
    }

    fn throttle(&self) -> std::sync::MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static TOLD: RefCell<Vec<TracesNotice>> = const { RefCell::new(Vec::new()) };
    }

    fn queue() -> Queue {
        Queue::new(|notice| TOLD.with_borrow_mut(|told| told.push(notice)))
    }

    fn told() -> Vec<TracesNotice> {
        TOLD.take()
    }

    #[test]
    fn a_full_queue_loses_spans_and_says_so_once() {
        let queue = queue();
        let taken = (0..QUEUE_MAX + 10).filter(|_| queue.take()).count();
        assert_eq!(taken, QUEUE_MAX);
        let error = format!("{QUEUE_MAX} spans are queued; the receiver is too slow");
        assert_eq!(told(), [TracesNotice::Lost { spans: 1, error }]);
        queue.sent(512, None);
        assert_eq!(told(), [TracesNotice::Exported { spans: 10, seconds: 0 }]);
        assert_eq!((0..600).filter(|_| queue.take()).count(), 512, "there is room again");
    }

    #[test]
    fn a_receiver_that_is_away_is_told_once_and_when_it_is_back() {
        let queue = queue();
        assert!(queue.tries_again());
        for _ in 0..100 {
            assert!(queue.take());
            queue.failed(1, "refused".into());
        }
        assert!(!queue.tries_again(), "each further batch has one attempt");
        assert_eq!(told(), [TracesNotice::Lost { spans: 1, error: "refused".into() }]);
        queue.take();
        queue.sent(1, None);
        assert_eq!(told(), [TracesNotice::Exported { spans: 100, seconds: 0 }]);
        queue.take();
        queue.failed(1, "refused".into());
        assert_eq!(told(), [], "it was not over");
    }

    #[test]
    fn what_the_receiver_refuses_and_what_the_end_leaves_is_lost() {
        let queue = queue();
        for _ in 0..5 {
            queue.take();
        }
        queue.sent(3, Some((2, "too old".into())));
        let error = "the receiver refused some: too old".into();
        assert_eq!(told(), [TracesNotice::Lost { spans: 2, error }]);
        queue.end();
        assert!(!queue.tries_again());
        queue.left();
        assert_eq!(queue.lost.load(Relaxed), 4);
    }
}
