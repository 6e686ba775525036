//! Where commands write: results to standard output, complaints to standard error; text in columns.

use std::{
    fmt,
    io::{self, Write},
};

use super::json;
use crate::printed;

/// The two streams of a command; tests read them. What acts on a terminal is written to neither.
pub struct Terminal<'t> {
    /// For results.
    out: &'t mut (dyn Write + Send),
    /// For complaints.
    err: &'t mut (dyn Write + Send),
    /// Complaints are lines of a log of JSON.
    json: bool,
}

impl fmt::Debug for Terminal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").finish_non_exhaustive()
    }
}

impl<'t> Terminal<'t> {
    /// A stream for results, and one for complaints.
    pub fn new(out: &'t mut (dyn Write + Send), err: &'t mut (dyn Write + Send)) -> Self {
        Self { out, err, json: false }
    }

    /// From now on complaints are lines of a log of JSON.
    pub(super) fn complain_as_json(&mut self) {
        self.json = true;
    }

    fn mark(&mut self, mark: &str, level: &str, text: &str) {
        for one in text.lines() {
            let text = if self.json { json::line(level, one) } else { format!("{mark}: {one}") };
            let _ = line(self.err, &text);
        }
    }

    /// Writes a result. A reader that has gone (`status | head`) is no failure.
    pub fn say(&mut self, text: impl AsRef<str>) {
        let _ = line(self.out, text.as_ref());
    }

    /// Writes what went wrong, each line of it marked.
    pub fn complain(&mut self, text: impl AsRef<str>) {
        self.mark("error", "ERROR", text.as_ref());
    }

    /// Writes a refusal that says itself what it is, with what follows it.
    pub fn refuse(&mut self, text: &str) {
        let _ = line(self.err, text);
    }

    /// Writes what is doubtful.
    pub fn warn(&mut self, text: impl AsRef<str>) {
        self.mark("warning", "WARN", text.as_ref());
    }
}

fn line(stream: &mut dyn Write, text: &str) -> io::Result<()> {
    stream.write_all(printed::lines(text.trim_end_matches('\n')).as_bytes())?;
    stream.write_all(b"\n")?;
    stream.flush()
}

/// Rows under their heads, each column as wide as its widest cell; those that `right` names to the right.
pub fn columns<const N: usize>(heads: [&str; N], rows: &[[String; N]], right: [bool; N]) -> String {
    let cells = |row: &[String; N]| row.each_ref().map(|cell| printed::line(cell));
    let rows: Vec<[String; N]> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let columns = (0..N).map(|column| {
            let (cell, width) = (cells[column], widths[column]);
            if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        columns.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(heads)).chain(rows).collect::<Vec<_>>().join("\n")
}
