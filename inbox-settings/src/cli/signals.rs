//! The signals that end a process. This file alone names the runtime here: a signal has to be awaited.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Exit, Terminal};

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Those for the first signal and those for the second, or the exit after a complaint.
    ///
    /// # Errors
    /// [`Exit::Runtime`], when the system does not let signals be caught.
    pub fn both(terminal: &mut Terminal<'_>) -> Result<(Self, Self), Exit> {
        let both = Self::new().and_then(|first| Ok((first, Self::new()?)));
        both.map_err(|error| {
            terminal.complain(format!("signals cannot be caught: {error}"));
            Exit::Runtime
        })
    }

    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Resolves when `times` signals have come.
    pub async fn received(mut self, times: usize) {
        for _ in 0..times {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
    }
}
