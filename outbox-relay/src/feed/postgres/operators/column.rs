//! Columns of another outbox table, and what a trigger makes of them.

use crate::port::DebeziumNeeds;

/// A column as the catalog has it.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) type_name: String,
    pub(super) is_enum: bool,
    /// The type's modifier: of times how many digits a second has, -1 for all six.
    pub(super) precision: i32,
    pub(super) nullable: bool,
    pub(super) has_default: bool,
}

/// A UUID as text.
const UUID: &str = "'^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'";

impl Column {
    /// The value of the row that is inserted.
    fn new_value(&self) -> String {
        format!("NEW.{}", name(&self.name))
    }

    /// A time's microseconds since 1970. Before version 14 the server computes with fractions of a second inexactly.
    fn micros(&self) -> String {
        let value = self.new_value();
        format!(
            "extract(epoch FROM date_trunc('second', {value}))::bigint * 1000000 + extract(microseconds FROM {value})::bigint % 1000000"
        )
    }

    /// What is made of a time, and nothing of `infinity`, which has no number and must not keep anybody from inserting.
    fn finite(&self, made: &str) -> String {
        format!("CASE WHEN isfinite({}) THEN {made} END", self.new_value())
    }

    fn is_text(&self) -> bool {
        matches!(&*self.type_name, "text" | "varchar" | "bpchar") || self.is_enum
    }

    fn unfit(&self, key: &str, wanted: &str) -> String {
        format!("the column {}, which `{key}` names, is {}; {wanted}", self.name, self.type_name)
    }

    /// The event's id: the UUID that it is, or one that follows from it and from the table.
    pub(super) fn event_id(&self, origin: &str) -> Result<String, String> {
        let value = self.new_value();
        let made = format!("md5({} || {value}::text)::uuid", literal(&format!("{origin}/")));
        match &*self.type_name {
            "uuid" => Ok(value),
            "text" | "varchar" | "bpchar" => {
                Ok(format!("CASE WHEN {value} ~ {UUID} THEN {value}::uuid ELSE {made} END"))
            }
            "int2" | "int4" | "int8" => Ok(made),
            _ => {
                Err(self
                    .unfit("debezium.table_field_event_id", "it must be uuid, text or an integer"))
            }
        }
    }

    /// Whatever it is, as text.
    pub(super) fn as_text(&self) -> String {
        format!("{}::text", self.new_value())
    }

    /// A whole number that fits into `bigint` or `integer`.
    pub(super) fn whole_number(&self, kind: &str) -> Option<String> {
        let fits = match &*self.type_name {
            "int2" | "int4" => true,
            "int8" => kind == "bigint",
            _ => false,
        };
        fits.then(|| self.new_value())
    }

