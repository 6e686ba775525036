//! Where commands write: results to standard output, complaints to standard error.

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
