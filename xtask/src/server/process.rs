//! Processes by id, and only those that were started here: an id counts together with its time of birth.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::command::capture;

/// A process that was started here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: u32,
    /// In the system's own notation; a later process with the same id was born at another time.
    born: String,
}

impl Process {
    /// The process with this id, if it is alive.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, born: birth(pid)? })
    }

    /// The system's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it still runs (or is stopped): one that nobody has reaped yet has ended.
    pub fn alive(&self) -> bool {
        birth(self.pid).is_some_and(|born| born == self.born)
    }

    /// Sends a signal by name (`TERM`, `KILL`, `STOP`, `CONT`), if the process is still the one it was.
    pub fn signal(&self, name: &str) {
        if self.alive() {
            // The shell's own `kill`: a minimal system has no program of that name.
            let script = "kill -s \"$0\" \"$1\"";
            let pid = self.pid.to_string();
            drop(capture(Command::new("sh").args(["-c", script, name, &pid])));
        }
    }

    /// Sends a signal, waits up to `patience` for the end, then kills.
    pub fn stop(&self, signal: &str, patience: Duration) {
        self.signal(signal);
        let deadline = Instant::now() + patience;
        while self.alive() {
            if Instant::now() >= deadline {
                self.signal("KILL");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// When a process was born, or nothing if it has ended.
fn birth(pid: u32) -> Option<String> {
    if Path::new("/proc/self/stat").exists() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything; the fields count from behind it.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        return if "ZX".contains(state) { None } else { fields.nth(18).map(str::to_owned) };
    }
    let pid = pid.to_string();
    let text = capture(Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid])).ok()?;
    let (state, born) = text.trim().split_once(' ')?;
    if state.starts_with('Z') { None } else { Some(born.trim().to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_and_its_birth() {
        let own = Process::of(std::process::id()).expect("this process is alive");
        assert!(own.alive());
        let stranger = Process { born: "another time".to_owned(), ..own };
        assert!(!stranger.alive(), "a later process with the same id is another one");
    }

    #[test]
    fn a_stopped_process_is_gone_though_nobody_has_reaped_it() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let process = Process::of(child.id()).expect("it is alive");
        process.stop("TERM", Duration::from_secs(5));
        assert!(!process.alive());
        child.wait().expect("it is reaped");
    }
}
