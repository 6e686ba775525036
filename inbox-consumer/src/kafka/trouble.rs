//! What is wrong with Kafka, in sentences, and not more often than people can read.

use std::time::Instant;

use inbox_settings::brokers::{BrokerTrouble, Told};
use rdkafka::types::RDKafkaErrorCode as Code;

/// Which kinds of trouble were told, and when.
#[derive(Debug)]
pub(super) struct Troubles {
    bootstrap: String,
    told: Told<Code>,
}

impl Troubles {
    pub(super) fn new(bootstrap: String) -> Self {
        Self { bootstrap, told: Told::default() }
    }

    /// The sentence to tell; `None` when that kind was told a moment ago.
    pub(super) fn tell(&mut self, code: Code, why: &str, now: Instant) -> Option<String> {
        self.told.is_due(code, now).then(|| sentence(&self.bootstrap, code, why))
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
    let trouble = match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic => {
            return format!(
                "a topic to be read is not there ({why}); the client goes on looking: create it, or \
                 correct its name"
            );
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => {
            return format!(
                "Kafka at {bootstrap} forbids it ({why}); the user needs READ on the topics and on the \
                 group"
            );
        }
        Code::AllBrokersDown => BrokerTrouble::AllDown,
        Code::Authentication | Code::SaslAuthenticationFailed => BrokerTrouble::Credentials,
        Code::SSL => BrokerTrouble::Tls,
        Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut => {
            BrokerTrouble::Connection
        }
        _ => BrokerTrouble::Other,
    };
    trouble.sentence(bootstrap, why)
}
