//! What a configuration says of a column: `int8? from /meta/amount`.

use std::fmt;

use inbox_store::internal::port::ColumnType;
use outbox_core::{Pointer, TimeUnit};

/// Columns that every relation has.
const OWN: [&str; 4] = ["ord", "event_id", "aggregate_id", "occurred_at"];

/// The most columns of a handler, and the longest name.
const COLUMNS_MAX: usize = 64;
const NAME_MAX: usize = 63;

/// A typed column of the relation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnType,
    /// NULL where there is no value.
    pub(super) nullable: bool,
    pub(super) source: Source,
    /// What a number counts that stands for a time or a day.
    pub(super) unit: Option<TimeUnit>,
}

/// Where a column's value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The last header of that name.
    Header(String),
    /// The record key.
    Key,
    /// The payload at a JSON pointer.
    Payload(Pointer),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Key => f.write_str("the record key"),
            Self::Payload(pointer) if pointer.is_whole() => f.write_str("the payload"),
            Self::Payload(pointer) => write!(f, "the payload at `{pointer}`"),
        }
    }
}

/// Reads all columns of a handler, or says what is wrong with each that is wrong.
pub(super) fn read<'a>(
    columns: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<Vec<Column>, Vec<String>> {
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    for (name, text) in columns {
        match Column::read(name, text) {
            Ok(column) => read.push(column),
            Err(error) => wrong.push(format!("column `{name}` {error}")),
        }
    }
    if read.len() > COLUMNS_MAX {
        wrong.push(format!(
            "{} columns are more than the {COLUMNS_MAX} that are allowed; read a part of the \
             payload as jsonb instead",
            read.len()
        ));
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

impl Column {
    /// An error is the rest of a sentence that begins with the column.
    fn read(name: &str, text: &str) -> Result<Self, String> {
        if !is_plain(name) {
            return Err(format!(
                "has a name that needs quotes; use lower-case letters, digits and `_`, not beginning with a \
                 digit, at most {NAME_MAX}"
            ));
        }
        if OWN.contains(&name) {
            return Err("exists without being declared; remove it, or rename yours".into());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, unit) = match words.as_slice() {
            [words @ .., "in", unit] if words.len() != 2 => (words, Some(self::unit(unit)?)),
            words => (words, None),
        };
        let type_text = words.first().copied().unwrap_or_default();
        let source = match words {
            [] | [_] => pointer(&format!("/{name}")),
            [_, "from", source] => self::source(source),
            _ => Err(format!(
                "is `{text}`; write a type, or `TYPE from SOURCE`, such as `int8 from /amount`"
            )),
        }?;
        let (type_name, nullable) = match type_text.strip_suffix('?') {
            Some(type_name) => (type_name, true),
            None => (type_text, false),
        };
        let kind = ColumnType::ALL.into_iter().find(|one| one.name() == type_name);
        let kind = kind.ok_or_else(|| unknown_type(type_name))?;
        if unit.is_some() && !matches!(kind, ColumnType::Date | ColumnType::Timestamptz) {
            return Err(format!(
                "has a unit, which only timestamptz and date support; remove `in …` from `{text}`"
            ));
        }
        Ok(Self { name: name.to_owned(), kind, nullable, source, unit })
    }
}

/// Other names of the types, as people write them.
const OTHER_NAMES: [(&str, ColumnType); 20] = [
    ("bigint", ColumnType::Int8),
    ("boolean", ColumnType::Bool),
    ("bytes", ColumnType::Bytea),
    ("blob", ColumnType::Bytea),
    ("decimal", ColumnType::Numeric),
    ("double", ColumnType::Float8),
    ("float", ColumnType::Float8),
    ("int", ColumnType::Int4),
    ("int32", ColumnType::Int4),
    ("int64", ColumnType::Int8),
    ("integer", ColumnType::Int4),
    ("json", ColumnType::Jsonb),
    ("long", ColumnType::Int8),
    ("number", ColumnType::Numeric),
    ("real", ColumnType::Float8),
    ("smallint", ColumnType::Int4),
    ("string", ColumnType::Text),
    ("time", ColumnType::Timestamptz),
    ("timestamp", ColumnType::Timestamptz),
    ("varchar", ColumnType::Text),
];

fn unknown_type(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let other =
        OTHER_NAMES.iter().find(|(other, _)| *other == lower).map(|(_, meant)| meant.name());
    let near = ColumnType::ALL
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&lower, known.name()), known.name()))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, known)| known);
    let advice = match other.or(near) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let all = ColumnType::ALL.map(ColumnType::name);
            format!("choose one of {}, with `?` if it may be missing", all.join(", "))
        }
    };
    format!("has the unknown type `{name}`; {advice}")
}

