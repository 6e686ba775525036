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
