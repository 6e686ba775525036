//! Records to events: where to look, and what to say when it is not there.

mod change;
mod cloud_events;
mod connect;
mod debezium_outbox;
mod detect;
mod envelopes;
mod error;
mod log_place;
mod pointer;
mod preset;
mod reader;
mod request_place;
mod rule_keys;
mod rules;
mod seen;
mod shape;
mod source;
mod time;
mod topic_pattern;

pub use cloud_events::{cloud_event_of_request, is_read as reads_spec_version};
pub use debezium_outbox::{DebeziumRouter, RouterError};
pub use detect::{Proposal, detect};
pub use error::{Part, ReadError};
pub use pointer::Pointer;
pub use preset::Preset;
pub use reader::{IdScope, ReadAs, Reader};
pub use request_place::{RequestPlace, pointer as request_pointer};
pub use rule_keys::RuleKeys;
pub use rules::{ReadRules, RulesError};
pub use source::{Source, SourceError, Sources};
pub use time::{TimeUnit, micros_of};
pub use topic_pattern::TopicPattern;
