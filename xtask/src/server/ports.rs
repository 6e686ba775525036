//! Free ports below those that Linux hands to outgoing connections (32768 to 60999): a server that is
//! restarted on one of those may find it taken by somebody's client.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Outcome, failure};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// `N` different ports of 127.0.0.1 that nothing listens on at this moment, and that this process has
/// not handed out before.
pub fn free<const N: usize>() -> Outcome<[u16; N]> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let mut found = Vec::new();
    for _ in 0..COUNT {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start() + given) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            found.push(port);
        }
        if found.len() == N {
            return Ok(std::array::from_fn(|index| found[index]));
        }
    }
    failure(format!("no {N} free ports between {FIRST} and {}", FIRST + COUNT))
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
}
