//! Named points at which a test kills or freezes the process. In a production build they are nothing.
//!
//! With the feature `ablation`, `INBOX_FAULT=<point>[:<n>][:stop]` aborts the process, or stops it until
//! it is woken (SIGCONT), at the n-th pass of that point. The points are [`POINTS`].

/// Every point, in the order of a transaction.
#[cfg(feature = "ablation")]
const POINTS: &[&str] = &[
    "live.after_begin",
    "live.after_claim",
    "live.after_handler",
    "live.after_park",
    "live.before_commit",
    "live.after_commit",
    "release.after_begin",
    "release.after_read",
    "release.after_mark",
    "release.after_handler",
    "release.after_remove",
    "release.after_promote",
    "release.before_commit",
    "release.after_commit",
];

/// The process passes a point.
#[cfg(not(feature = "ablation"))]
#[inline]
pub(super) fn pass(_point: &'static str) {}

/// The process passes a point.
#[cfg(feature = "ablation")]
pub(super) fn pass(point: &'static str) {
    armed::pass(point);
}

#[cfg(feature = "ablation")]
mod armed {
    use std::{
        process::Command,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::{Duration, Instant},
    };

    /// Long enough for a signal to arrive.
    const STOPPED_WITHIN: Duration = Duration::from_secs(1);

    #[derive(Debug, PartialEq, Eq)]
    struct InjectedFault {
        point: String,
        at: u64,
        stop: bool,
    }

    static FAULT: LazyLock<Option<InjectedFault>> =
        LazyLock::new(|| read(&std::env::var("INBOX_FAULT").ok()?));
    static PASSES: AtomicU64 = AtomicU64::new(0);

    fn read(text: &str) -> Option<InjectedFault> {
        let mut parts = text.split(':');
        let point = parts.next().filter(|point| super::POINTS.contains(point))?.to_owned();
        let mut fault = InjectedFault { point, at: 1, stop: false };
        for part in parts {
            match part.parse() {
                Ok(at) => fault.at = at,
                Err(_) => fault.stop = part == "stop",
            }
        }
        Some(fault)
    }

    pub(super) fn pass(point: &'static str) {
        let Some(fault) = FAULT.as_ref().filter(|fault| fault.point == point) else { return };
        if PASSES.fetch_add(1, Ordering::SeqCst) + 1 != fault.at {
            return;
        }
        if !fault.stop {
            std::process::abort();
        }
        let (pid, begun) = (std::process::id().to_string(), Instant::now());
        // The shell's own `kill`: a small system has no program of that name.
        let _ = Command::new("sh").args(["-c", "kill -STOP \"$0\"", &pid]).status();
        // On a busy machine the signal may reach this thread after `kill` has been waited for: the point
        // is not passed meanwhile. The clock runs on while the process is stopped: once awake it goes on at once.
        while begun.elapsed() < STOPPED_WITHIN {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_fault_has_a_point_a_count_and_a_kind() {
            let fault =
                |point: &str, at, stop| Some(InjectedFault { point: point.into(), at, stop });
            assert_eq!(read("live.after_claim"), fault("live.after_claim", 1, false));
            assert_eq!(read("release.after_mark:3"), fault("release.after_mark", 3, false));
            assert_eq!(read("release.after_mark:2:stop"), fault("release.after_mark", 2, true));
            assert_eq!(read("release.after_lunch:2"), None);
        }
    }
}
