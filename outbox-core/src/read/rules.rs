//! The rules of reading, as a configuration has them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Source;
use crate::header_names as names;

/// Where each value of an event is. `[events.rules]` of a consumer's configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRules {
    /// The event id, or `position`: topic, partition and offset, for producers that send none.
    pub id: IdSource,
    /// What foreign ids are unique within; the topic by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_source: Option<String>,
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: Source,
    /// The aggregate id: the first place that has one.
    #[serde(default = "key", with = "one_or_more")]
    pub aggregate_id: Vec<Source>,
    /// The aggregate type; the topic by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate_type: Option<Source>,
    /// The aggregate's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate_version: Option<Source>,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Source>,
    /// The version of the payload's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<Source>,
}

/// Where the event id is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IdSource {
    /// In the record.
    At(Source),
    /// It is the record's position: topic, partition, offset.
    Position,
}

fn key() -> Vec<Source> {
    vec![Source::Key]
}

impl ReadRules {
    /// This project's own headers.
    pub fn own() -> Self {
        let header = |name: &'static str| Source::Header(crate::Text::from_static(name));
        Self {
            id: IdSource::At(header(names::EVENT_ID)),
            id_source: None,
            event_type: header(names::EVENT_TYPE),
            aggregate_id: vec![header(names::AGGREGATE_ID), Source::Key],
            aggregate_type: Some(header(names::AGGREGATE_TYPE)),
            aggregate_version: Some(header(names::AGGREGATE_VERSION)),
            occurred_at: Some(header(names::OCCURRED_AT)),
            schema_version: Some(header(names::SCHEMA_VERSION)),
        }
    }

    pub(super) fn needs_payload(&self) -> bool {
        let id = match &self.id {
            IdSource::At(source) => Some(source),
            IdSource::Position => None,
        };
        let optional = [
            id,
            Some(&self.event_type),
            self.aggregate_type.as_ref(),
            self.aggregate_version.as_ref(),
            self.occurred_at.as_ref(),
            self.schema_version.as_ref(),
        ];
        optional.into_iter().flatten().chain(&self.aggregate_id).any(Source::needs_payload)
    }
}

impl<'de> Deserialize<'de> for IdSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "position" {
            return Ok(Self::Position);
        }
        Source::parse(&text).map(Self::At).map_err(serde::de::Error::custom)
    }
}

impl Serialize for IdSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(source) => source.serialize(serializer),
            Self::Position => serializer.serialize_str("position"),
        }
    }
}

/// One place, or a list of places.
mod one_or_more {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Source;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        More(Vec<String>),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Source>, D::Error> {
        let texts = match Either::deserialize(d)? {
            Either::One(text) => vec![text],
            Either::More(texts) => texts,
        };
        if texts.is_empty() {
            return Err(serde::de::Error::custom("the aggregate id needs at least one place"));
        }
        let parse = |text: &String| Source::parse(text).map_err(serde::de::Error::custom);
        texts.iter().map(parse).collect()
    }

    pub(super) fn serialize<S: Serializer>(sources: &[Source], s: S) -> Result<S::Ok, S::Error> {
        match sources {
            [one] => one.serialize(s),
            more => more.serialize(s),
        }
    }
}
