//! What the brokers forbid a client's user, and what to do about it.

use std::{fmt, sync::Arc};

/// What the brokers forbid the client's user.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Forbidden {
    /// `topic` or `group`; of a producer `topic`, `transactional_id` or `cluster`.
    pub resource: &'static str,
    /// Its name.
    pub name: Arc<str>,
    /// What may not be done: an operation of Kafka's access lists. The right to it has that to look at it in it.
    pub operation: &'static str,
}

impl Forbidden {
    /// A producer may not write to a topic.
    pub fn topic(name: &str) -> Self {
        Self { resource: "topic", name: name.into(), operation: "WRITE" }
    }

    /// A consumer may not read: a `topic`, or in a `group`.
    pub(crate) fn reading(resource: &'static str, name: &str) -> Self {
        Self { resource, name: name.into(), operation: "READ" }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, name, operation } = self;
        if *operation == "READ" {
            return write!(
                f,
                "Kafka denies this user {operation} on the {resource} {name}: grant {operation} \
                 on it; the consumer resumes automatically"
            );
        }
        let (resource, remedy) = match *resource {
            "transactional_id" => (
                "transactional id",
                "grant WRITE on it (a prefixed ACL on `kafka.transactional_id_prefix` is enough), \
                 or set `kafka.fencing` to false and run one relay only",
            ),
            "cluster" => (
                "cluster",
                "grant WRITE on the topics (before Kafka 2.8 IDEMPOTENT_WRITE on the cluster)",
            ),
            topic => (topic, "grant WRITE on it"),
        };
        write!(
            f,
            "forbidden: Kafka denies this user {operation} on the {resource} {name}: {remedy}; \
             the relay resumes automatically"
        )
    }
}
