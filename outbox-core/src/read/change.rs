//! Changes of tables as Debezium's connectors send them, without an outbox: each is an event of its row.
//!
//! The record is given the parts of an event as headers, and a payload of operation, old and new row. What differs
//! when a connector sends a change again, such as the time of processing, is not in it: a copy has to be a copy.

use std::{borrow::Cow, fmt, sync::LazyLock};

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    Part, Pointer, ReadError, ReadRules, Source, TimeUnit,
    log_place::{self, Plain},
    pointer::{self, Pointed},
};
use crate::{Header, JsonFault, Record, Text};

const ID: &str = "debezium.id";
const TYPE: &str = "debezium.type";
const TABLE: &str = "debezium.table";
const TIME: &str = "debezium.ts_ms";
const WITH_SCHEMA: &[u8] = b"{\"schema\":";
/// What stands for a large value that a change has not touched: a text, bytes as base64 or in hexadecimal, a map, also as a
/// text; and, as the only elements of an array, of whole numbers (the bytes of the text) and of UUIDs.
const UNAVAILABLE: [&str; 7] = [
    "\"__debezium_unavailable_value\"",
    "\"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==\"",
    "\"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565\"",
    "{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}",
    r#""{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}""#,
    "95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101",
    "\"b68a35a7-17ad-35b3-af2a-ae46edb4545a\"",
];

/// One of these is in each of them.
const UNAVAILABLE_SIGNS: [&str; 5] = [
    "debezium_unavailable_value",
    "\"X19kZWJleml1bV91",
    "\"5f5f646562657a69",
    "[95,95,100,",
    "[\"b68a35a7-17ad",
];

/// Members of a change that are looked at, in this order.
const MEMBERS: [&str; 20] = [
    "/before",
    "/after",
    "/op",
    "/ts_ms",
    "/source/connector",
    "/source/ts_ms",
    "/source/ts_ns",
    "/source/db",
    "/source/schema",
    "/source/table",
    "/transaction/total_order",
    "/source/lsn",
    "/source/txId",
    "/source/server_id",
    "/source/file",
    "/source/pos",
    "/source/row",
    "/source/commit_lsn",
    "/source/change_lsn",
    "/source/event_serial_no",
];
static PLAIN: LazyLock<Vec<Pointer>> =
    LazyLock::new(|| MEMBERS.iter().filter_map(|text| text.parse().ok()).collect());
static BELOW_PAYLOAD: LazyLock<Vec<Pointer>> =
    LazyLock::new(|| PLAIN.iter().map(|pointer| pointer.below("payload")).collect());

/// Where the parts are in the record that [`plain`] gives.
pub(super) fn rules() -> ReadRules {
    let header = |name| Source::Header(Text::from_static(name));
    let mut rules = ReadRules::new(header(ID), header(TYPE));
    rules.aggregate_type = header(TABLE).into();
    rules.occurred_at = Some(header(TIME).into());
    rules.occurred_at_unit = Some(TimeUnit::Millis);
    rules
}

/// One change, taken apart: JSON as it is written.
struct Change<'v> {
    members: Vec<Option<&'v str>>,
}

impl<'v> Change<'v> {
    fn of(value: &'v Bytes) -> Result<Self, ReadError> {
        let pointers = if value.starts_with(WITH_SCHEMA) { &*BELOW_PAYLOAD } else { &*PLAIN };
        let mut members = vec![None; pointers.len()];
        Pointer::find_all(pointers, value, &mut members)
            .map_err(|error| ReadError::InvalidJson(JsonFault::of(value, &error)))?;
        Ok(Self { members })
    }

    /// A member by its path; null is as if it were not there.
    fn at(&self, path: &str) -> Option<&'v str> {
        let at = MEMBERS.iter().position(|member| *member == path)?;
        self.members.get(at).copied().flatten().filter(|json| *json != "null")
    }

    /// The same as text.
    fn text(&self, path: &str) -> Option<Cow<'v, str>> {
        let json = self.at(path)?;
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Some(plain.into()),
            Some(_) => serde_json::from_str::<String>(json).ok().map(Cow::Owned),
            None => Some(json.into()),
        }
    }
}

