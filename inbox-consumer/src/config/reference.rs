//! `docs/configuration.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

const HEAD: &str = "\
# Configuration

<!-- Made from the declarations in inbox-consumer/src/config; a test compares them. -->

One TOML file (`consumer.toml`, or `--config FILE`, or `INBOX_CONFIG`), overridden by the environment, overridden by flags:

```text
[kafka]                                      in the file
bootstrap = \"broker:9092\"
INBOX_KAFKA__BOOTSTRAP=broker:9092           in the environment: two underscores between section and key
--set kafka.bootstrap=broker:9092            as a flag
```

Durations have a unit (`\"30s\"`, `\"100ms\"`, `\"7d\"`); sizes are a number of bytes or a string with a unit (`\"4MiB\"`). In the environment and in
flags the items of a list are separated by commas, and the tables of a list are numbered from 0: `INBOX_EVENTS__TOPICS__0__FORMAT`,
`--set events.topics.0.format=own`; a number used in the file overrides keys of that table. Each secret may come from a file: `url_file` instead of `url`, `sasl_password_file`
instead of `sasl_password`, and so on; one layer sets only one of the two. Unknown keys, values out of bounds and unsafe combinations are refused at
start-up with a message that says what to change. Where a consumer starts: [start.md](start.md).
";

const REPEATED: &str = "\
Written `[[handlers]]`, once for each handler; in the environment and in flags numbered from 0 (`INBOX_HANDLERS__0__SQL`). Handlers
without Rust: [declared-handlers.md](declared-handlers.md).

";

/// `docs/configuration.md`, from [`super::KEYS`].
pub(super) fn reference() -> String {
    [HEAD, &TABLE.reference(REPEATED), &Raw::reference(Program::Consumer)].concat()
}
