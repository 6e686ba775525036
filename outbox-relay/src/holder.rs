//! Who has the lease: a name for people, and which process it is, so that a relay recognizes a holder that has died.
//!
//! `host@place.start/pid`: `place` stands for everything in which a process id is unique (the boot, the PID namespace) and
//! in which processes can see each other (the user), `start` for when the process was started. Where the system does not
//! report these it is `host/pid`, and nobody is recognized.

use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt as _, path::Path};

use xxhash_rust::xxh3::xxh3_64;

/// A process, as far as another one on its machine can tell it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProcessMark {
    place: u64,
    start: u64,
    pid: u32,
}

/// This process, as it is written beside its lease.
pub(crate) fn own() -> String {
    let (host, pid) = (service_kit::host(), std::process::id());
    match place().zip(started(pid).ok().flatten()) {
        Some((place, start)) => format!("{host}@{place:016x}.{start}/{pid}"),
        None => format!("{host}/{pid}"),
    }
}

/// The holder for people: `host/pid`.
pub(crate) fn name(holder: &str) -> String {
    match read(holder) {
        Some((host, mark)) => format!("{host}/{}", mark.pid),
        None => holder.to_owned(),
    }
}

/// Whether the holder was a process of this machine, and is certain to have ended. One that is frozen has not.
pub(crate) fn has_died(holder: &str) -> bool {
    let Some((_, ProcessMark { place: of, start, pid })) = read(holder) else { return false };
    place() == Some(of) && started(pid).is_ok_and(|now| now != Some(start))
}

fn read(holder: &str) -> Option<(&str, ProcessMark)> {
    let (host, rest) = holder.rsplit_once('@')?;
    let (mark, pid) = rest.split_once('/')?;
    let (place, start) = mark.split_once('.')?;
    let mark = ProcessMark {
        place: u64::from_str_radix(place, 16).ok()?,
        start: start.parse().ok()?,
        pid: pid.parse().ok()?,
    };
    Some((host, mark))
}

/// Where process ids mean the same as here, and where processes see each other: with `hidepid` a process of another
/// user looks as if it had ended.
fn place() -> Option<u64> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = fs::read_link("/proc/self/ns/pid").ok()?;
    // Start times are shifted in another one; old systems have none.
    let times = fs::read_link("/proc/self/ns/time").ok();
    let user = fs::metadata("/proc/self").ok()?.uid();
    Some(place_of(boot.trim(), &processes, times.as_deref(), user))
}

/// The same number in every build: the next one reads what this one has written.
fn place_of(boot: &str, processes: &Path, times: Option<&Path>, user: u32) -> u64 {
    let times = times.unwrap_or(Path::new("")).display();
    xxh3_64(format!("{boot} {} {times} {user}", processes.display()).as_bytes())
}

/// When a process was started, in ticks since the boot; `None` when there is no such process.
fn started(pid: u32) -> Result<Option<u64>, ()> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(()),
    };
    // Its name, in parentheses, may hold anything; the 22nd field is the 20th after it.
    let fields = stat.rsplit_once(')').ok_or(())?.1;
    fields.split_whitespace().nth(19).and_then(|start| start.parse().ok()).map(Some).ok_or(())
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// As another process writes itself.
    fn holder(pid: u32) -> String {
        let start = started(pid).unwrap().unwrap();
        format!("vm@{:016x}.{start}/{pid}", place().unwrap())
    }

    #[test]
    fn a_place_is_the_same_number_in_every_build() {
        let [processes, times] = ["pid:[4026531836]", "time:[4026531834]"].map(Path::new);
        let place = |times, user| place_of("a1b2", processes, times, user);
        assert_eq!(place(Some(times), 1000), 0xffe9_2b0c_98bc_c922);
        assert_ne!(place(Some(times), 1001), place(Some(times), 1000));
        assert_ne!(place(None, 1000), place(Some(times), 1000));
    }

    #[test]
    fn a_process_that_has_ended_is_known_and_a_frozen_one_has_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let named = holder(child.id());
        assert_eq!(name(&named), format!("vm/{}", child.id()));
        let signal = |name: &str| {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
        };
        assert!(!has_died(&named), "it runs");
        signal("-STOP");
        assert!(!has_died(&named), "it is frozen");
        signal("-KILL");
        child.wait().unwrap();
        assert!(has_died(&named));
    }

    #[test]
    fn who_cannot_be_known_to_have_ended_has_not() {
        assert!(!has_died(&own()) && name(&own()).ends_with(&format!("/{}", std::process::id())));
        let ended = "vm@0000000000000001.7/4000000000";
        for holder in ["", "vm/1", "other", "vm@x.7/4000000", ended] {
            assert!(!has_died(holder), "{holder}: of another boot, machine, namespace or build");
        }
        let (start, pid) = (started(std::process::id()).unwrap().unwrap(), std::process::id());
        let place = place().unwrap();
        assert!(
            has_died(&format!("vm@{place:016x}.{}/{pid}", start + 1)),
            "the id was given again"
        );
    }
}