/// A record with the parts of an event as headers, the key as text, and a payload that is the same each time.
pub(super) fn plain(topic: &str, record: &Record) -> Result<Plain<'static>, ReadError> {
    if topic.starts_with("__debezium-heartbeat") {
        return Err(ReadError::NoEvent { what: "a heartbeat of Debezium" });
    }
    let Some(value) = &record.payload else {
        return Err(ReadError::NoEvent {
            what: "the tombstone that Debezium sends after a deletion",
        });
    };
    let change = Change::of(value)?;
    let Some(op) = change.text("/op") else { return Err(without_operation(value)) };
    let done = match &*op {
        "c" => "created",
        "u" => "updated",
        "d" => "deleted",
        "r" => "read",
        "t" => "truncated",
        _ => {
            return Err(refused(
                "unknown_operation",
                "its operation (`op`) is not one of c, u, d, r and t; keep such records out of \
                 the topic by a filter of the connector",
            ));
        }
    };
    let Some(table) = change.text("/source/table") else {
        return Err(refused(
            "missing_type",
            "it names no table (`source.table`); is it a change event?",
        ));
    };
    let space = change.text("/source/schema").or_else(|| change.text("/source/db"));
    let full = space.map_or_else(|| table.to_string(), |space| format!("{space}.{table}"));
    if matches!(&*op, "c" | "u" | "r") && change.at("/after").is_none() {
        return Err(refused(
            "invalid_payload",
            "it has no new row (`after`), which every change except a deletion has; configure the \
             connector to send the whole envelope",
        ));
    }
    let key = record.key.as_ref().and_then(key_text);
    let id = id(&change, &op, &full, key.as_ref())?;
    let time = change.text("/source/ts_ms").map(|time| (TIME, time.into_owned()));
    let parts = [(ID, id), (TYPE, format!("{table}.{done}")), (TABLE, full)];
    let header = |(name, value): (&'static str, String)| Header {
        name: Text::from_static(name),
        value: Some(value.into()),
    };
    let headers = record.headers.iter().cloned().chain(parts.into_iter().chain(time).map(header));
    let plain = Record {
        key,
        headers: headers.collect(),
        payload: Some(payload(&change, &op).into()),
        timestamp_ms: record.timestamp_ms,
    };
    let told_by_id =
        log_place::is_of_one_change(&op, change.at("/transaction/total_order").is_some());
    Ok(Plain { record: Cow::Owned(plain), told_by_id })
}

/// A record without a key, where its key says that there is none: so its event is behind no other.
pub(super) fn unfold(record: &Record) -> Option<Record> {
    let key = record.key.as_ref()?;
    let may_be = key.ends_with(b"null") || key.ends_with(b"}");
    (may_be && key_text(key).is_none()).then(|| Record { key: None, ..record.clone() })
}

/// What is no change: told by all the members that Debezium gives it. A row that was unwrapped may have a column
/// `status`, `ddl` or `ts_ms`, too, and would be lost in silence.
fn without_operation(value: &Bytes) -> ReadError {
    let members = inside(value).and_then(|json| serde_json::from_str::<Columns<'_>>(json).ok());
    let members = members.as_deref().unwrap_or_default();
    // Of equal names the last counts, as everywhere.
    let at =
        |name: &str| members.iter().rfind(|(member, _)| member == name).map(|(_, json)| json.get());
    let begins = |name: &str, start: char| at(name).is_some_and(|json| json.starts_with(start));
    let is_there = |name: &str| at(name).is_some();

    let is_transaction = matches!(at("status"), Some("\"BEGIN\"" | "\"END\""))
        && is_there("id")
        && is_there("event_count")
        && is_there("data_collections");
    // SQL Server has no statement to tell: there `ddl` is null.
    let is_schema = is_there("ddl") && begins("source", '{') && begins("tableChanges", '[');
    if is_transaction {
        ReadError::NoEvent { what: "the begin or end of a transaction, by Debezium" }
    } else if is_schema {
        ReadError::NoEvent { what: "a change of a schema, by Debezium" }
    } else if matches!(members, [(name, _)] if name == "ts_ms") {
        ReadError::NoEvent { what: "a heartbeat of Debezium" }
    } else {
        refused(
            "missing_type",
            "it has no operation (`op`): it is not a change event, or a transformation such as \
             ExtractNewRecordState has unwrapped it; remove the transformation, or read the topic \
             with `events.format` custom",
        )
    }
}

fn refused(reason: &'static str, text: &str) -> ReadError {
    ReadError::Preset { reason, text: format!("debezium-raw record: {text}") }
}

/// What says when the change was, so that the same change has the same id whenever it is sent, and no other has it.
/// One position may be that of several changes: rows of one COPY, the two halves of a changed key.
fn id(
    change: &Change<'_>,
    op: &str,
    table: &str,
    key: Option<&Bytes>,
) -> Result<String, ReadError> {
    let connector = change.text("/source/connector");
    // What comes first is what every change has.
    let places: &[&str] = match connector.as_deref() {
        Some("postgresql") => &["/source/lsn", "/source/txId"],
        Some("mysql" | "mariadb") => {
            &["/source/file", "/source/pos", "/source/row", "/source/server_id"]
        }
        Some("sqlserver") => {
            &["/source/change_lsn", "/source/commit_lsn", "/source/event_serial_no"]
        }
        _ => {
            return Err(refused(
                "missing_id",
                "its connector (`source.connector`) is not one of postgresql, mysql, mariadb and \
                 sqlserver, so its position is unknown; set up an outbox, or read the topic with \
                 `events.format` custom",
            ));
        }
    };
    let mut id = String::new();
    for place in places {
        id.push_str(change.text(place).as_deref().unwrap_or("-"));
        id.push('/');
    }
    let snapshot = op == "r";
    if !snapshot && change.at(places[0]).is_none() {
        return Err(refused(
            "missing_id",
            "it has no position in the database log (`source`), from which its id is derived; \
             configure the connector to send the whole envelope",
        ));
    }
    let serial = change.at("/transaction/total_order");
    if key.is_none() && serial.is_none() && op != "t" {
        return Err(refused(
            "missing_id",
            "it has no key, so it cannot be told apart from other rows of its statement: give the \
             table a primary key, or set `message.key.columns` or `provide.transaction.metadata` \
             in the connector",
        ));
    }
    let mut parts = vec![Some(table), Some(op), serial, change.at("/source/ts_ms")];
    // A snapshot has one position for all that it reads, an incremental one has none, and a row that changed in between
    // may be the same again. So each reading of a row is an event: a duplicate of its record has the same times of
    // reading, and a connector that reads the row again sends other ones.
    parts.push(change.at("/after").filter(|_| snapshot));
    if snapshot {
        parts.extend([change.at("/source/ts_ns"), change.at("/ts_ms")]);
    }
    let parts = parts.into_iter().map(|part| part.unwrap_or_default().as_bytes());
    id.push_str(&log_place::digest(parts.chain([key.map(|key| &key[..]).unwrap_or_default()])));
    Ok(id)
}

/// What `JsonConverter` has written, without the schema around it.
fn inside(json: &[u8]) -> Option<&str> {
    let whole = Pointer::whole();
    let place = if json.starts_with(WITH_SCHEMA) { whole.child("payload") } else { whole };
    let mut found = [None];
    let read = Pointer::find_all(&[place], json, &mut found);
    read.ok().and(found[0])
}

/// The key as text: the value of its only column, or all of them as JSON.
fn key_text(key: &Bytes) -> Option<Bytes> {
    let Some(json) = inside(key) else { return Some(key.clone()) };
    let columns = serde_json::from_str::<Columns<'_>>(json);
    let json = match columns.as_deref() {
        Ok([(_, column)]) => column.get(),
        Ok(_) | Err(_) => json,
    };
    match pointer::value(key, json) {
        Ok(Pointed::Scalar(text)) => Some(text),
        Ok(Pointed::Absent) => None,
        Ok(Pointed::Unfit) | Err(_) => Some(key.slice_ref(json.as_bytes())),
    }
}

/// The columns of a row, in their order.
struct Columns<'v>(Vec<(Cow<'v, str>, &'v RawValue)>);

impl<'v> std::ops::Deref for Columns<'v> {
    type Target = [(Cow<'v, str>, &'v RawValue)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Columns<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Row)
    }
}

