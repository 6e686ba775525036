//! `[debezium]`: the settings of Debezium's outbox event router, under its own names with `_` for `.`.

use service_kit::{choice, section};

section! {
    /// `[debezium]`: the settings of Debezium's outbox event router, under its own names with `_` for `.`. Records are
    /// written by them with `kafka.format = "debezium-outbox"`; `outbox-relay adopt` reads a table's columns by them,
    /// whatever the format. [debezium.md](debezium.md) is about both.
    pub struct Debezium as "debezium" {
        /// The column with the event's id, which becomes the header `id`.
        table_field_event_id: String = "id";
        /// The column with the record's key.
        table_field_event_key: String = "aggregateid";
        /// The column with the event's type.
        table_field_event_type: String = "type";
        /// The column with the payload.
        table_field_event_payload: String = "payload";
        /// The column with the record's timestamp. By default it is the time of sending. Brokers
        /// delete records by it: an event older than the topic's retention is deleted before it is
        /// read.
        table_field_event_timestamp: Option<String>;
        /// Where additional columns go: `column:header`, `column:envelope`, `column:partition`,
        /// each followed by `:alias` for another name, separated by commas.
        table_fields_additional_placement: String;
        /// Whether a JSON object payload is written as an object, not as a string that contains it.
        table_expand_json_payload: bool;
        /// How null is written in such an object: `ignore` leaves it out.
        table_json_payload_null_behavior: NullBehavior;
        /// How an empty array is written in such an object: `ignore` leaves it out.
        table_json_payload_empty_array_behavior: EmptyArrayBehavior;
        /// Whether an event with a null or blank payload is a tombstone, regardless of the converter.
        route_tombstone_on_empty_payload: bool;
        /// The column that determines the topic. Of another table it is the aggregate's type, too. Of
        /// `outbox_events` it may be any column, such as `event_type`; another name stands for
        /// `aggregate_type`.
        route_by_field: String = "aggregatetype";
        /// The pattern that the whole value of that column must match; a value that does not match
        /// is the topic itself.
        route_topic_regex: String = "(?<routedByValue>.*)";
        /// The topic of a matching value, with `${name}` and `$1` for groups.
        route_topic_replacement: String = "outbox.event.${routedByValue}";
        /// How keys are written: `string` is Connect's `StringConverter`, `json` its `JsonConverter`.
        key_converter: KeyConverter;
        /// Whether each key carries its schema (`json` only).
        key_converter_schemas_enable: bool = "true";
        /// How payloads are written: like keys, or unchanged with `bytes` (`ByteArrayConverter`, `BinaryDataConverter`).
        value_converter: ValueConverter;
        /// Whether each payload carries its schema (`json` only).
        value_converter_schemas_enable: bool = "true";
        /// The connector's `topic.prefix`. If set, each record also has the four headers
        /// `__debezium.context.…`, and schemas of envelopes have their names.
        topic_prefix: Option<String>;
    }
}

choice! {
    /// What becomes of null in an expanded object.
    pub enum NullBehavior {
        /// The field is left out.
        Ignore = "ignore",
        /// It is null.
        OptionalBytes = "optional_bytes",
    }
}

choice! {
    /// What becomes of an empty array in an expanded object.
    pub enum EmptyArrayBehavior {
        /// The field is left out.
        Ignore = "ignore",
        /// It is an empty array.
        OptionalString = "optional_string",
    }
}

choice! {
    /// How keys are written.
    pub enum KeyConverter {
        /// `org.apache.kafka.connect.storage.StringConverter`.
        String = "string",
        /// `org.apache.kafka.connect.json.JsonConverter`.
        Json = "json",
    }
}

choice! {
    /// How payloads are written.
    pub enum ValueConverter {
        /// `org.apache.kafka.connect.storage.StringConverter`.
        String = "string",
        /// `org.apache.kafka.connect.json.JsonConverter`.
        Json = "json",
        /// `org.apache.kafka.connect.converters.ByteArrayConverter`.
        Bytes = "bytes",
    }
}
