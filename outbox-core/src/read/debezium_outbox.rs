//! Events of Debezium's outbox event router: its settings, and the places that follow from them.
//!
//! The router (`io.debezium.transforms.outbox.EventRouter`) makes a record of a row: the column
//! `table.field.event.id` becomes the header `id`, `table.field.event.key` the key, `table.field.event.payload` the
//! value. Further columns are headers or members of an envelope where `table.fields.additional.placement` says so,
//! and `route.by.field` goes into the topic's name by `route.topic.replacement`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Record;

use super::{
    Pointer, ReadRules, Source, Sources,
    connect::{Connect, Converter},
    topic_pattern::TopicPattern,
};

/// Settings that say nothing of how a record is read: they are taken, so that a connector's can be copied whole.
const WITHOUT_EFFECT: [&str; 11] = [
    "table.op.invalid.behavior",
    "table.field.event.id",
    "table.field.event.key",
    "table.field.event.timestamp",
    "table.field.event.payload",
    "table.field.event.schema.version",
    "table.json.payload.null.behavior",
    "table.json.payload.empty.array.behavior",
    "table.field.additional.missing",
    "route.topic.regex",
    "type",
];
const EXPAND: &str = "table.expand.json.payload";
const TOMBSTONE: &str = "route.tombstone.on.empty.payload";
const PLACEMENT: &str = "table.fields.additional.placement";
const TYPE_COLUMN: &str = "table.field.event.type";
const ROUTE_COLUMN: &str = "route.by.field";
const REPLACEMENT: &str = "route.topic.replacement";
const ENCODING: &str = "payload.encoding";
const CONVERTERS: [&str; 3] = ["key.converter", "value.converter", "header.converter"];

/// The settings of Debezium's outbox event router, under the router's own names, and of the connector's converters:
/// what has to be known to read its records. All may be left out. A name may have the prefix that it has in a
/// connector's configuration (`transforms.outbox.`), or that of `MongoDB`'s router (`collection.`) in place of `table.`.
///
/// ```
/// use outbox_core::DebeziumRouter;
///
/// let settings = [("table.fields.additional.placement", "type:header:eventType")];
/// assert!(DebeziumRouter::new(settings).is_ok());
/// let error = DebeziumRouter::new([("route.by.feld", "kind")]).unwrap_err();
/// assert!(error.to_string().starts_with("`route.by.feld` is not a setting"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DebeziumRouter(BTreeMap<String, String>);

/// What is wrong with a setting.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RouterError(String);

/// Where a column goes besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Envelope,
    Partition,
}

struct Placed<'s> {
    column: &'s str,
    place: Place,
    alias: &'s str,
}

