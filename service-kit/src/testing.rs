//! What tests of tables and of their documents need.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use toml::{Table, Value};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{KeyTable, Kind, insert, is_described};

/// One event of a log: its level, then name and value of each field.
pub type Line = (String, Vec<(String, String)>);

/// The events that are logged while `act` runs, on this thread.
pub fn capture_log(act: impl FnOnce()) -> Vec<Line> {
    let lines = Arc::<Mutex<Vec<Line>>>::default();
    tracing::subscriber::with_default(Capture(Arc::clone(&lines)), act);
    std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The level and the message of each line.
pub fn messages(lines: &[Line]) -> String {
    let message = |(level, fields): &Line| {
        let text = fields.iter().find(|(name, _)| name == "message");
        format!("{level} {}\n", text.map_or("", |(_, text)| text))
    };
    lines.iter().map(message).collect()
}

struct Capture(Arc<Mutex<Vec<Line>>>);

struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned()));
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        let level = event.metadata().level().to_string().to_lowercase();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((level, fields.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The document at a path. With the environment variable `UPDATE_DOCS` it is written first; a document
/// that cannot be written or read is an empty one, or an old one.
pub fn document(path: &str, wanted: &str) -> String {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let _ = fs::write(path, wanted);
    }
    fs::read_to_string(path).unwrap_or_default()
}

/// Compares a text with its snapshot, a file, but for spaces at the ends of lines. With the environment variable `UPDATE_DOCS` the file is written, so that a
/// change of what users read is seen in the diff.
///
/// # Panics
/// Where they differ, with the first line that does.
#[track_caller]
pub fn assert_snapshot(path: &str, text: &str) {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let text = lines.join("\n") + "\n";
    let there = document(path, &text);
    let differs = || {
        let mut lines = there.lines().map(Some).chain(std::iter::repeat(None)).zip(1..);
        text.lines().find_map(|line| lines.next().filter(|(old, _)| *old != Some(line)))
    };
    assert!(
        there == text,
        "{path} is old at line {}: run this test with UPDATE_DOCS=1 and read the diff",
        differs().map_or(0, |(_, number)| number)
    );
}

/// The help of a program and of all commands below it, each with the line that asks for it. `ask` answers the output of
/// these arguments.
pub async fn help_of_commands(program: &str, ask: impl AsyncFn(&[&str]) -> String) -> String {
    let (mut all, mut left) = (String::new(), vec![Vec::<String>::new()]);
    while let Some(path) = left.pop() {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = ask(&args).await;
        let _ = writeln!(all, "$ {program} {}\n{}\n", args.join(" "), help.trim_end());
        let more = commands(&help).into_iter().rev();
        left.extend(more.map(|name| path.iter().cloned().chain([name]).collect()));
    }
    all
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let names = listed.lines().take_while(|line| !line.is_empty());
    names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The defaults that the types of a configuration have and those of its table, by key. Where the client
/// library has the default, the types hold none.
pub fn defaults(
    table: KeyTable,
    types: &Table,
) -> impl Iterator<Item = (&'static str, &Value, Result<Value, String>)> {
    let told = |default: &str| !default.is_empty() && !is_described(default);
    table.keys.iter().filter(move |key| told(key.default)).filter_map(|key| {
        let value = types.get(key.section())?.get(key.name())?;
        Some((key.path, value, key.kind.read(&key.default.into(), true)))
    })
}

/// A configuration with a value for each key of its table, so that every field of its types is written out: those that
/// it has, and for the others of the first word, or what `value` says.
pub fn filled(table: KeyTable, mut all: Table, value: impl Fn(Kind) -> Value) -> Table {
    for key in table.keys {
        let value = match key.kind {
            Kind::Choice(words) => words[0].into(),
            kind => value(kind),
        };
        if table.repeats(key.section()) {
            let Some(Value::Array(tables)) = all.get_mut(key.section()) else { continue };
            if tables.is_empty() {
                tables.push(Table::new().into());
            }
            if let Value::Table(first) = &mut tables[0] {
                first.insert(key.name().into(), value);
            }
        } else if key.of(&all).is_none() {
            insert(&mut all, key.path, value);
        }
    }
    all
}

/// The paths of all values of a configuration, of repeated sections those of the first.
pub fn paths(table: KeyTable, all: &Table) -> BTreeSet<String> {
    let section = |(name, values): (&String, &Value)| {
        let values = values.get(0).unwrap_or(values).as_table().cloned();
        table.leaves(name, values.unwrap_or_default())
    };
    all.iter().flat_map(section).map(|(path, _)| path).collect()
}
