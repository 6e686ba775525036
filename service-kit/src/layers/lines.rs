//! The lines of a file that tables and keys stand in, for messages.

use std::{collections::BTreeMap, path::Path};

use toml::de::DeTable;

use crate::ConfigError;

/// Only the parser's message and the place: the line itself may hold a secret.
pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let place =
        error.span().map_or(String::new(), |span| format!(", line {}", line_at(text, span.start)));
    ConfigError::Syntax(format!("{}{place} is not TOML: {}", path.display(), error.message()))
}

fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// The line of each table and of each key.
pub(super) fn lines(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    if let Ok(table) = DeTable::parse(text) {
        lines_below("", table.get_ref(), text, &mut lines);
    }
    lines
}

fn lines_below(above: &str, table: &DeTable<'_>, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let path = format!("{above}{}", name.get_ref());
        if let Some(below) = value.get_ref().as_table() {
            lines_below(&format!("{path}."), below, text, lines);
        }
        for (at, item) in value.get_ref().as_array().into_iter().flatten().enumerate() {
            if let Some(below) = item.get_ref().as_table() {
                lines_below(&format!("{path}.{at}."), below, text, lines);
                lines.insert(format!("{path}.{at}"), line_at(text, item.span().start));
            }
        }
        lines.insert(path, line_at(text, name.span().start));
    }
}
