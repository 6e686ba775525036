//! The log of a program: what `[log]` says, on standard error.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use serde_json::Value;

use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::LevelFilter,
    fmt::{self, MakeWriter},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use super::json::{self, Identity};
use crate::{Log, LogFormat, printed};

/// Starts logging for this process. The environment variable `RUST_LOG` of `env` goes before
/// `log.level`; `target` is the name that the program's own lines have. `beside` goes by a filter of its
/// own. When a subscriber is set already, that one stays: the answer says whether this one is set. Each line of JSON
/// ends with who wrote it.
///
/// # Errors
/// One sentence, when the level is none.
pub(super) fn start(
    log: &Log,
    env: &[(String, String)],
    identity: &Identity,
    beside: Option<AnyLayer<Registry>>,
) -> Result<bool, String> {
    let rust_log = env.iter().find(|(name, _)| name == "RUST_LOG").map(|(_, value)| value.as_str());
    let filter = filter(log, rust_log, identity.target)?;
    let is_json = is_json(log);
    if is_json {
        json::identify(identity);
    }
    let set = match beside {
        None => tracing_subscriber::registry().with(filter).with(lines(is_json)).try_init(),
        Some(beside) => {
            let lines = lines(is_json).with_filter(filter);
            tracing_subscriber::registry().with(beside).with(lines).try_init()
        }
    };
    // An error here means that the program has its own subscriber, which is its right.
    Ok(set.is_ok())
}

/// A part of a subscriber.
type AnyLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// Whether lines are JSON.
pub(super) fn is_json(log: &Log) -> bool {
    wanted(log.format, io::stderr().is_terminal()) == LogFormat::Json
}

/// What writes the lines.
fn lines<S>(is_json: bool) -> AnyLayer<S>
where
    S: tracing::Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
{
    let terminal = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(Clean { json: is_json, colours: terminal });
    if is_json {
        // The current span says which event a handler's line is about.
        lines.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        lines.with_ansi(terminal).with_target(false).boxed()
    }
}

/// Standard error, given one event at a time and nothing that acts on a terminal.
#[derive(Clone, Copy, Debug)]
struct Clean {
    json: bool,
    /// The log's own; the formatter has escaped those of texts.
    colours: bool,
}

impl MakeWriter<'_> for Clean {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

impl Write for Clean {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(self.clean(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Clean {
    fn clean(self, event: &str) -> String {
        if self.json {
            return json::signed(&printed::escaped(&without_source(event)));
        }
        let shown = |letter| match letter {
            '\u{1b}' if self.colours => letter,
            '\t' => letter,
            _ => printed::visible(letter),
        };
        // Nothing but an event begins at the left.
        let lines = event.trim_end_matches('\n').split('\n');
        let lines = lines.map(|line| line.chars().map(shown).collect::<String>());
        lines.collect::<Vec<_>>().join("\n    ") + "\n"
    }
}

/// Lines of crates that log by the facade `log` have the file that they were compiled from, on another machine.
fn without_source(event: &str) -> Cow<'_, str> {
    if !event.contains("\"log.file\":") {
        return Cow::Borrowed(event);
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(event) else {
        return Cow::Borrowed(event);
    };
    fields.retain(|name, _| !name.starts_with("log."));
    Cow::Owned(Value::Object(fields).to_string() + "\n")
}

fn wanted(format: LogFormat, terminal: bool) -> LogFormat {
    match format {
        LogFormat::Auto if terminal => LogFormat::Human,
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    }
}

/// The filter that counts. A word that is no level would be taken for a module's name, and everything
/// else would be silent: it is refused.
fn filter(log: &Log, rust_log: Option<&str>, target: &str) -> Result<EnvFilter, String> {
    let (text, source) = match rust_log.filter(|text| !text.trim().is_empty()) {
        Some(text) => (text, "RUST_LOG"),
        None => (log.level.as_str(), "`log.level`"),
    };
    let stray = text
        .split(',')
        .map(str::trim)
        .find(|part| !part.contains(['=', ':', '[']) && part.parse::<LevelFilter>().is_err());
    let complaint = |what: &str| {
        format!(
            "{source} is {text:?}, but {what}; set error, warn, info, debug or trace, or a filter \
             such as info,{target}=debug"
        )
    };
    match stray {
        Some(word) => Err(complaint(&format!("{word:?} is not a level"))),
        None => EnvFilter::try_new(text).map_err(|error| complaint(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(level: &str, rust_log: Option<&str>) -> Result<(), String> {
        let log = Log { level: level.into(), ..Log::default() };
        filter(&log, rust_log, "inbox_consumer").map(|_| ())
    }

    #[test]
    fn a_level_or_a_filter_is_taken() {
        assert_eq!(sentence("info", None), Ok(()));
        assert_eq!(sentence("info,inbox_consumer=debug,sqlx::query=off", None), Ok(()));
        assert_eq!(sentence("nonsense", Some("debug")), Ok(()), "RUST_LOG goes first");
    }

    #[test]
    fn a_typo_in_the_level_is_told_instead_of_silencing_everything() {
        let expected = "`log.level` is \"inof\", but \"inof\" is not a level; set error, warn, info, \
                        debug or trace, or a filter such as info,inbox_consumer=debug";
        assert_eq!(sentence("inof", None), Err(expected.into()));
        assert!(sentence("info", Some("debgu")).unwrap_err().starts_with("RUST_LOG is \"debgu\""));
        assert!(sentence("info,x=loud", None).unwrap_err().starts_with("`log.level` is"));
    }

    #[test]
    fn an_event_of_the_log_acts_on_no_terminal() {
        let clean = |json, colours, event| Clean { json, colours }.clean(event);
        let event = "\u{1b}[2mINFO\u{1b}[0m a\u{9b}b\u{202e}\r\nFORGED\n";
        let shown = "\u{1b}[2mINFO\u{1b}[0m a\u{fffd}b\u{fffd}\u{fffd}\n    FORGED\n";
        assert_eq!(clean(false, true, event), shown);
        assert_eq!(clean(false, false, event), shown.replace('\u{1b}', "\u{fffd}"));
        assert_eq!(
            clean(true, false, "{\"a\":\"\u{9b}\u{202e}\"}\n"),
            "{\"a\":\"\\u009b\\u202e\"}\n"
        );
    }

    #[test]
    fn a_line_of_another_crate_has_no_path_of_the_build_machine() {
        let event = "{\"level\":\"INFO\",\"log.file\":\"/build/x.rs\",\"log.line\":7,\"log.target\":\"rdkafka\",\
                     \"message\":\"m\"}\n";
        assert_eq!(without_source(event), "{\"level\":\"INFO\",\"message\":\"m\"}\n");
        let own = "{\"message\":\"m\"}\n";
        assert_eq!(without_source(own), own);
    }

    #[test]
    fn people_get_lines_and_machines_get_json() {
        assert_eq!(wanted(LogFormat::Auto, true), LogFormat::Human);
        assert_eq!(wanted(LogFormat::Auto, false), LogFormat::Json);
        assert_eq!(wanted(LogFormat::Human, false), LogFormat::Human);
    }
}
