//! Free ports below those that Linux hands to outgoing connections (32768 to 60999): a server that is
//! restarted on one of those may find it taken by somebody's client.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Outcome, failure};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Nextest runs each test in a process, and numbers those that run at the same time. Each number has ports of its own:
/// a port that is free now is taken some seconds later, when the server behind it listens.
pub const SLOT: &str = "NEXTEST_TEST_GLOBAL_SLOT";
const SLOTS: u16 = 60;

/// `N` different ports of 127.0.0.1 that nothing listens on at this moment, and that this process has
/// not handed out before.
pub fn free<const N: usize>() -> Outcome<[u16; N]> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let mut found = Vec::new();
    let (first, count) = range(std::env::var(SLOT).ok().and_then(|slot| slot.parse().ok()));
    for _ in 0..count {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed) % count;
        let port = first + (start() + given) % count;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            found.push(port);
        }
        if found.len() == N {
            return Ok(std::array::from_fn(|index| found[index]));
        }
    }
    failure(format!("no {N} free ports between {first} and {}", first + count))
}

/// The first port of a slot, and how many there are; all ports where no slot is known.
fn range(slot: Option<u16>) -> (u16, u16) {
    match slot {
        Some(slot) => (FIRST + slot % SLOTS * (COUNT / SLOTS), COUNT / SLOTS),
        None => (FIRST, COUNT),
    }
}

/// Where this process begins to look: processes that start together should not meet.
fn start() -> u16 {
    static START: std::sync::OnceLock<u16> = std::sync::OnceLock::new();
    *START.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.subsec_nanos() ^ std::process::id().rotate_left(16);
        u16::try_from(seed % u32::from(COUNT)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_stay_out_of_the_outgoing_range() {
        let [a, b] = free().expect("this machine has free ports");
        assert_ne!(a, b);
        assert!(a < 32_768 && b < 32_768);
    }

    #[test]
    fn slots_share_no_port() {
        let ranges = (0..SLOTS).map(|slot| range(Some(slot)));
        let mut next = FIRST;
        for (first, count) in ranges {
            assert_eq!(first, next);
            next = first + count;
        }
        assert_eq!(next, FIRST + COUNT);
        assert_eq!(range(None), (FIRST, COUNT));
    }
}