struct Row;

impl<'de> Visitor<'de> for Row {
    type Value = Columns<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns<'de>, A::Error> {
        let mut columns = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            columns.push((name, map.next_value()?));
        }
        Ok(Columns(columns))
    }
}

/// `{"op":…,"before":…,"after":…}`, and the names of columns of `after` whose value the database has not told.
fn payload(change: &Change<'_>, op: &str) -> String {
    let null = |json: Option<&str>| json.unwrap_or("null").to_owned();
    let (before, after) = (null(change.at("/before")), change.at("/after"));
    let (after, missing) = match after {
        Some(after) if UNAVAILABLE_SIGNS.iter().any(|text| after.contains(text)) => known(after),
        after => (null(after), None),
    };
    let missing = missing.map_or_else(String::new, |names| format!(",\"unavailable\":{names}"));
    format!("{{\"op\":\"{op}\",\"before\":{before},\"after\":{after}{missing}}}")
}

/// A row without the columns that are not told, and their names.
fn known(after: &str) -> (String, Option<String>) {
    let Ok(columns) = serde_json::from_str::<Columns<'_>>(after) else {
        return (after.to_owned(), None);
    };
    let is_told = |column: &&(Cow<'_, str>, &RawValue)| {
        let json = column.1.get();
        let elements = json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        !UNAVAILABLE.contains(&elements.unwrap_or(json))
    };
    let name = |name: &str| serde_json::Value::from(name).to_string();
    let told: Vec<String> = columns
        .iter()
        .filter(is_told)
        .map(|(column, value)| format!("{}:{}", name(column), value.get()))
        .collect();
    let untold: Vec<String> =
        columns.iter().filter(|column| !is_told(column)).map(|(column, _)| name(column)).collect();
    let missing = (!untold.is_empty()).then(|| format!("[{}]", untold.join(",")));
    (format!("{{{}}}", told.join(",")), missing)
}

pub(super) fn advice(part: Option<Part>) -> Option<&'static str> {
    Some(match part {
        Some(Part::AggregateId) => {
            "its key is empty; set `events.rules.aggregate_id` to the place of the changed row's \
             id, such as `pointer:/after/id`"
        }
        None => {
            "a change event must be JSON: set `value.converter` of the connector to \
             org.apache.kafka.connect.json.JsonConverter"
        }
        Some(_) => return None,
    })
}
