//! The keys of a configuration's rules, each of which may be left out.

use serde::{Deserialize, Serialize};

use super::{Part, ReadRules, Sources, TimeUnit};

/// Places of single parts: the keys of [`ReadRules`], each of which may be left out. Over a preset they say where
/// its producers put something else.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RuleKeys {
    /// See [`ReadRules::id`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Sources>,
    /// See [`ReadRules::id_source`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_source: Option<Sources>,
    /// See [`ReadRules::event_type`].
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<Sources>,
    /// See [`ReadRules::aggregate_id`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_id: Option<Sources>,
    /// See [`ReadRules::aggregate_type`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_type: Option<Sources>,
    /// See [`ReadRules::aggregate_version`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_version: Option<Sources>,
    /// See [`ReadRules::occurred_at`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Sources>,
    /// See [`ReadRules::occurred_at_unit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at_unit: Option<TimeUnit>,
    /// See [`ReadRules::schema_version`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<Sources>,
}

impl RuleKeys {
    /// The rules, where the keys are whole: with an id and a type. Else the part that is missing.
    ///
    /// # Errors
    ///
    /// When id or type is left out.
    pub fn rules(&self) -> Result<ReadRules, Part> {
        let id = self.id.clone().ok_or(Part::Id)?;
        let event_type = self.event_type.clone().ok_or(Part::Type)?;
        Ok(self.over(ReadRules::new(id, event_type)))
    }

    /// These places, and for what they leave out those of `rules`.
    pub(super) fn over(&self, rules: ReadRules) -> ReadRules {
        let keys = self.clone();
        ReadRules {
            id: keys.id.unwrap_or(rules.id),
            id_source: keys.id_source.unwrap_or(rules.id_source),
            event_type: keys.event_type.unwrap_or(rules.event_type),
            aggregate_id: keys.aggregate_id.unwrap_or(rules.aggregate_id),
            aggregate_type: keys.aggregate_type.unwrap_or(rules.aggregate_type),
            aggregate_version: keys.aggregate_version.or(rules.aggregate_version),
            // The unit of the format's own place is none of another place.
            occurred_at_unit: match &keys.occurred_at {
                Some(_) => keys.occurred_at_unit,
                None => keys.occurred_at_unit.or(rules.occurred_at_unit),
            },
            occurred_at: keys.occurred_at.or(rules.occurred_at),
            schema_version: keys.schema_version.or(rules.schema_version),
        }
    }
}

impl From<ReadRules> for RuleKeys {
    fn from(rules: ReadRules) -> Self {
        Self {
            id: Some(rules.id),
            id_source: Some(rules.id_source),
            event_type: Some(rules.event_type),
            aggregate_id: Some(rules.aggregate_id),
            aggregate_type: Some(rules.aggregate_type),
            aggregate_version: rules.aggregate_version,
            occurred_at: rules.occurred_at,
            occurred_at_unit: rules.occurred_at_unit,
            schema_version: rules.schema_version,
        }
    }
}
