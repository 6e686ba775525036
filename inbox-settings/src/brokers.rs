//! What is wrong between a client and the brokers of Kafka, in sentences, and not more often than people
//! can read.

use std::time::{Duration, Instant};

/// The same kind of trouble is told again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Which kinds of trouble were told, and when.
#[derive(Debug)]
pub struct Told<K>(Vec<(K, Instant)>);

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Told<K> {
    /// Whether a kind is to be told now, and not only was told a moment ago; it counts as told then.
    pub fn is_due(&mut self, kind: K, now: Instant) -> bool {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, at)) if now.duration_since(*at) < AGAIN_AFTER => return false,
            Some((_, at)) => *at = now,
            None => self.0.push((kind, now)),
        }
        true
    }
}

/// Trouble that any client can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokerTrouble {
    /// No broker can be reached.
    AllDown,
    /// The brokers refuse the credentials.
    Credentials,
    /// TLS failed.
    Tls,
    /// A connection failed.
    Connection,
    /// Something else.
    Other,
}

impl BrokerTrouble {
    /// What is wrong with the brokers at an address, why, and what to look at.
    pub fn sentence(self, bootstrap: &str, why: &str) -> String {
        match self {
            Self::AllDown => format!(
                "no broker of Kafka at {bootstrap} can be reached ({why}); the client goes on trying: \
                 check the address, the network, and whether the brokers want TLS"
            ),
            Self::Credentials => format!(
                "Kafka at {bootstrap} refuses the credentials ({why}); check the SASL mechanism, user \
                 and password"
            ),
            Self::Tls => format!(
                "TLS with Kafka at {bootstrap} failed ({why}); check the certificate authority and the \
                 name in the broker's certificate"
            ),
            Self::Connection => format!(
                "a connection to Kafka at {bootstrap} failed ({why}); the client goes on trying"
            ),
            Self::Other => format!("Kafka at {bootstrap} reports trouble: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_of_one_kind_is_told_again_only_after_a_while() {
        let (mut told, began) = (Told::default(), Instant::now());
        assert!(told.is_due("tls", began));
        assert!(!told.is_due("tls", began + AGAIN_AFTER / 2), "a moment ago");
        assert!(told.is_due("all down", began + AGAIN_AFTER / 2), "another kind");
        assert!(told.is_due("tls", began + AGAIN_AFTER));
        assert!(!told.is_due("tls", began + AGAIN_AFTER * 3 / 2), "counted from the last time");
    }
}
