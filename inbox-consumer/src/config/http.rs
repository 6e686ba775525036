//! `[http]`: where metrics and health are served.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Problem;

/// `[http]`: where metrics and health are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// An IP address and a port, or `off`.
    pub listen: String,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9464".into() }
    }
}

impl Http {
    /// Serves nothing.
    pub fn off() -> Self {
        Self { listen: "off".into() }
    }

    /// The address; `None` when it is off, or no address, which `validate` says.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<Problem> {
        let Self { listen } = self;
        if listen == "off" {
            return None;
        }
        if self.address().is_none() {
            return Some(Problem::fatal(
                &["http.listen"],
                format!(
                    "`http.listen` is {listen:?}, which is no address; set an IP address and a port, such as 127.0.0.1:9464, or off"
                ),
            ));
        }
        let unheard = cfg!(not(feature = "http")) && *self != Self::default();
        unheard.then(|| {
            Problem::doubt(
                &["http.listen"],
                "`http.listen` is set, but this build serves nothing; build inbox-consumer with the feature `http`, or set it to off",
            )
        })
    }
}