fn unit(text: &str) -> Result<TimeUnit, String> {
    TimeUnit::ALL.into_iter().find(|unit| unit.name() == text).ok_or_else(|| {
        let all = TimeUnit::ALL.map(TimeUnit::name).join(", ");
        format!("has the unknown unit `{text}`; choose one of {all}")
    })
}

fn source(text: &str) -> Result<Source, String> {
    match text.split_once(':') {
        None if text == "key" => Ok(Source::Key),
        None if text == "payload" => pointer(""),
        Some(("header", name)) if !name.is_empty() => Ok(Source::Header(name.to_owned())),
        _ if text.starts_with('/') => pointer(text),
        _ => Err(format!(
            "is read from `{text}`, which is not a place; write `/json/pointer`, `payload`, \
             `header:NAME` or `key`"
        )),
    }
}

fn pointer(text: &str) -> Result<Source, String> {
    text.parse().map(Source::Payload).map_err(|_| {
        format!(
            "is read from `{text}`, which is not a JSON pointer: it begins with `/`, writes `~` \
             as `~0` and `/` as `~1`, and has 32 steps at most"
        )
    })
}

fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Column, String> {
        Column::read(name, text)
    }

    #[test]
    fn a_column_has_a_type_and_a_source() {
        let column = read("amount", "int8").unwrap();
        assert_eq!((column.kind, column.nullable), (ColumnType::Int8, false));
        assert_eq!(column.source.to_string(), "the payload at `/amount`");
        let column = read("note", "text? from /meta/a~1b~0c/0").unwrap();
        assert_eq!((column.kind, column.nullable), (ColumnType::Text, true));
        assert_eq!(column.source.to_string(), "the payload at `/meta/a~1b~0c/0`");
        let sources = [
            ("header:x-tenant", Source::Header("x-tenant".into())),
            ("key", Source::Key),
            ("payload", Source::Payload("".parse().unwrap())),
            ("/a:b", Source::Payload("/a:b".parse().unwrap())),
        ];
        for (text, expected) in sources {
            assert_eq!(read("c", &format!("jsonb from {text}")).unwrap().source, expected);
        }
        let column = read("at", "timestamptz? from /ts in micros").unwrap();
        assert_eq!(
            (column.source.to_string(), column.unit),
            ("the payload at `/ts`".to_owned(), Some(TimeUnit::Micros))
        );
        assert_eq!(read("day", "date in days").unwrap().unit, Some(TimeUnit::Days));
        for known in ColumnType::ALL {
            assert_eq!(read("c", known.name()).unwrap().kind, known);
        }
    }

    #[test]
    fn what_is_no_column_is_told_with_what_to_write() {
        let table = [
            ("c", "int64", "unknown type `int64`; did you mean `int8`?"),
            ("c", "uid", "did you mean `uuid`?"),
            ("c", "String", "did you mean `text`?"),
            ("c", "decimal?", "unknown type `decimal`; did you mean `numeric`?"),
            ("c", "geometry", "choose one of bool, bytea, date"),
            ("c", "", "unknown type ``"),
            ("c", "int8 /amount", "write a type, or `TYPE from SOURCE`"),
            ("c", "int8 from", "write a type, or `TYPE from SOURCE`"),
            ("c", "int8 from /a /b", "write a type, or `TYPE from SOURCE`"),
            ("c", "timestamptz from /a in micros more", "write a type, or `TYPE from SOURCE`"),
            (
                "c",
                "timestamptz from /a in years",
                "unknown unit `years`; choose one of days, seconds, millis",
            ),
            ("c", "int8 from /a in micros", "only timestamptz and date support"),
            ("c", "int8 from amount", "not a place; write `/json/pointer`"),
            ("c", "int8 from header:", "not a place"),
            ("c", "int8 from /a~2", "not a JSON pointer"),
            ("C", "int8", "needs quotes"),
            ("1c", "int8", "needs quotes"),
            ("c\"", "int8", "needs quotes"),
            ("", "int8", "needs quotes"),
            ("ord", "int8", "without being declared"),
            ("occurred_at", "timestamptz", "without being declared"),
        ];
        for (name, text, expected) in table {
            let error = read(name, text).unwrap_err();
            assert!(error.contains(expected), "{name} = {text:?}: {error}");
        }
    }

    #[test]
    fn every_wrong_column_is_told_and_too_many_are() {
        let columns = [("a", "int8"), ("b", "x1"), ("c", "y1")];
        let owned = columns.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let wrong = super::read(owned.iter().map(|(name, text)| (name, text))).unwrap_err();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        let many: Vec<(String, String)> =
            (0..65).map(|n| (format!("c{n}"), "int8".to_owned())).collect();
        let wrong = super::read(many.iter().map(|(name, text)| (name, text))).unwrap_err();
        assert!(wrong[0].contains("65 columns are more than the 64"), "{wrong:?}");
    }
}
