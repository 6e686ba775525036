//! `[http]`: where metrics and health are served.

use std::net::SocketAddr;

use crate::{Problem, section};

section! {
    /// `[http]`: where metrics and health are served.
    pub struct Http as "http" {
        /// Where metrics and health are served, read-only: an IP address and a port (`0.0.0.0:9464` for all
        /// interfaces, port 0 for any free one), or `off`. An address that is in use does not end the process; it
        /// is tried again.
        listen: String = "127.0.0.1:9464";
    }
}

impl Http {
    /// Serves nothing.
    pub fn off() -> Self {
        Self { listen: "off".into() }
    }

    /// The address; `None` when it is off, or no address, which [`Http::problem`] says.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// What is wrong with it.
    pub fn problem(&self) -> Option<Problem> {
        let Self { listen } = self;
        if listen == "off" || self.address().is_some() {
            return None;
        }
        let text = format!(
            "`http.listen` is {listen:?}, which is no address; set an IP address and a port, such as 127.0.0.1:9464, or off"
        );
        Some(Problem::fatal(&["http.listen"], text))
    }
}
