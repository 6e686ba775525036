//! The signals that end a process, caught by a thread of their own: what blocks every thread of the runtime
//! blocks no end.

use std::{
    io::{self, Write as _},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals as Caught,
    low_level,
};
use tokio::sync::watch;

use super::{Exit, Terminal};
use crate::printed;

/// So long after the second signal the process ends, whatever it does.
const LAST_WORD: Duration = Duration::from_secs(1);

/// SIGTERM and SIGINT.
#[derive(Clone, Debug)]
pub struct Signals(watch::Receiver<usize>);

impl Signals {
    /// Both from now on. So long after the first one, and a second after the second, the process ends whatever
    /// it does.
    ///
    /// # Errors
    /// [`Exit::Runtime`] after a complaint, when the system does not let signals be caught.
    pub fn catch(longest: Option<Duration>, terminal: &mut Terminal<'_>) -> Result<Self, Exit> {
        let (sender, received) = watch::channel(0);
        let listening = Caught::new([SIGINT, SIGTERM]).and_then(|caught| {
            let thread = thread::Builder::new().name("signals".into());
            thread.spawn(move || listen(caught, &sender, longest))
        });
        match listening {
            Ok(_) => Ok(Self(received)),
            Err(error) => {
                terminal.complain(format!("signals cannot be caught: {error}"));
                Err(Exit::Runtime)
            }
        }
    }

    /// Resolves when so many of them have come.
    pub async fn received(mut self, times: usize) {
        if self.0.wait_for(|count| *count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn listen(mut caught: Caught, received: &watch::Sender<usize>, longest: Option<Duration>) {
    for (before, _) in caught.forever().enumerate() {
        received.send_replace(before + 1);
        match (before, longest) {
            (0, Some(longest)) => end_after(longest),
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
            "the process did not end in time after a signal: something blocks its threads; it ends now, and what was \
             not committed is done by others",
        )
    });
}

/// Ends the process at once, with a last word: no destructor is waited for.
pub fn end_now(exit: Exit, why: &str) -> ! {
    let _ = writeln!(io::stderr(), "{}", printed::lines(why));
    low_level::exit(i32::from(exit.code()))
}