    /// A key as text.
    pub(super) fn id_text(&self, key: &str) -> Result<String, String> {
        if self.is_text() || matches!(&*self.type_name, "uuid" | "int2" | "int4" | "int8") {
            return Ok(self.as_text());
        }
        Err(self.unfit(key, "it must be text, uuid or an integer"))
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<String, String> {
        if self.is_text() {
            return Ok(self.as_text());
        }
        Err(self.unfit(key, "it must be text"))
    }

    /// The payload's bytes.
    pub(super) fn payload(&self, debezium: Option<DebeziumNeeds>) -> Result<String, String> {
        let value = self.new_value();
        let (made, bytes) = match &*self.type_name {
            "json" | "jsonb" | "text" | "varchar" => {
                (format!("convert_to({value}::text, 'UTF8')"), false)
            }
            "bytea" => (value, true),
            _ => {
                return Err(self.unfit(
                    "debezium.table_field_event_payload",
                    "it must be json, jsonb, text or bytea",
                ));
            }
        };
        match debezium {
            Some(needs) if needs.bytes && !bytes => Err(self.unfit(
                "debezium.table_field_event_payload",
                "`debezium.value_converter` \
                                                                      is bytes, which requires \
                                                                      bytea: set it to string or \
                                                                      json",
            )),
            Some(needs) if bytes && !needs.any_payload => Err(self.unfit(
                "debezium.table_field_event_payload",
                "`debezium.value_converter` \
                                                                      is string, which does not \
                                                                      support bytea: set it to \
                                                                      bytes",
            )),
            _ => Ok(made),
        }
    }

    /// A time in milliseconds since 1970, as the router has it.
    pub(super) fn millis(&self, debezium: bool) -> Result<String, String> {
        let key = "debezium.table_field_event_timestamp";
        if self.type_name != "timestamp" && (debezium || self.type_name != "timestamptz") {
            let takes = if debezium {
                "Debezium supports timestamp only"
            } else {
                "it must be timestamp or timestamptz"
            };
            return Err(self.unfit(key, takes));
        }
        if debezium {
            self.check_default(false)?;
        }
        Ok(self.finite(&format!("({}) / 1000", self.micros())))
    }

    /// The type as the relay is told it, `!` behind it where no value is null. Of an enum Debezium's schema lists the words.
    pub(super) fn kind(&self, schema_sent: bool) -> Result<String, String> {
        let kind = match (&*self.type_name, self.precision) {
            (
                kind @ ("bool" | "int2" | "int4" | "int8" | "float4" | "float8" | "text"
                | "varchar" | "bpchar" | "bytea" | "uuid" | "json" | "jsonb" | "date"),
                _,
            ) => kind,
            ("timestamptz", -1 | 0 | 3 | 6) => "timestamptz",
            ("timestamp", 0..=3) => "timestamp(3)",
            ("timestamp", _) => "timestamp",
            _ if self.is_enum && !schema_sent => "text",
            (other, _) => {
                return Err(format!(
                    "the column {} is {other}, a type that the relay does not encode as Debezium \
                     does{}; remove it, or change the column's type",
                    self.name,
                    if self.is_enum { " as a schema" } else { "" },
                ));
            }
        };
        Ok(format!("{kind}{}", if self.nullable { "" } else { "!" }))
    }

    /// Debezium shows a column's default in its place where the column is null, and in its schema.
    pub(super) fn check_default(&self, schema_sent: bool) -> Result<(), String> {
        if self.has_default && (self.nullable || schema_sent) {
            let why =
                if schema_sent { "sends it in the schema" } else { "sends it in place of NULL" };
            let what = if schema_sent { "send no schema" } else { "make the column NOT NULL" };
            return Err(format!(
                "the column {} has a default, and Debezium {why}, which the relay does not; drop \
                 the default, or {what}",
                self.name
            ));
        }
        Ok(())
    }

    /// Name, type and value, in JSON.
    pub(super) fn told(&self, schema_sent: bool, partition: bool) -> Result<String, String> {
        if partition && self.type_name != "int4" {
            return Err(format!(
                "the column {} names the partition and is {}; Debezium supports integer only",
                self.name, self.type_name
            ));
        }
        self.check_default(schema_sent)?;
        let kind = self.kind(schema_sent)?;
        Ok(format!(
            "json_build_array({}, {}, {})",
            literal(&self.name),
            literal(&kind),
            self.value(&kind)?
        ))
    }

    /// A value in JSON, in Debezium's own form of it.
    fn value(&self, kind: &str) -> Result<String, String> {
        let value = self.new_value();
        Ok(match (kind.trim_end_matches('!'), self.precision) {
            ("json" | "jsonb", _) => format!("{value}::text"),
            ("text", _) if self.is_enum => format!("{value}::text"),
            ("timestamptz", digits) => {
                let second = match digits {
                    0 => "",
                    3 => ".MS",
                    _ => ".US",
                };
                self.finite(&format!(
                    "to_char({value} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS{second}\"Z\"')"
                ))
            }
            ("timestamp", _) => self.finite(&self.micros()),
            ("timestamp(3)", _) => self.finite(&format!("({}) / 1000", self.micros())),
            ("date", _) => self.finite(&format!("{value} - DATE '1970-01-01'")),
            ("bytea", _) => {
                return Err(format!("the column {} is bytea; only the payload may be", self.name));
            }
            _ => value,
        })
    }

    /// A value as the text of a header.
    pub(super) fn header_text(&self) -> Result<String, String> {
        let kind = self.kind(false)?;
        Ok(format!("({})::text", self.value(&kind)?))
    }
}

/// A name, quoted.
pub(super) fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, quoted.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
