//! What is wrong between a client and the brokers of Kafka, in sentences.

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
    /// What a connection failed of: with TLS 1.3 a broker refuses a client's certificate after the handshake.
    pub fn of_connection(why: &str) -> Self {
        if why.contains("SSL") { Self::Tls } else { Self::Connection }
    }

    /// Whether a broker that answers has refused the client, or the client the broker.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Tls | Self::Credentials)
    }

    /// What is wrong with the brokers at an address, why, and what to look at.
    pub fn sentence(self, bootstrap: &str, why: &str) -> String {
        match self {
            // librdkafka counts brokers a moment after it has lost the last one.
            Self::AllDown if why.starts_with("0/") => {
                Self::AllDown.sentence(bootstrap, "all brokers are down")
            }
            Self::AllDown => format!(
                "no broker of Kafka at {bootstrap} can be reached ({why}); check the address, the \
                 network, and whether the brokers require TLS"
            ),
            Self::Credentials => format!(
                "Kafka at {bootstrap} refuses the credentials ({why}); check the SASL mechanism, user \
                 and password"
            ),
            Self::Tls => format!(
                "TLS with Kafka at {bootstrap} failed ({why}); check the certificate authority, \
                 the name and the dates of the broker's certificate, and, if the brokers require \
                 one, your own"
            ),
            Self::Connection => format!("a connection to Kafka at {bootstrap} failed ({why})"),
            Self::Other => format!("Kafka at {bootstrap} reports an error: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_does_not_contradict_itself() {
        let counted = BrokerTrouble::AllDown.sentence("k:9092", "2/2 brokers are down");
        assert!(counted.contains("can be reached (2/2 brokers are down); check"), "{counted}");
        let miscounted = BrokerTrouble::AllDown.sentence("k:9092", "0/2 brokers are down");
        assert!(miscounted.contains("(all brokers are down)"), "{miscounted}");
    }
}
