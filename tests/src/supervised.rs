//! A process that is started again, at once, whenever it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::Worker;

/// So often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A supervisor, and the process that runs now.
#[derive(Debug)]
pub struct Supervised {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    worker: Worker,
    ends: Vec<Instant>,
    over: bool,
}

impl Supervised {
    /// Starts it, and again whenever it ends.
    pub fn start(start: impl Fn() -> Worker + Send + 'static) -> Self {
        let state = State { worker: start(), ends: Vec::new(), over: false };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            loop {
                thread::sleep(LOOK);
                let mut state = locked(&shared);
                if state.over {
                    return;
                }
                if !state.worker.running() {
                    state.ends.push(Instant::now());
                    state.worker = start();
                }
            }
        });
        Self { state, thread: Some(thread) }
    }

    /// When processes have ended so far.
    pub fn ends(&self) -> Vec<Instant> {
        locked(&self.state).ends.clone()
    }

    /// `kill -9` of the process that runs.
    pub fn kill(&self) {
        locked(&self.state).worker.kill();
    }

    /// What the process that runs has printed.
    pub fn log(&self) -> String {
        locked(&self.state).worker.log()
    }

    /// Asks the last one to end, and starts no other: whether it ended well.
    pub async fn end(mut self) -> bool {
        self.stop();
        let Some(state) = Arc::get_mut(&mut self.state) else { return false };
        let worker = &mut state.get_mut().unwrap_or_else(PoisonError::into_inner).worker;
        worker.terminate();
        worker.ended(Duration::from_mins(1)).await.success()
    }

    fn stop(&mut self) {
        locked(&self.state).over = true;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.stop();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
