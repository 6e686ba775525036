//! The signals that end a process, caught by a thread of their own: what blocks every thread of the runtime
//! blocks no end.

use std::{
    io::{self, Write as _},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals as Caught,
    low_level,
};
use tokio::sync::watch;

use super::{Exit, Terminal, json};

/// So long after the second signal the process ends, whatever it does.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Signals that come so soon after one that counts are that one: GNU `timeout` and process managers signal a process
/// and its group, of which it is a member.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// SIGTERM and SIGINT.
#[derive(Clone, Debug)]
pub struct Signals {
    received: watch::Receiver<usize>,
    longest: Arc<OnceLock<Duration>>,
}

impl Signals {
    /// Both from now on, where the command is one that answers them (`answers`): the first thing that it does. A second
    /// after the second one the process ends whatever it does. Other commands are ended by them.
    ///
    /// # Errors
    /// [`Exit::Runtime`] after a complaint, when the system does not let signals be caught.
    pub fn catch(answers: bool, terminal: &mut Terminal<'_>) -> Result<Self, Exit> {
        let (sender, received) = watch::channel(0);
        let longest = Arc::new(OnceLock::new());
        let limit = Arc::clone(&longest);
        if !answers {
            return Ok(Self { received, longest });
        }
        let listening = Caught::new([SIGINT, SIGTERM]).and_then(|caught| {
            let thread = thread::Builder::new().name("signals".into());
            thread.spawn(move || listen(caught, &sender, &limit))
        });
        match listening {
            Ok(_) => Ok(Self { received, longest }),
            Err(error) => {
                terminal.complain(format!("cannot handle signals: {error}"));
                Err(Exit::Runtime)
            }
        }
    }

    /// So long after the first one that comes from now on the process ends, too, whatever it does.
    pub fn end_within(&self, longest: Duration) {
        // The first word counts.
        let _ = self.longest.set(longest);
    }

    /// Resolves after this number of signals; those within one second count as one.
    pub async fn received(mut self, times: usize) {
        if self.received.wait_for(|count| *count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signals so far.
#[derive(Debug, Default)]
struct Counted {
    times: usize,
    last: Option<Instant>,
}

impl Counted {
    /// Counts one, unless it is the last one once more; returns how many came before it.
    fn count(&mut self, now: Instant) -> Option<usize> {
        if self.last.is_some_and(|last| now.duration_since(last) < SAME_SIGNAL) {
            return None;
        }
        self.last = Some(now);
        self.times += 1;
        Some(self.times - 1)
    }
}

fn listen(mut caught: Caught, received: &watch::Sender<usize>, longest: &OnceLock<Duration>) {
    let mut counted = Counted::default();
    for _ in caught.forever() {
        let Some(before) = counted.count(Instant::now()) else { continue };
        received.send_replace(before + 1);
        match (before, longest.get()) {
            (0, Some(longest)) => end_after(*longest),
            (0, None) => {}
            _ => end_after(LAST_WORD),
        }
    }
}

/// Ends the process if it has not ended by itself until then.
fn end_after(wait: Duration) {
    thread::spawn(move || {
        thread::sleep(wait);
        end_now(
            Exit::Runtime,
            "the process did not shut down in time after a signal because something blocks its \
             threads; exiting now. Other processes redo what was not committed",
        )
    });
}

/// Ends the process at once, with a last word: no destructor is waited for.
pub fn end_now(exit: Exit, why: &str) -> ! {
    let _ = writeln!(io::stderr(), "{}", json::last_words(why).trim_end());
    low_level::exit(i32::from(exit.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_count_as_one() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut counted = Counted::default();
        let counts = [0, 1, 999, 1_000, 1_500, 2_000].map(|at| counted.count(after(at)));
        assert_eq!(counts, [Some(0), None, None, Some(1), None, Some(2)]);
    }
}
