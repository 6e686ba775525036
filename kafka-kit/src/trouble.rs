//! What is wrong with Kafka, in sentences, and librdkafka's own lines, not more often than people can read.

use std::time::Instant;

use rdkafka::types::RDKafkaErrorCode as Code;
use service_kit::{
    brokers::BrokerTrouble,
    throttle::{Cause, Occurrences, Throttle},
};

use crate::{broker::Trouble, client};

/// Levels of syslog.
const ERROR: i32 = 3;
const DEBUG: i32 = 7;
/// What is reported each time.
pub(crate) const ONCE: Occurrences = Occurrences { times: 1, seconds: 0 };

/// What the client says of itself.
#[derive(Debug)]
pub(crate) struct Troubles {
    bootstrap: String,
    /// Nobody says when what a line is about is over.
    lines: Throttle,
}

impl Troubles {
    pub(crate) fn new(bootstrap: String) -> Self {
        Self { bootstrap, lines: Throttle::by_cause() }
    }

    /// What an error of the client means.
    pub(crate) fn trouble(&self, code: Code, why: &str) -> Trouble {
        let (error, passing) = sentence(&self.bootstrap, code, why);
        Trouble { error, passing }
    }

    /// Passes a line of librdkafka's on, unless its like was a moment ago; `level` counts as syslog does.
    pub(crate) fn line(&mut self, level: i32, facility: &str, line: &str, now: Instant) {
        // Each comes as an error, too.
        let level = if level <= ERROR && facility == "FAIL" { DEBUG } else { level };
        // Whoever wants lines for developers wants all of them.
        let occurrences = if level < DEBUG {
            self.lines.record(Cause::of(facility, line), now)
        } else {
            Some(ONCE)
        };
        if let Some(occurrences) = occurrences {
            client::log(level, facility, line, occurrences);
        }
    }

    /// Why the client cannot go on.
    pub(crate) fn fatal(&self, code: Code, why: &str) -> String {
        let advice = match code {
            Code::FencedInstanceId | Code::UnreleasedInstanceId => {
                "; another process has the same instance id: give each its own"
            }
            _ => "",
        };
        format!("the Kafka client at {} failed permanently: {why}{advice}", self.bootstrap)
    }
}

/// What is wrong, and whether it is over when a broker answers.
fn sentence(bootstrap: &str, code: Code, why: &str) -> (String, bool) {
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic => {
            let text = format!(
                "a configured topic does not exist ({why}); the client keeps checking: create it, \
                 or correct its name"
            );
            return (text, false);
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => {
            let text = format!(
                "Kafka at {bootstrap} denies access ({why}); grant the user READ on the topics \
                 and on the group"
            );
            return (text, false);
        }
        _ => {}
    }
    let trouble = of(code, why);
    (trouble.sentence(bootstrap, why), trouble != BrokerTrouble::Other)
}

/// What an error of a client means.
pub(crate) fn of(code: Code, why: &str) -> BrokerTrouble {
    match code {
        Code::AllBrokersDown => BrokerTrouble::AllDown,
        Code::Authentication | Code::SaslAuthenticationFailed => BrokerTrouble::Credentials,
        Code::SSL => BrokerTrouble::Tls,
        Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut => {
            BrokerTrouble::of_connection(why)
        }
        _ => BrokerTrouble::Other,
    }
}
