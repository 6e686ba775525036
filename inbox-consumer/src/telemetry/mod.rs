//! Everything observable: [`Signal`] for logs, [`Counters`] for numbers, one documented table each
//! (`docs/telemetry.md` is made from them). No payload and no secret is ever in either.

mod counters;
mod signal;

#[cfg(test)]
mod tests;

pub use counters::{Counters, Counts};
pub use signal::{SIGNALS, Signal, SignalEntry};

use std::fmt::Write;

/// `docs/telemetry.md`, from the tables.
pub fn reference() -> String {
    let mut page = String::from(
        "# Telemetry\n\n\
         <!-- Made from the tables in inbox-consumer/src/telemetry/; a test compares them. -->\n\n\
         ## Signals\n\n\
         Everything the runtime tells is a log event with the target `inbox_consumer` and the field \
         `signal`. Payloads and secrets are in none.\n\n\
         | signal | level | fields | means |\n|---|---|---|---|\n",
    );
    for SignalEntry { name, level, fields, doc } in SIGNALS {
        let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        let _ = writeln!(page, "| `{name}` | {level} | {} | {doc} |", fields.join(", "));
    }
    page.push_str(
        "\n## Counters\n\n\
         Read with `Consumer::counters`; they only grow while the process lives.\n\n\
         | counter | counts |\n|---|---|\n",
    );
    for (name, doc) in Counts::DOCS {
        let _ = writeln!(page, "| `{name}` | {doc} |");
    }
    page
}
