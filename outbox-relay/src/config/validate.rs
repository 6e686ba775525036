//! What is missing, out of bounds or unsafe together, each with what to change.

use service_kit::{
    Build, DatabaseAddress, DatabaseKind, duration::text, is_name, properties::Program,
};

use super::{Config, Database, Kafka, Problem, RecordFormat, Retry, Webhook, sections::TABLE};
use crate::{format::Format, routes::KAFKA, topic::Template};

/// What this build can do.
const BUILD: Build = Build {
    package: "inbox-outbox-relay",
    postgres: cfg!(feature = "postgres"),
    sqlite: cfg!(feature = "sqlite"),
};

impl Config {
    /// Everything that is wrong or doubtful. Fatal problems keep a relay from starting; `check` shows the
    /// others.
    pub fn validate(&self) -> Vec<Problem> {
        let Ok(values) = toml::Table::try_from(self) else {
            return vec![Problem::fatal(&[], "a value of the configuration is too large")];
        };
        let mut found = TABLE.problems(&values);
        if !self.reaches_kafka() {
            found.retain(|problem| !self.is_for_kafka(problem));
        }
        if self.kafka.format != RecordFormat::Own && self.kafka.topic.is_empty() {
            found.retain(|problem| problem.keys != ["kafka.topic"]);
        }
        found.extend(Format::problems(self));
        found.extend(self.noticed.iter().cloned());
        self.database_address(&mut found);
        self.topic(&mut found);
        self.waking(&mut found);
        self.time_limits(&mut found);
        self.delays(&mut found);
        self.fencing(&mut found);
        found.extend(self.http.problem());
        let tls = cfg!(any(feature = "tls", feature = "tls-vendored"));
        let security = &self.kafka.security;
        found.extend(security.problems(&self.kafka.bootstrap, "inbox-outbox-relay", tls));
        found.extend(self.kafka.raw.problems(Program::Relay));
        found.extend(webhooks(&self.webhooks));
        found.extend(self.traces.problems(BUILD.package, cfg!(feature = "opentelemetry")));
        found
    }

    /// Which database the address means. The sentence never holds the address.
    pub fn database_kind(&self) -> Result<DatabaseKind, Problem> {
        DatabaseKind::of(&self.database.url)
    }

    /// Whether any event may go to Kafka.
    pub(crate) fn reaches_kafka(&self) -> bool {
        self.routes.is_empty() || self.routes.iter().any(|route| route.to == KAFKA)
    }

    /// Whether something is missing that only Kafka needs.
    fn is_for_kafka(&self, problem: &Problem) -> bool {
        let Kafka { bootstrap, topic, .. } = &self.kafka;
        match problem.keys[..] {
            ["kafka.bootstrap"] => bootstrap.is_empty(),
            ["kafka.topic"] => topic.is_empty(),
            _ => false,
        }
    }

    fn database_address(&self, found: &mut Vec<Problem>) {
        if self.database.url.is_empty() {
            return;
        }
        match self.database_kind() {
            Ok(kind) => {
                let Database { url, schema, tls, .. } = &self.database;
                let address = DatabaseAddress { url, schema: schema.as_deref(), tls: *tls };
                found.extend(BUILD.problems(kind, address));
            }
            Err(problem) => found.push(problem),
        }
    }

    fn topic(&self, found: &mut Vec<Problem>) {
        if self.kafka.topic.is_empty() {
            return;
        }
        if let Err(error) = Template::read(&self.kafka.topic) {
            found.push(Problem::fatal(&["kafka.topic"], format!("`kafka.topic`: {error}")));
        }
        let prefix = &self.kafka.transactional_id_prefix;
        if !prefix.is_empty() && !is_name(prefix, 200) {
            found.push(Problem::fatal(
                &["kafka.transactional_id_prefix"],
                "`kafka.transactional_id_prefix` may contain letters, digits, `.`, `_` and `-`, \
                 at most 200",
            ));
        }
    }

    fn waking(&self, found: &mut Vec<Problem>) {
        let polls = !self.wake.poll_interval.is_zero();
        let sqlite = matches!(self.database_kind(), Ok(DatabaseKind::Sqlite));
        if !polls && (sqlite || !self.wake.notify) {
            let why = if sqlite { "SQLite has no notifications" } else { "`wake.notify` is false" };
            found.push(Problem::fatal(
                &["wake.notify", "wake.poll_interval"],
                format!(
                    "nothing would wake the relay: `wake.poll_interval` is 0s and {why}; set \
                         `wake.poll_interval`, for example to 1s"
                ),
            ));
        }
        if self.wake.notify && self.database.statement_cache == 0 && !sqlite {
            found.push(Problem::doubt(
                &["wake.notify", "database.statement_cache"],
                "`database.statement_cache` is 0, as for a pooler in transaction mode, which does \
                 not support LISTEN: set `wake.notify` to false, or connect `database.url` to the \
                 server directly",
            ));
        }
    }

    fn time_limits(&self, found: &mut Vec<Problem>) {
        let (lease, statement) = (self.relay.lease, self.database.statement_timeout);
        if statement > lease * 4 {
            found.push(Problem::doubt(
                &["database.statement_timeout", "relay.lease"],
                format!(
                    "a statement may hang for `database.statement_timeout` ({}), far longer \
                         than `relay.lease` ({}): the relay would notice the loss of its lease \
                         only then; lower the first",
                    text(statement),
                    text(lease)
                ),
            ));
        }
    }

    fn delays(&self, found: &mut Vec<Problem>) {
        let Retry { delay_min, delay_max, .. } = self.retry;
        if delay_min > delay_max {
            found.push(Problem::fatal(
                &["retry.delay_min", "retry.delay_max"],
                format!(
                    "`retry.delay_min` ({}) is longer than `retry.delay_max` ({}); lower the first, or raise the second",
                    text(delay_min), text(delay_max)
                ),
            ));
        }
    }

    fn fencing(&self, found: &mut Vec<Problem>) {
        if !self.kafka.fencing && self.reaches_kafka() {
            found.push(Problem::doubt(
                &["kafka.fencing"],
                "`kafka.fencing` is false: a relay that is frozen longer than `relay.lease` may \
                 wake and write old events behind newer ones of the same aggregate, which no \
                 consumer can repair; run one relay only, or set it to true",
            ));
        }
    }
}

#[cfg(feature = "webhook")]
fn webhooks(webhooks: &[Webhook]) -> Vec<Problem> {
    crate::destination::webhook::problems(webhooks)
}

#[cfg(not(feature = "webhook"))]
fn webhooks(webhooks: &[Webhook]) -> Vec<Problem> {
    let text = "`[[webhooks]]` needs the HTTP destination, which this build does not include; \
                build inbox-outbox-relay with the feature `webhook`";
    let first = webhooks.first().map(|_| Problem::fatal(&["webhooks.url"], text));
    first.into_iter().collect()
}
