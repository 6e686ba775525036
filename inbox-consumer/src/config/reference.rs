//! `docs/configuration.md`, made from the table of keys.

use std::fmt::Write;

use super::{KEYS, raw};

const HEAD: &str = "\
# Configuration

<!-- Made from the table `KEYS` in inbox-consumer/src/config/keys.rs; a test compares them. -->

One TOML file (`consumer.toml`, or `--config FILE`, or `INBOX_CONFIG`), the environment over it, flags over that:

```text
[kafka]                                      in the file
bootstrap = \"broker:9092\"
INBOX_KAFKA__BOOTSTRAP=broker:9092           in the environment: two underscores between section and key
--set kafka.bootstrap=broker:9092            as a flag
```

Durations have a unit (`\"30s\"`, `\"100ms\"`, `\"7d\"`); bytes are a number or text with a unit (`\"4MiB\"`). In the environment and in
flags the items of a list are separated by commas. Each secret may come from a file: `url_file` beside `url`, `sasl_password_file`
beside `sasl_password`, and so on. A key that does not exist, a value out of bounds and an unsafe combination are refused at
start-up with a sentence that says what to change.
";

const START: &str = "
## Where a partition begins

Once a partition has a row in the database, its watermark decides. Before that, `kafka.start` and the group's offset do:

| partition in the database | topic known to this consumer | offset of the group | `kafka.start` | begins |
|---|---|---|---|---|
| yes | | none | | at the watermark |
| yes | | below the watermark | | at the group's offset; what is settled is recognised |
| yes | | above the watermark | | at the watermark: an offset that was reset forward is not believed |
| yes, but the log begins above the watermark | | | | not: it stands still with `log_starts_above` |
| no | no | there | | at the group's offset, or at the log's beginning if that is later |
| no | no | none | `earliest` | at the log's beginning |
| no | no | none | `latest` | at the log's end, which is written down before the first event |
| no | no | none | `error` | not: it stands still with `start_undecided` |
| no | yes: the partition was added later | | | at the log's beginning, or its first records would be skipped |
";

/// Whether a default is told in words, not as a value.
pub(super) fn is_described(default: &str) -> bool {
    default.starts_with('`')
}

/// `docs/configuration.md`, from [`KEYS`].
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            let _ = write!(
                page,
                "\n## [{section}]\n\n| key | holds | default | |\n|---|---|---|---|\n"
            );
        }
        let default = match key.default {
            "" if key.required() => "required".to_owned(),
            "" => String::new(),
            text if is_described(text) => text.to_owned(),
            text => format!("`{text}`"),
        };
        let _ = writeln!(page, "| `{}` | {} | {default} | {} |", key.name(), key.kind, key.doc);
    }
    page.push_str(START);
    page.push_str(
        "\n## Refused in [kafka.raw]\n\n| setting | why, and what to do instead |\n|---|---|\n",
    );
    for (name, why) in raw::all_refused() {
        let _ = writeln!(page, "| `{name}` | {why} |");
    }
    page.push_str("| `debug` with `all`, `security` or `protocol` | it would print credentials; name other contexts |\n");
    page
}
