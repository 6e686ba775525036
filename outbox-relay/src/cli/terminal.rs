//! Where commands write: results to standard output, complaints to standard error; text in columns.

use std::io::{self, Write};

/// The two streams of a command; tests read them.
pub(super) struct Terminal<'t> {
    pub(super) out: &'t mut (dyn Write + Send),
    pub(super) err: &'t mut (dyn Write + Send),
}

impl Terminal<'_> {
    /// Writes a result. A reader that has gone (`status | head`) is no failure.
    pub(super) fn say(&mut self, text: impl AsRef<str>) {
        let _ = line(self.out, text.as_ref());
    }

    /// Writes what went wrong, each line of it marked.
    pub(super) fn complain(&mut self, text: impl AsRef<str>) {
        for one in text.as_ref().lines() {
            let _ = line(self.err, &format!("error: {one}"));
        }
    }

    /// Writes what is doubtful.
    pub(super) fn warn(&mut self, text: impl AsRef<str>) {
        for one in text.as_ref().lines() {
            let _ = line(self.err, &format!("warning: {one}"));
        }
    }
}

fn line(stream: &mut dyn Write, text: &str) -> io::Result<()> {
    stream.write_all(text.trim_end_matches('\n').as_bytes())?;
    stream.write_all(b"\n")?;
    stream.flush()
}

/// Rows under their heads, each column as wide as its widest cell.
pub(super) fn aligned<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let columns = (0..N).map(|column| {
            let width = widths[column];
            format!("{:<width$}", cells[column])
        });
        columns.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(heads)).chain(rows).collect::<Vec<_>>().join("\n")
}
