//! `table.fields.additional.placement`: what further columns become.

/// The header in which the trigger of `outbox-relay adopt` tells what the row of the other table had: JSON with `table`,
/// its name; `payload`, the payload's type; and `columns`, each with name, type and value. It is never sent.
pub const ROW: &str = "__debezium.row";

/// A column, and what it becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The column.
    pub column: String,
    /// What it becomes.
    pub place: Place,
    /// Its name there.
    pub alias: String,
}

/// What it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A header.
    Header,
    /// A field beside the payload.
    Envelope,
    /// The record's partition.
    Partition,
}

impl Placement {
    /// Reads all of them.
    ///
    /// # Errors
    /// One sentence, with the first that is none.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        text.split(',').map(|one| Self::one(one.trim())).collect()
    }

    fn one(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let column = parts.next().unwrap_or_default();
        let place = match parts.next() {
            Some("header") => Place::Header,
            Some("envelope") => Place::Envelope,
            Some("partition") => Place::Partition,
            _ => return Err(wrong(text)),
        };
        let alias = parts.next().unwrap_or(column);
        if column.is_empty() || alias.is_empty() || parts.next().is_some() {
            return Err(wrong(text));
        }
        Ok(Self { column: column.into(), place, alias: alias.into() })
    }
}

fn wrong(text: &str) -> String {
    format!(
        "{text:?} is not a placement; write `column:header`, `column:envelope` or \
         `column:partition`, followed by `:alias` for another name"
    )
}
