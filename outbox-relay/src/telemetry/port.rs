//! What the HTTP port serves of a relay.

use std::net::SocketAddr;

use service_kit::telemetry::Observed;

use super::{Readings, Signal};

impl Observed for Readings {
    fn metrics(&self) -> String {
        self.prometheus()
    }

    fn is_live(&self) -> bool {
        self.live()
    }

    fn readiness(&self) -> (bool, String) {
        let readiness = self.readiness();
        (readiness.ready, serde_json::to_string(&readiness).unwrap_or_default())
    }

    fn listens(&self, address: SocketAddr) {
        let _ = self.0.http.set(address); // the first one; there is no second
        Signal::HttpListening { address: address.to_string() }.emit();
    }

    fn cannot_listen(&self, error: String) {
        Signal::HttpFailed { error }.emit();
    }
}
