//! What is missing, out of bounds or unsafe together, each with what to change.

use std::time::Duration;

use inbox_engine::internal::Rule;
use service_kit::{DatabaseAddress, duration::text, is_name, properties::Program};

use super::{Config, Database, Problem, Unwanted, database::BUILD, sections::TABLE};

/// What a frozen process has locked should not be waited for longer, however short its session with the group is.
const LOCKS_HELD_MAX: Duration = Duration::from_mins(1);

impl Config {
    /// Everything that is wrong or doubtful. Fatal problems keep a consumer from starting; `check`
    /// shows the others.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = self.noticed.clone();
        self.bounds(&mut found);
        self.names(&mut found);
        self.database_address(&mut found);
        self.reading(&mut found);
        self.time_limits(&mut found);
        self.group_limits(&mut found);
        self.sizes(&mut found);
        found.extend(self.kafka.raw.problems(Program::Consumer));
        let tls = cfg!(any(feature = "tls", feature = "tls-vendored"));
        let security = &self.kafka.security;
        found.extend(security.problems(&self.kafka.bootstrap, "inbox-consumer", tls));
        found.extend(self.intake.problems());
        self.replays(&mut found);
        found.extend(self.schemas.problems());
        found.extend(self.http.problem());
        found.extend(self.traces.problems(BUILD.package, cfg!(feature = "opentelemetry")));
        found
    }

    /// The table of keys, applied to the values as they are.
    fn bounds(&self, found: &mut Vec<Problem>) {
        let Ok(values) = toml::Table::try_from(self) else {
            return found.push(Problem::fatal(&[], "a value of the configuration is too large"));
        };
        let missing = |problem: &Problem| {
            matches!(problem.keys[..], ["kafka.bootstrap" | "kafka.topics"]) && !self.reads_kafka()
        };
        found.extend(TABLE.problems(&values).into_iter().filter(|problem| !missing(problem)));
    }

    fn names(&self, found: &mut Vec<Problem>) {
        let names = [
            ("consumer.name", Some(self.consumer.name.as_str()), 120),
            ("consumer.instance_id", self.consumer.instance_id.as_deref(), 120),
        ];
        for (key, name, length_max) in names {
            let Some(name) = name.filter(|name| !name.is_empty() && !is_name(name, length_max))
            else {
                continue;
            };
            found.push(Problem::fatal(
                &[key],
                format!(
                    "`{key}` is {name:?}; use letters, digits, `.`, `_` and `-` only, at most {length_max}"
                ),
            ));
        }
        for topic in &self.kafka.topics {
            if !is_name(topic, 249) {
                found.push(Problem::fatal(
                    &["kafka.topics"],
                    format!(
                        "`kafka.topics`: {topic:?} is not the name of a topic; name each \
                             topic in full, patterns are not supported"
                    ),
                ));
            }
        }
    }

    fn reading(&self, found: &mut Vec<Problem>) {
        if let Err(error) = self.reader() {
            found.push(Problem::fatal(&["events.rules.id"], format!("[events.rules]: {error}")));
        }
        let problems = self.events.reading_problems(&self.kafka.topics).into_iter();
        found.extend(
            problems.map(|text| Problem::fatal(&["events.format", "events.rules.id"], text)),
        );
        let doubts = self.events.reading_doubts().into_iter();
        found.extend(doubts.map(|text| Problem::doubt(&["events.rules.aggregate_id"], text)));
        self.dead_letters(found);
    }

    fn dead_letters(&self, found: &mut Vec<Problem>) {
        let events = &self.events;
        let sent = [events.unknown_type, events.undecodable].contains(&Unwanted::DeadLetter);
        let wrong = match &events.dead_letter_topic {
            None if sent => "is not set, and `dead_letter` needs it; name a topic".to_owned(),
            Some(topic) if !is_name(topic, 249) => {
                format!("is {topic:?}, which is not the name of a topic")
            }
            Some(topic) if self.kafka.topics.contains(topic) => {
                format!("is {topic}, which is read by this consumer; name another topic")
            }
            _ => return,
        };
        let text = format!("`events.dead_letter_topic` {wrong}");
        found.push(Problem::fatal(&["events.dead_letter_topic"], text));
    }

    fn database_address(&self, found: &mut Vec<Problem>) {
        if self.database.url.is_empty() {
            return;
        }
        match self.database.kind() {
            Ok(kind) => {
                let Database { url, schema, tls, .. } = &self.database;
                let address = DatabaseAddress { url, schema: schema.as_deref(), tls: *tls };
                found.extend(BUILD.problems(kind, address));
            }
            Err(problem) => found.push(problem),
        }
    }

    /// Deadlines of an attempt and what the database itself ends.
    fn time_limits(&self, found: &mut Vec<Problem>) {
        let (db, retry) = (&self.database, &self.retry);
        if db.lock_timeout >= db.statement_timeout {
            found.push(Problem::fatal(
                &["database.lock_timeout", "database.statement_timeout"],
                format!(
                    "`database.lock_timeout` ({}) must be shorter than \
                         `database.statement_timeout` ({}), otherwise a wait for a lock is \
                         reported as a slow statement; lower the first or raise the second",
                    text(db.lock_timeout),
                    text(db.statement_timeout)
                ),
            ));
        }
        if db.statement_timeout >= retry.attempt_deadline {
            found.push(Problem::fatal(
                &["database.statement_timeout", "retry.attempt_deadline"],
                format!(
                    "`database.statement_timeout` ({}) must be shorter than \
                         `retry.attempt_deadline` ({}), otherwise a statement keeps running after \
                         its attempt was aborted; lower the first or raise the second",
                    text(db.statement_timeout),
                    text(retry.attempt_deadline)
                ),
            ));
        }
        if db.idle_timeout <= retry.attempt_deadline {
            found.push(Problem::fatal(
                &["database.idle_timeout", "retry.attempt_deadline"],
                format!(
                    "`database.idle_timeout` ({}) must be longer than \
                         `retry.attempt_deadline` ({}), otherwise the database ends a slow \
                         attempt first and it never counts; raise the first or lower the second",
                    text(db.idle_timeout),
                    text(retry.attempt_deadline)
                ),
            ));
        }
        if retry.delay_min > retry.delay_max {
            found.push(Problem::fatal(
                &["retry.delay_min", "retry.delay_max"],
                format!("`retry.delay_min` ({}) is longer than `retry.delay_max` ({}); lower the first or raise the second", text(retry.delay_min), text(retry.delay_max)),
            ));
        }
        let park = &self.park;
        if park.delay_min > park.delay_max {
            found.push(Problem::fatal(
                &["park.delay_min", "park.delay_max"],
                format!("`park.delay_min` ({}) is longer than `park.delay_max` ({}); lower the first or raise the second", text(park.delay_min), text(park.delay_max)),
            ));
        }
        if self.retention.prune_interval > self.retention.inbox {
            found.push(Problem::doubt(
                &["retention.prune_interval", "retention.inbox"],
                format!(
                    "`retention.prune_interval` ({}) is longer than `retention.inbox` ({}), \
                         so rows stay much longer than needed; lower the first",
                    text(self.retention.prune_interval),
                    text(self.retention.inbox)
                ),
            ));
        }
    }

    /// A signed request can be sent once more by whoever has read it, for as long as its time is accepted: at first by
    /// the tolerance early, at last by the tolerance late, and then it may wait for its transaction. The inbox has to
    /// know its events until then.
    fn replays(&self, found: &mut Vec<Problem>) {
        let intake = &self.intake;
        let accepted = intake.signature_tolerance * 2 + intake.request_timeout;
        let is_signed = intake.is_on() && !intake.secret_files.is_empty();
        if is_signed && self.retention.inbox < accepted && Rule::ReplayIsKnown.on() {
            found.push(Problem::fatal(
                &["retention.inbox", "intake.signature_tolerance", "intake.request_timeout"],
                format!(
                    "`retention.inbox` ({}) is shorter than the time in which a signed \
                         request can be replayed, so its events could take effect twice: twice \
                         `intake.signature_tolerance` ({}) and `intake.request_timeout` ({}), \
                         together {}; raise the first or lower the others",
                    text(self.retention.inbox),
                    text(intake.signature_tolerance),
                    text(intake.request_timeout),
                    text(accepted)
                ),
            ));
        }
    }

    /// Deadlines that the group's own clocks bound.
    fn group_limits(&self, found: &mut Vec<Problem>) {
        let session = self.kafka.session_timeout;
        let drain = self.limits.drain_deadline;
        if drain * 3 > session {
            found.push(Problem::fatal(
                &["limits.drain_deadline", "kafka.session_timeout"],
                format!(
                    "`limits.drain_deadline` ({}) must be at most a third of \
                         `kafka.session_timeout` ({}), otherwise the group reassigns partitions \
                         while they drain; lower the first or raise the second",
                    text(drain),
                    text(session)
                ),
            ));
        }
        let held = session.max(LOCKS_HELD_MAX);
        if self.database.idle_timeout > held || self.database.statement_timeout > held {
            found.push(Problem::doubt(
                &["database.idle_timeout", "database.statement_timeout", "kafka.session_timeout"],
                format!(
                    "locks of a frozen process outlive the reassignment of its partitions: \
                         `database.idle_timeout` ({}) and `database.statement_timeout` ({}) \
                         should be at most {}; lower them",
                    text(self.database.idle_timeout),
                    text(self.database.statement_timeout),
                    text(held)
                ),
            ));
        }
        if self.limits.close_deadline < drain {
            found.push(Problem::doubt(
                &["limits.close_deadline", "limits.drain_deadline"],
                format!(
                    "`limits.close_deadline` ({}) is shorter than `limits.drain_deadline` \
                         ({}), so a shutdown may end before the drain; raise the first",
                    text(self.limits.close_deadline),
                    text(drain)
                ),
            ));
        }
    }

    fn sizes(&self, found: &mut Vec<Problem>) {
        let partition = self.limits.partition_bytes_max;
        if self.batch.bytes_max > partition {
            found.push(Problem::doubt(
                &["batch.bytes_max", "limits.partition_bytes_max"],
                format!(
                    "`batch.bytes_max` ({}) is never reached: `limits.partition_bytes_max` \
                         ({partition}) pauses the partition earlier; lower the first or raise the \
                         second",
                    self.batch.bytes_max
                ),
            ));
        }
        if self.events.event_bytes_max > partition {
            found.push(Problem::doubt(
                &["events.event_bytes_max", "limits.partition_bytes_max"],
                format!(
                    "a single event of `events.event_bytes_max` ({}) pauses its partition: \
                         `limits.partition_bytes_max` is {partition}; lower the first or raise \
                         the second",
                    self.events.event_bytes_max
                ),
            ));
        }
        let parked = self.limits.parked_bytes_max;
        if self.events.event_bytes_max.saturating_mul(3) > parked {
            found.push(Problem::fatal(
                &["events.event_bytes_max", "limits.parked_bytes_max"],
                format!(
                    "a single event of `events.event_bytes_max` ({}) may stall its partition \
                         when it is parked, where its text can be twice as long: \
                         `limits.parked_bytes_max` is {parked}; raise it to three times the \
                         first, or lower the first",
                    self.events.event_bytes_max
                ),
            ));
        }
    }
}
