//! A thread that tells when the consumer's loop does not come round.
//!
//! Handlers that block every thread of the runtime would keep the loop from telling that itself.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use super::{Signal, meters::Meters, readings};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// It looks for as long as this is there.
#[derive(Debug)]
pub(crate) struct Watchdog(
    #[expect(dead_code, reason = "the thread asks whether it is there")] Arc<()>,
);

/// Begins to look. A thread that cannot be had costs a line in the log, no more.
pub(crate) fn watch(meters: Arc<Meters>) -> Watchdog {
    let alive = Arc::new(());
    let watched = Arc::downgrade(&alive);
    let thread = thread::Builder::new().name("inbox-watchdog".into());
    drop(thread.spawn(move || look(&watched, &meters)));
    Watchdog(alive)
}

fn look(watched: &Weak<()>, meters: &Meters) {
    let mut told = false;
    while watched.strong_count() > 0 {
        told = tell(meters, told);
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
    use std::time::Instant;

    use super::*;
    use crate::telemetry::meters::Live;

    #[test]
    fn a_loop_that_does_not_come_round_is_told_once() {
        let meters = Meters::new("billing", ["OrderPaid"], 8);
        let minute = Duration::from_mins(1);
        let silent = Live { at: Instant::now().checked_sub(minute), ..Live::default() };
        let lines = inbox_settings::testing::told(|| {
            assert!(!tell(&meters, false), "it does not run yet");
            meters.publish(silent);
            assert!(tell(&meters, false) && tell(&meters, true));
            meters.publish(Live { at: Some(Instant::now()), ..Live::default() });
            assert!(!tell(&meters, true), "it moves again");
        });
        assert_eq!(lines.len(), 1);
    }
}
