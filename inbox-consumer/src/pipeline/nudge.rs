//! A thread that wakes the runtime, so that a handler that blocks one of its threads does not stop the others.
//!
//! In a runtime of several threads one of them waits for sockets and timers, for all of them. When it is woken it runs
//! what has become ready, and the next idle thread takes its place only when something wakes that one. If what it runs
//! is a handler that blocks, nothing does: no timer ends and no answer of the database is read any more, though there
//! are idle threads (tokio's issue 4730). A task from outside wakes one.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use tokio::runtime::Handle;

/// So often; what is named after seconds may be late by as much.
const EVERY: Duration = Duration::from_secs(1);

/// It wakes the runtime for as long as this is there.
#[derive(Debug)]
pub(crate) struct Nudge(
    #[expect(dead_code, reason = "the thread asks whether it is there")] Arc<()>,
);

/// Begins to wake the runtime that this is called in. A thread that cannot be had costs no more than what it is for.
pub(crate) fn nudge() -> Nudge {
    let alive = Arc::new(());
    let (watched, runtime) = (Arc::downgrade(&alive), Handle::current());
    let thread = thread::Builder::new().name("inbox-nudge".into());
    drop(thread.spawn(move || wake(&watched, &runtime)));
    Nudge(alive)
}

fn wake(watched: &Weak<()>, runtime: &Handle) {
    while watched.strong_count() > 0 {
        drop(runtime.spawn(async {}));
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A thread is woken by a timer, and blocks: with one more thread the next timer ends all the same.
    #[test]
    fn a_thread_that_blocks_does_not_stop_the_timers_of_others() {
        const BLOCKED: Duration = Duration::from_secs(5);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let took = runtime.block_on(async {
            let _nudge = nudge();
            tokio::spawn(async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                thread::sleep(BLOCKED);
            });
            let begun = Instant::now();
            tokio::spawn(tokio::time::sleep(Duration::from_millis(700))).await.unwrap();
            begun.elapsed()
        });
        assert!(took < BLOCKED, "{took:?}");
    }
}
