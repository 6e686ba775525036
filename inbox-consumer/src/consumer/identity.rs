//! Who a consumer is, and where it starts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use inbox_handler::{
    GapEnd, VersionPolicy,
    internal::{Declared, DeclaredMode},
};
use inbox_runtime::internal::{Content, Unwanted, UnwantedRules};
use inbox_store::internal::port::{Owner, Placement};
use kafka_kit::internal::{Excerpts, KafkaSettings};
use outbox_core::Reader;
use uuid::Uuid;

use crate::config::{self, Config};

/// What stands for the HTTP intake where others have a topic. No topic of Kafka can have the name.
#[cfg(any(feature = "cli", feature = "intake"))]
pub(crate) const INTAKE_TOPIC: &str = "http:events";

pub(super) fn owner(config: &Config) -> Owner {
    Owner {
        name: format!("{}/{}", service_kit::host(), std::process::id()),
        instance_id: config.consumer.instance_id.clone(),
        incarnation: Uuid::new_v4(),
    }
}

pub(super) fn start(start: config::Start) -> inbox_engine::internal::Start {
    match start {
        config::Start::Earliest => inbox_engine::internal::Start::Earliest,
        config::Start::Latest => inbox_engine::internal::Start::Latest,
        config::Start::Error => inbox_engine::internal::Start::Error,
    }
}

/// Topics whose aggregates are found by rules of their own.
pub(super) fn placements(reader: &Reader, topics: &[String]) -> HashMap<String, Arc<Placement>> {
    let own = |topic: &&String| reader.of_topic(topic).rules() != reader.rules();
    let place =
        |topic: &String| (topic.clone(), Arc::new(Placement::of(reader.of_topic(topic).rules())));
    topics.iter().filter(own).map(place).collect()
}

/// Which records are kept in part.
pub(super) fn excerpts(config: &Config) -> Excerpts {
    // Rules that contradict themselves let no consumer start.
    let reader = config.reader();
    reader.map_or_else(
        |_| Excerpts::default(),
        |reader| Excerpts::of(reader.all_rules(), config.events.event_bytes_max),
    )
}

/// What becomes of what nobody can take.
pub(super) fn unwanted(events: &config::Events) -> UnwantedRules {
    let what = |unwanted| match unwanted {
        config::Unwanted::Park => Unwanted::Park,
        config::Unwanted::Ignore => Unwanted::Ignore,
        config::Unwanted::DeadLetter => Unwanted::DeadLetter,
    };
    UnwantedRules {
        unknown_type: what(events.unknown_type),
        undecodable: what(events.undecodable),
        topic: events.dead_letter_topic.clone().map(Into::into),
        bytes_max: events.event_bytes_max,
    }
}

/// What two events with one id must have in common.
pub(super) fn content(content: config::Content) -> Content {
    match content {
        config::Content::Bytes => Content::Bytes,
        config::Content::Json => Content::Json,
    }
}

/// Handlers without Rust, for the router.
pub(crate) fn declared(config: &Config) -> Vec<Declared> {
    let one = |handler: &config::Declared| Declared {
        event_type: handler.event_type.clone(),
        mode: match handler.mode {
            config::DeclaredMode::Each => DeclaredMode::Each,
            config::DeclaredMode::Run => DeclaredMode::Run,
        },
        one_per_aggregate: handler.one_per_aggregate,
        versions: versions(handler),
        columns: handler.columns.clone(),
        sql: handler.sql.clone(),
    };
    config.handlers.iter().map(one).collect()
}

fn versions(handler: &config::Declared) -> Option<VersionPolicy> {
    let policy = match handler.versions {
        config::VersionMode::Off => return None,
        config::VersionMode::Stale => VersionPolicy::stale(),
        config::VersionMode::Gap => VersionPolicy::gap(
            handler.gap_wait,
            match handler.gap_end {
                config::GapEnd::Park => GapEnd::Park,
                config::GapEnd::Run => GapEnd::Run,
            },
        ),
    };
    let policy = handler.version_first.map_or(policy, |first| policy.first(first.into()));
    Some(if handler.version_required { policy.required() } else { policy })
}

/// What the Kafka client needs of the configuration.
pub(crate) fn kafka_settings(config: &Config) -> KafkaSettings {
    KafkaSettings {
        bootstrap: config.kafka.bootstrap.clone(),
        group: config.group().to_owned(),
        topics: config.kafka.topics.clone(),
        instance_id: config.consumer.instance_id.clone(),
        protocol: match config.kafka.protocol {
            config::Protocol::Classic => kafka_kit::internal::Protocol::Classic,
            config::Protocol::Consumer => kafka_kit::internal::Protocol::Consumer,
        },
        session_timeout: config.kafka.session_timeout,
        max_poll_interval: Duration::from_mins(5),
        excerpts: excerpts(config),
        properties: config.kafka.client_settings().into(),
    }
}
