//! What the system knows of processes: processor time and memory, from `/proc` of Linux.

use std::fs;
use std::time::Duration;

use crate::failure::{Explain as _, Outcome, failure};

/// Ticks of a second in /proc/*/stat: fixed on Linux, whatever the kernel's own clock.
const TICKS: u64 = 100;

/// Processor time that a process has used, and the children of it that have ended.
#[derive(Clone, Copy, Debug)]
struct Used {
    parent: u32,
    own: u64,
    reaped: u64,
}

/// This process's processor time so far.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own_cpu() -> Outcome<Duration> {
    cpu(std::process::id())
}

/// A process's processor time so far.
///
/// # Errors
/// When there is no such process.
pub fn cpu(pid: u32) -> Outcome<Duration> {
    Ok(time(used(pid)?.own))
}

/// This process's largest resident memory so far, in bytes.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own_peak_memory() -> Outcome<u64> {
    peak_memory(std::process::id())
}

/// A process's largest resident memory so far, in bytes.
///
/// # Errors
/// When there is no such process.
pub fn peak_memory(pid: u32) -> Outcome<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .explain(|| format!("cannot read the memory of process {pid}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).map_or_else(|| failure("/proc/*/status has no VmHWM"), Ok)
}

/// Processor time of a server and all its children, those that have ended included.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn family_cpu(server: u32) -> Outcome<Duration> {
    let entries = fs::read_dir("/proc").explain(|| "cannot list processes".to_owned())?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // One that ends meanwhile has its time in its parent's.
    let used = pids.filter_map(|pid: u32| {
        let used = parsed(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        if pid == server {
            return Some(used.own + used.reaped);
        }
        (used.parent == server).then_some(used.own)
    });
    Ok(time(used.sum()))
}

/// The process that started another.
///
/// # Errors
/// When there is no such process.
pub fn parent(pid: u32) -> Outcome<u32> {
    Ok(used(pid)?.parent)
}

/// The load of the machine over the last minute.
#[must_use]
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

fn used(pid: u32) -> Outcome<Used> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .explain(|| format!("cannot read the times of process {pid}"))?;
    parsed(&text).map_or_else(|| failure("/proc/*/stat is odd"), Ok)
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / TICKS)
}

/// One line of /proc/*/stat. The name, in parentheses, may hold anything; fields count from behind it.
fn parsed(stat: &str) -> Option<Used> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Used {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        reaped: number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_behind_the_name() {
        let line = "7 (a ) b) S 3 7 7 0 -1 4194560 1 2 0 0 100 20 30 4 20 0 1 0 5 6 7";
        let used = parsed(line).unwrap();
        assert_eq!((used.parent, used.own, used.reaped), (3, 120, 34));
    }

    #[test]
    fn this_process_has_used_memory() {
        assert!(own_peak_memory().unwrap() > 100_000);
        own_cpu().unwrap();
    }
}