impl DebeziumRouter {
    /// The settings of a connector.
    ///
    /// # Errors
    ///
    /// When a name or a value is none that the router has.
    pub fn new<N: AsRef<str>, V: Into<String>>(
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, RouterError> {
        let mut known = BTreeMap::new();
        for (name, value) in settings {
            let (name, value) = (own_name(name.as_ref()), value.into());
            check(&name, &value).map_err(RouterError)?;
            known.insert(name, value);
        }
        let router = Self(known);
        let value = router.get("value.converter", "");
        if router.has_envelope() && value.ends_with(".StringConverter") {
            return Err(RouterError(format!(
                "`{PLACEMENT}` places columns in an envelope, but `value.converter` ({value}) \
                 does not write it in a readable format: set the connector's to \
                 org.apache.kafka.connect.json.JsonConverter, or place the columns in headers"
            )));
        }
        if router.has_envelope() && is_of_registry(value) {
            return Err(RouterError(format!(
                "`{PLACEMENT}` places columns in an envelope, but `value.converter` ({value}) \
                 writes it by a schema of the registry, which is not supported: place the columns \
                 in headers, or set the connector's to org.apache.kafka.connect.json.JsonConverter"
            )));
        }
        Ok(router)
    }

    /// Whether keys are written by a converter of a schema registry, which makes no text of them.
    #[doc(hidden)]
    pub fn has_binary_keys(&self) -> bool {
        is_of_registry(self.get("key.converter", ""))
    }

    fn get<'s>(&'s self, name: &str, default: &'s str) -> &'s str {
        self.0.get(name).map_or(default, String::as_str)
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.get(PLACEMENT, "").split(',').filter_map(|text| placed(text).ok())
    }

    fn has_envelope(&self) -> bool {
        self.placed().any(|placed| placed.place == Place::Envelope)
    }

    /// Where a column is: that of this name, else one with a name that people give it.
    fn place_of(&self, column: &str, like: &str) -> Option<Source> {
        let plain = |name: &str| name.replace(['_', '-'], "").eq_ignore_ascii_case(like);
        let named = |placed: &Placed<'_>| placed.column.eq_ignore_ascii_case(column);
        let alike = |placed: &Placed<'_>| plain(placed.column) || plain(placed.alias);
        let at = |is: &dyn Fn(&Placed<'_>) -> bool| {
            self.placed().find(|placed| placed.place != Place::Partition && is(placed))
        };
        let placed = at(&named).or_else(|| at(&alike))?;
        Some(match placed.place {
            Place::Envelope => Source::Envelope(Pointer::whole().child(&escaped(placed.alias))),
            Place::Header | Place::Partition => Source::Header(placed.alias.into()),
        })
    }

    /// The places of the parts.
    pub(super) fn rules(&self) -> ReadRules {
        let header = |name: &'static str| Source::Header(crate::Text::from_static(name));
        // Where no placement is known: what the documents of Debezium and of its extension for Quarkus have.
        let usual = || Sources::from(header("eventType")).then(header("type"));
        let column = self.get(TYPE_COLUMN, "type");
        let event_type = self.place_of(column, "eventtype").map_or_else(usual, Sources::from);
        let routed = self.routed().map_or(Source::Topic, Source::TopicPart);
        let aggregate_type =
            self.place_of(self.get(ROUTE_COLUMN, "aggregatetype"), "aggregatetype");
        let mut rules = ReadRules::new(header("id"), event_type);
        rules.aggregate_type = aggregate_type.map_or_else(|| routed.clone().into(), Sources::from);
        rules
    }

    /// Whether the records can hold a type, by the settings.
    pub(super) fn places_type(&self) -> bool {
        !self.0.contains_key(PLACEMENT)
            || self.place_of(self.get(TYPE_COLUMN, "type"), "eventtype").is_some()
    }

    /// Whether a record has a place for its type, be it null: a header, or a member of the envelope.
    pub(super) fn has_type(&self, record: &Record) -> bool {
        let value = record.payload.as_deref().unwrap_or_default();
        self.rules().event_type.as_slice().iter().any(|place| match place {
            Source::Header(name) => record.headers.iter().any(|header| header.name == *name),
            Source::Envelope(pointer) => {
                let pointers = [pointer.clone(), pointer.below("payload")];
                let mut found = [None; 2];
                let read = Pointer::find_all(&pointers, value, &mut found);
                read.is_ok() && found.iter().any(Option::is_some)
            }
            _ => false,
        })
    }

    /// The part of a topic's name that is the routed value, where there is one.
    fn routed(&self) -> Option<TopicPattern> {
        TopicPattern::new(&pattern(self.replacement())?)
    }

    pub(super) fn replacement(&self) -> &str {
        self.get(REPLACEMENT, "outbox.event.${routedByValue}")
    }

    pub(super) fn connect(&self) -> Connect {
        let [key, value, header] = CONVERTERS.map(|name| self.converter(name));
        // What the router expands is text or JSON, and never bytes.
        let base64 = self.get(ENCODING, "") == "base64";
        Connect { key, value, header, envelope: self.has_envelope(), base64 }
    }

    /// Whether values are written by a converter of a schema registry.
    pub(super) fn has_schema_of_registry(&self) -> bool {
        is_of_registry(self.get("value.converter", ""))
    }

    fn converter(&self, name: &str) -> Converter {
        let class = self.get(name, "");
        match class.rsplit('.').next().unwrap_or_default() {
            "" | "SimpleHeaderConverter" => Converter::Any,
            "JsonConverter" => {
                let schemas = self.0.get(&format!("{name}.schemas.enable"));
                Converter::Json(schemas.map(|schemas| schemas == "true"))
            }
            "LongConverter" | "IntegerConverter" | "ShortConverter" => Converter::Number,
            _ => Converter::Plain,
        }
    }
}

/// Whether a converter writes what a schema registry describes.
fn is_of_registry(class: &str) -> bool {
    let class = class.rsplit('.').next().unwrap_or_default();
    ["AvroConverter", "JsonSchemaConverter", "ProtobufConverter"].contains(&class)
}

/// A name without what stands in front of it in a connector's configuration.
fn own_name(name: &str) -> String {
    let name = name.trim();
    let name = match name.strip_prefix("transforms.").and_then(|rest| rest.split_once('.')) {
        Some((_, name)) => name,
        None => name,
    };
    match name.strip_prefix("collection.") {
        Some(rest) => format!("table.{rest}"),
        None => name.to_owned(),
    }
}

fn check(name: &str, value: &str) -> Result<(), String> {
    let one_of = |words: &[&str]| {
        if words.contains(&value) {
            return Ok(());
        }
        Err(format!("`{name}` is one of {}, not {value:?}", words.join(", ")))
    };
    match name {
        PLACEMENT => value.split(',').try_for_each(|text| placed(text).map(drop)),
        EXPAND | TOMBSTONE => one_of(&["true", "false"]),
        ENCODING => one_of(&["text", "base64"]),
        REPLACEMENT => match pattern(value) {
            Some(pattern) if TopicPattern::new(&pattern).is_none() => Err(format!(
                "`{name}`: {value:?} does not produce a topic name of letters, digits, `.`, `_` \
                 and `-`"
            )),
            _ => Ok(()),
        },
        TYPE_COLUMN | ROUTE_COLUMN if value.trim().is_empty() => {
            Err(format!("`{name}` is empty; name the column as the router does, or remove it"))
        }
        TYPE_COLUMN | ROUTE_COLUMN => Ok(()),
        _ if CONVERTERS.contains(&name) => Ok(()),
        _ => {
            let mut behind = CONVERTERS.iter().filter_map(|known| name.strip_prefix(known));
            match behind.find(|rest| rest.starts_with('.')) {
                Some(".schemas.enable") => one_of(&["true", "false"]),
                Some(_) => Ok(()),
                None if WITHOUT_EFFECT.contains(&name) || name.starts_with("tracing.") => Ok(()),
                None => Err(format!(
                    "`{name}` is not a setting of Debezium's outbox event router, of a converter, \
                     or `{ENCODING}`"
                )),
            }
        }
    }
}

/// One item of `table.fields.additional.placement`.
fn placed(text: &str) -> Result<Placed<'_>, String> {
    let mut parts = text.split(':').map(str::trim);
    let (column, place) = (parts.next().unwrap_or_default(), parts.next());
    let alias = parts.next().unwrap_or(column);
    let place = match place {
        Some("header") => Some(Place::Header),
        Some("envelope") => Some(Place::Envelope),
        Some("partition") => Some(Place::Partition),
        _ => None,
    };
    let named = !alias.is_empty() && !alias.contains(|c: char| c.is_control() || c == '|');
    match place {
        Some(place) if !column.is_empty() && named && parts.next().is_none() => {
            Ok(Placed { column, place, alias })
        }
        _ => Err(format!(
            "`{PLACEMENT}`: {text:?} is not one of `column:header`, `column:envelope` and \
             `column:partition`, optionally followed by `:alias`"
        )),
    }
}

