//! `docs/configuration.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

const HEAD: &str = "\
# Configuration

<!-- Made from the declarations in inbox-consumer/src/config; a test compares them. -->

One TOML file (`consumer.toml`, or `--config FILE`, or `INBOX_CONFIG`), the environment over it, flags over that:

```text
[kafka]                                      in the file
bootstrap = \"broker:9092\"
INBOX_KAFKA__BOOTSTRAP=broker:9092           in the environment: two underscores between section and key
--set kafka.bootstrap=broker:9092            as a flag
```

Durations have a unit (`\"30s\"`, `\"100ms\"`, `\"7d\"`); bytes are a number or text with a unit (`\"4MiB\"`). In the environment and in
flags the items of a list are separated by commas, and the tables of a list are numbered from 0: `INBOX_EVENTS__TOPICS__0__FORMAT`,
`--set events.topics.0.format=own`; a number that the file has changes that table. Each secret may come from a file: `url_file` beside `url`, `sasl_password_file`
beside `sasl_password`, and so on; one layer sets only one of the two. A key that does not exist, a value out of bounds and an unsafe combination are refused at
start-up with a sentence that says what to change. Where a consumer begins: [start.md](start.md).
";

const REPEATED: &str = "\
Written `[[handlers]]`, once for each handler; in the environment and in flags numbered from 0 (`INBOX_HANDLERS__0__SQL`). Handlers
without Rust: [declared-handlers.md](declared-handlers.md).

";

/// `docs/configuration.md`, from [`super::KEYS`].
pub(super) fn reference() -> String {
    [HEAD, &TABLE.reference(REPEATED), &Raw::reference(Program::Consumer)].concat()
}
