//! What is wrong with Kafka, in sentences, and not more often than people can read.

use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode as Code;

/// The same kind of trouble is told again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Which kinds of trouble were told, and when.
#[derive(Debug)]
pub(super) struct Troubles {
    bootstrap: String,
    told: Vec<(Code, Instant)>,
}

impl Troubles {
    pub(super) fn new(bootstrap: String) -> Self {
        Self { bootstrap, told: Vec::new() }
    }

    /// The sentence to tell; `None` when that kind was told a moment ago.
    pub(super) fn tell(&mut self, code: Code, why: &str, now: Instant) -> Option<String> {
        match self.told.iter_mut().find(|(known, _)| *known == code) {
            Some((_, at)) if now.duration_since(*at) < AGAIN_AFTER => return None,
            Some((_, at)) => *at = now,
            None => self.told.push((code, now)),
        }
        Some(sentence(&self.bootstrap, code, why))
    }

    /// Why the client cannot go on.
    pub(super) fn fatal(&self, code: Code, why: &str) -> String {
        let advice = match code {
            Code::FencedInstanceId | Code::UnreleasedInstanceId => {
                "; another process has the same instance id: give each its own"
            }
            _ => "",
        };
        format!("the Kafka client at {} has given up: {why}{advice}", self.bootstrap)
    }
}

fn sentence(bootstrap: &str, code: Code, why: &str) -> String {
    match code {
        Code::AllBrokersDown => format!(
            "no broker of Kafka at {bootstrap} can be reached ({why}); the client goes on trying: \
             check the address, the network, and whether the brokers want TLS"
        ),
        Code::Authentication | Code::SaslAuthenticationFailed => format!(
            "Kafka at {bootstrap} refuses the credentials ({why}); check the SASL mechanism, user \
             and password"
        ),
        Code::SSL => format!(
            "TLS with Kafka at {bootstrap} failed ({why}); check the certificate authority and the \
             name in the broker's certificate"
        ),
        Code::UnknownTopicOrPartition | Code::UnknownTopic => format!(
            "a topic to be read is not there ({why}); the client goes on looking: create it, or \
             correct its name"
        ),
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => format!(
            "Kafka at {bootstrap} forbids it ({why}); the user needs READ on the topics and on the \
             group"
        ),
        Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut => format!(
            "a connection to Kafka at {bootstrap} failed ({why}); the client goes on trying"
        ),
        _ => format!("Kafka at {bootstrap} reports trouble: {why}"),
    }
}
