//! A thread that tells when the consumer's loop does not come round, ends a process that a handler blocks, and wakes
//! the runtime, so that a handler that blocks one of its threads does not stop the others.
//!
//! Handlers that block every thread of the runtime would keep the loop from telling that itself.
//!
//! In a runtime of several threads one of them waits for sockets and timers, for all of them. When it is woken it runs
//! what has become ready, and the next idle thread takes its place only when something wakes that one. If what it runs
//! is a handler that blocks, nothing does: no timer ends and no answer of the database is read any more, though there
//! are idle threads (tokio's issue 4730). A task from outside wakes one.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{Signal, meters::Meters, readings};

/// How often it looks; what is named after seconds may be late by as much.
const EVERY: Duration = Duration::from_secs(1);

/// A call that was overdue at so many looks in a row never comes back. They are counted, not timed: a process that
/// was stopped and goes on sees each once.
const LOOKS_MAX: u32 = 25;

/// It looks for as long as this is there.
#[derive(Debug)]
pub struct Watchdog(#[expect(dead_code, reason = "the thread asks whether it is there")] Arc<()>);

/// Begins to look, and to wake the runtime that this is called in. A thread that cannot be had costs a line in the log, no more.
pub fn watch(meters: Arc<Meters>) -> Watchdog {
    let alive = Arc::new(());
    let (watched, runtime) = (Arc::downgrade(&alive), Handle::current());
    let thread = thread::Builder::new().name("inbox-watchdog".into());
    drop(thread.spawn(move || look(&watched, &runtime, &meters)));
    Watchdog(alive)
}

fn look(watched: &Weak<()>, runtime: &Handle, meters: &Meters) {
    let (mut told, mut looks) = (false, 0);
    while watched.strong_count() > 0 {
        drop(runtime.spawn(async {}));
        told = tell(meters, told);
        looks = if meters.calls.overdue(None, Instant::now()).is_some() { looks + 1 } else { 0 };
        if looks >= LOOKS_MAX
            && let Some(end) = meters.end_when_blocked.get()
        {
            let error = meters.calls.overdue(None, Instant::now()).unwrap_or_default();
            Signal::Blocked { error: error.clone() }.emit();
            end(&error);
        }
        thread::sleep(EVERY);
    }
}

/// Tells it once; whether there was something to tell.
fn tell(meters: &Meters, told: bool) -> bool {
    let Some(error) = readings::stuck(meters, &meters.live()) else { return false };
    if !told {
        Signal::Stuck { error }.emit();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::meters::Live;

    #[test]
    fn a_loop_that_does_not_come_round_is_told_once() {
        let meters = Meters::new("billing", ["OrderPaid"], 8);
        let minute = Duration::from_mins(1);
        let silent = Live { at: Instant::now().checked_sub(minute), ..Live::default() };
        let lines = service_kit::testing::capture_log(|| {
            assert!(!tell(&meters, false), "it does not run yet");
            meters.publish(silent);
            assert!(tell(&meters, false) && tell(&meters, true));
            meters.publish(Live { at: Some(Instant::now()), ..Live::default() });
            assert!(!tell(&meters, true), "it moves again");
        });
        assert_eq!(lines.len(), 1);
    }

    /// A thread is woken by a timer, and blocks: with one more thread the next timer ends all the same.
    #[test]
    fn a_thread_that_blocks_does_not_stop_the_timers_of_others() {
        const BLOCKED: Duration = Duration::from_secs(5);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let took = runtime.block_on(async {
            let _watchdog = watch(Meters::new("billing", ["OrderPaid"], 8));
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
