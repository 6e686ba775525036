//! Free ports below those that Linux hands to outgoing connections (32768 to 60999): a server that is
//! restarted on one of those may find it taken by somebody's client.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Outcome, failure};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// `N` different ports of 127.0.0.1 that nothing listens on at this moment.
pub(crate) fn free<const N: usize>() -> Outcome<[u16; N]> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = now.subsec_nanos() ^ std::process::id().rotate_left(16);
    let start = u16::try_from(seed % u32::from(COUNT)).unwrap_or_default();
    let mut held = Vec::new();
    for step in 0..COUNT {
        let port = FIRST + (start + step) % COUNT;
        // Holding them until all are found keeps them different.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
        if held.len() == N {
            return Ok(std::array::from_fn(|index| held[index].0));
        }
    }
    failure(format!("no {N} free ports between {FIRST} and {}", FIRST + COUNT))
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
