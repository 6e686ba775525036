//! `[http]`: where metrics and health are served.

use std::net::{Ipv4Addr, SocketAddr};

use crate::{Problem, host::is_container, section};

/// The word for the program's own port.
const AUTO: &str = "auto";

section! {
    /// `[http]`: where metrics and health are served.
    pub struct Http as "http" {
        /// Where metrics and health are served, read-only: an IP address and a port (`0.0.0.0:{port}` for all
        /// interfaces, port 0 for any free one), `auto`, or `off`. `auto` is 127.0.0.1:{port}, and 0.0.0.0:{port} in a
        /// container (Docker, Podman, Kubernetes), where probes and scrapers come from outside. An address in use does
        /// not end the process; binding is retried.
        listen: String = "auto";
    }
}

impl Http {
    /// Serves nothing.
    pub fn off() -> Self {
        Self { listen: "off".into() }
    }

    /// The address, of a program whose own port is `port`; `None` when it is off, or no address, which
    /// [`Http::problem`] reports.
    pub fn address(&self, port: u16) -> Option<SocketAddr> {
        if self.listen != AUTO {
            return self.listen.parse().ok();
        }
        let host = if is_container() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        Some((host, port).into())
    }

    /// What is wrong with it.
    pub fn problem(&self) -> Option<Problem> {
        let Self { listen } = self;
        if listen == "off" || self.address(0).is_some() {
            return None;
        }
        let text = format!(
            "`http.listen` is {listen:?}, which is not an address; set an IP address and a port, \
             such as 127.0.0.1:9464, or auto, or off"
        );
        Some(Problem::fatal(&["http.listen"], text))
    }
}
