//! `config example`: a file with every key, its default and what it does.

use std::{fmt::Write as _, time::Duration};

use toml::Value;

use crate::{Key, KeyTable, Kind, Need, duration, is_described, size};

/// The longest line of a comment.
const WIDTH: usize = 96;

/// A configuration file with all keys; those that have to be set are empty, all others are comments.
pub(super) fn example(program: &str, table: KeyTable) -> String {
    let mut file = String::new();
    let head = "every key with its default. Set the empty keys, and remove the `#` before those \
                you change.";
    comment(&mut file, &format!("{program}: {head}"));
    let mut section = "";
    for key in table.keys {
        let repeated = table.repeats(key.section());
        if key.section() != section {
            section = key.section();
            let head = if repeated { format!("# [[{section}]]") } else { format!("[{section}]") };
            let _ = write!(file, "\n{head}\n");
        }
        comment(&mut file, &describe(table, key));
        let is_required = key.need == Need::Always && !repeated;
        let mark = if is_required { "" } else { "# " };
        let _ = writeln!(file, "{mark}{} = {}", key.name(), value(key));
    }
    file
}

fn describe(table: KeyTable, key: &Key) -> String {
    let default = match key.default {
        "" if key.need == Need::Always => "; required".to_owned(),
        text if is_described(text) => format!("; default: {text}"),
        _ => String::new(),
    };
    let file = match key.kind {
        Kind::Secret => format!(" Or `{}_file`: a file that contains it.", key.name()),
        _ => String::new(),
    };
    format!("{}{file} ({}{default})", table.doc_of(key), key.kind)
}

fn comment(file: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() > 1 && line.len() + 1 + word.len() > WIDTH {
            file.push_str(&line);
            file.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    file.push_str(&line);
    file.push('\n');
}

/// The default, or something of the right form in its place.
fn value(key: &Key) -> Value {
    let is_value = !key.default.is_empty() && !is_described(key.default);
    let default = is_value.then(|| key.kind.read(&key.default.into(), true).ok()).flatten();
    match (key.kind, default) {
        (Kind::Bytes { .. }, Some(Value::Integer(bytes))) => {
            size::text(bytes.unsigned_abs()).into()
        }
        (kind, default) => default.unwrap_or_else(|| placeholder(kind)),
    }
}

fn placeholder(kind: Kind) -> Value {
    match kind {
        Kind::Number { min, .. } => i64::try_from(min).unwrap_or_default().into(),
        Kind::Bytes { min, .. } => size::text(min).into(),
        Kind::Share => 1.0.into(),
        Kind::Duration { min, .. } => duration::text(min.max(Duration::from_secs(1))).into(),
        Kind::Choice(words) => words.first().copied().unwrap_or_default().into(),
        Kind::List | Kind::Tables => Value::Array(Vec::new()),
        Kind::Settings | Kind::Columns => Value::Table(toml::Table::new()),
        Kind::Flag => false.into(),
        Kind::Place => "header:NAME".into(),
        Kind::Text | Kind::Secret => "".into(),
    }
}