/// What a topic's name is like that a replacement makes; nothing when the routed value is not in it, or not alone.
fn pattern(replacement: &str) -> Option<String> {
    let (before, rest) = replacement.split_once('$')?;
    let behind = match rest.strip_prefix('{') {
        Some(name) => name.split_once('}')?.1,
        None => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
    };
    (!behind.contains('$')).then(|| format!("{before}*{behind}"))
}

/// A name as a step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// As a table of texts.
impl Serialize for DebeziumRouter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Of a table of texts, numbers and flags. A name with dots that is written without quotes is tables in tables.
impl<'de> Deserialize<'de> for DebeziumRouter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut flat = Vec::new();
        flatten("", Setting::deserialize(deserializer)?, &mut flat);
        Self::new(flat).map_err(de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Setting {
    Text(String),
    Flag(bool),
    Number(i64),
    Table(BTreeMap<String, Self>),
}

fn flatten(name: &str, setting: Setting, flat: &mut Vec<(String, String)>) {
    let value = match setting {
        Setting::Table(table) => {
            for (step, setting) in table {
                let name = if name.is_empty() { step } else { format!("{name}.{step}") };
                flatten(&name, setting, flat);
            }
            return;
        }
        Setting::Text(text) => text,
        Setting::Flag(flag) => flag.to_string(),
        Setting::Number(number) => number.to_string(),
    };
    flat.push((name.to_owned(), value));
}
