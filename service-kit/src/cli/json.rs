//! Lines of a log of JSON that no event of `tracing` is: last words, refusals, panics; and who wrote a line.

use std::{backtrace::Backtrace, panic, sync::OnceLock, time::SystemTime};

use crate::{PanicReport, printed};

/// Who writes the log.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The program.
    pub(super) program: &'static str,
    pub(super) version: &'static str,
    /// The name that the program's own lines have in the log.
    pub(super) target: &'static str,
    /// What it works for: `consumer` or `outbox`, and its name.
    pub(super) instance: (&'static str, String),
}

/// What each line of this process ends with; empty until the log is started, and where it is no JSON.
static SIGNATURE: OnceLock<String> = OnceLock::new();

/// From now on each line says who wrote it.
pub(super) fn identify(identity: &Identity) {
    let Identity { program, version, instance: (kind, name), .. } = identity;
    let fields = serde_json::json!({ "program": program, "version": version, *kind: name });
    let fields = fields.to_string();
    // The first one counts, as for the subscriber.
    let _ = SIGNATURE.set(fields.trim_start_matches('{').trim_end_matches('}').to_owned());
}

/// A line of JSON with who wrote it.
pub(super) fn signed(line: &str) -> String {
    match (line.trim_end().strip_suffix('}'), SIGNATURE.get()) {
        (Some(fields), Some(signature)) => format!("{fields},{signature}}}\n"),
        _ => line.to_owned(),
    }
}

/// Text as a line of the log.
pub(super) fn line(level: &str, text: &str) -> String {
    let time = humantime::format_rfc3339_micros(SystemTime::now());
    let text = serde_json::Value::from(text);
    let line = format!("{{\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":{text}}}");
    signed(&printed::escaped(&line))
}

/// Last words in the form of the log: JSON, if that was started, else as they are.
pub(super) fn last_words(text: &str) -> String {
    match SIGNATURE.get() {
        Some(_) => line("ERROR", text),
        None => printed::lines(text).into_owned(),
    }
}

/// Has panics reported instead of printed.
pub(super) fn report_panics(report: fn(PanicReport)) {
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload_as_str().unwrap_or("a value that is not text");
        let thread = std::thread::current();
        let backtrace = Backtrace::capture();
        let captured = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
        report(PanicReport {
            thread: thread.name().unwrap_or("unnamed").to_owned(),
            place: info.location().map(|place| own_path(&place.to_string())).unwrap_or_default(),
            backtrace: captured.then(|| backtrace.to_string()),
            error: payload.to_owned(),
        });
    }));
}

/// A place in the source without the folders of the build machine: those of cargo's registry and of the compiler.
fn own_path(place: &str) -> String {
    for folder in ["/registry/src/", "/rustc/"] {
        if let Some((_, rest)) = place.split_once(folder) {
            return rest.split_once('/').map_or(rest, |(_, path)| path).to_owned();
        }
    }
    place.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_folder_of_the_build_machine() {
        let cases = [
            ("src/pay.rs:7:9", "src/pay.rs:7:9"),
            (
                "/build/.cargo/registry/src/index-1949/tokio-1.4/src/x.rs:1:2",
                "tokio-1.4/src/x.rs:1:2",
            ),
            ("/rustc/abc123/library/core/src/option.rs:1:2", "library/core/src/option.rs:1:2"),
        ];
        for (place, shown) in cases {
            assert_eq!(own_path(place), shown);
        }
    }

    #[test]
    fn a_line_says_who_wrote_it() {
        let instance = ("consumer", "bill\"ing".to_owned());
        identify(&Identity { program: "inbox-consumer", version: "1.2.3", target: "x", instance });
        let line: serde_json::Value =
            serde_json::from_str(&line("ERROR", "a \u{9b}\"b\"")).unwrap();
        assert_eq!(line["message"], "a \u{9b}\"b\"");
        assert_eq!(line["consumer"], "bill\"ing");
        assert_eq!(
            (&line["program"], &line["version"]),
            (&"inbox-consumer".into(), &"1.2.3".into())
        );
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
        assert!(last_words("x").starts_with('{'));
    }
}
