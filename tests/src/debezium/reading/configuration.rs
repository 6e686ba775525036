//! A configuration of a connector, what is written under it, and the events that have to come of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::seen::Seen;

/// Read anew each time, so that one can be tried without building anything.
const FILES: [&str; 2] = ["outbox.toml", "raw.toml"];
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/debezium/reading");

/// What stands for the name of a configuration, for that of its schema, and for a value that the log leaves out.
const PLACES: [&str; 3] = ["@name@", "@schema@", "@large@"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Settings that all connectors of the file have.
    connector: BTreeMap<String, String>,
    /// Tables and rows that several have.
    #[serde(default)]
    rows: BTreeMap<String, Rows>,
    configuration: Vec<Configuration>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    tables: String,
    /// Transactions before the connector is there.
    #[serde(default)]
    before: Vec<String>,
    rows: Vec<String>,
    events: Vec<Vec<String>>,
}

/// A configuration, and what has to come of it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Configuration {
    pub(super) name: String,
    /// Which of the file's tables and rows it has.
    #[serde(default)]
    of: String,
    #[serde(default)]
    pub(super) tables: String,
    #[serde(default)]
    pub(super) before: Vec<String>,
    /// Transactions.
    #[serde(default)]
    pub(super) rows: Vec<String>,
    pub(super) topics: Vec<String>,
    #[serde(default)]
    pub(super) connector: BTreeMap<String, String>,
    /// The consumer's section `events`.
    consumer: toml::Table,
    /// Id (empty: any), type, aggregate and, if there is one, payload; those of an aggregate in their order.
    #[serde(default)]
    pub(super) events: Vec<Vec<String>>,
    /// What the sentences of parked events contain, in the order of these.
    #[serde(default)]
    pub(super) parked: Vec<String>,
    #[serde(default)]
    pub(super) ignored: u64,
}

/// Those of all files.
pub(super) fn configurations() -> impl Iterator<Item = Configuration> {
    FILES.into_iter().flat_map(|file| {
        let text = std::fs::read_to_string(format!("{FOLDER}/{file}")).expect("the file is there");
        let File { connector, rows, configuration } =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        configuration.into_iter().map(move |one| {
            let rows = rows.get(&one.of).cloned().unwrap_or_default();
            let or = |own: Vec<String>, of: Vec<String>| if own.is_empty() { of } else { own };
            let mut all = connector.clone();
            all.extend(one.connector);
            Configuration {
                tables: one.tables + &rows.tables,
                before: or(one.before, rows.before),
                rows: or(one.rows, rows.rows),
                events: if one.events.is_empty() { rows.events } else { one.events },
                connector: all,
                ..one
            }
        })
    })
}

impl Configuration {
    /// The same with the names of itself and of its schema in their places.
    pub(super) fn placed_in(&self, schema: &str) -> Self {
        let values = [&self.name, schema, &"x".repeat(3000)];
        let fill = |text: &String| {
            let places = PLACES.iter().zip(values);
            places.fold(text.clone(), |text, (place, value)| text.replace(place, value))
        };
        let all = |texts: &[String]| texts.iter().map(fill).collect();
        let settings = self.connector.iter().map(|(key, value)| (key.clone(), fill(value)));
        let consumer = fill(&self.consumer.to_string());
        Self {
            tables: fill(&self.tables),
            before: all(&self.before),
            rows: all(&self.rows),
            topics: all(&self.topics),
            connector: settings.collect(),
            consumer: consumer.parse().expect("names are texts"),
            events: self.events.iter().map(|event| all(event)).collect(),
            ..self.clone()
        }
    }

    /// The section `events` of a file.
    pub(super) fn section(&self) -> String {
        let mut file = toml::Table::new();
        file.insert("events".into(), self.consumer.clone().into());
        file.to_string()
    }

    /// The types of events.
    pub(super) fn types(&self) -> BTreeSet<&str> {
        self.events.iter().map(|event| &*event[1]).collect()
    }

    /// Whether what was seen and what was parked is what has to be.
    pub(super) fn judge(&self, seen: &[Seen], parked: &[String]) {
        let name = &self.name;
        let mut wanted: BTreeMap<&str, Vec<[Option<&str>; 3]>> = BTreeMap::new();
        for event in &self.events {
            let [id, event_type, aggregate] = [0, 1, 2].map(|at| event[at].as_str());
            let id = Some(id).filter(|id| !id.is_empty());
            let payload = event.get(3).map(String::as_str);
            wanted.entry(aggregate).or_default().push([id, Some(event_type), payload]);
        }
        let texts: Vec<_> = seen.iter().map(Text::of).collect();
        let mut found: BTreeMap<&str, Vec<[Option<&str>; 3]>> = BTreeMap::new();
        for text in &texts {
            let of = found.entry(text.aggregate.as_str()).or_default();
            let named = wanted.get(text.aggregate.as_str()).and_then(|events| events.get(of.len()));
            let id = named.is_none_or(|event| event[0].is_some()).then_some(text.id);
            of.push([id, Some(text.event_type), text.payload.as_deref()]);
        }
        assert!(
            found == wanted,
            "{name}: seen is\n{found:#?}\nwanted is\n{wanted:#?}\nparked is {parked:#?}"
        );
        let ids: BTreeSet<&str> = seen.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids.len(), seen.len(), "{name}: each event has an id of its own");
        let told = parked.len() == self.parked.len()
            && parked.iter().zip(&self.parked).all(|(error, part)| error.contains(part));
        assert!(told, "{name}: parked is {parked:#?}, not {:#?}", self.parked);
    }
}

/// An event as the file writes it.
struct Text<'s> {
    id: &'s str,
    event_type: &'s str,
    aggregate: String,
    payload: Option<String>,
}

impl<'s> Text<'s> {
    fn of(seen: &'s Seen) -> Self {
        // One that is alone is named by its place, which is another one each time.
        let alone = seen.aggregate_id.starts_with('@');
        let id = if alone { "@" } else { seen.aggregate_id.as_str() };
        let payload = seen.payload.as_deref().map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
        });
        Self {
            id: &seen.id,
            event_type: &seen.event_type,
            aggregate: format!("{}/{id}", seen.aggregate_type),
            payload,
        }
    }
}
