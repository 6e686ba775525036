//! `[traces]`: where spans are exported to.

use std::time::Duration;

use crate::{Problem, Secret, Share, host::is_loopback, section};

/// The word for no export.
const OFF: &str = "off";

section! {
    /// `[traces]`: where spans are exported to, by OTLP over HTTP.
    pub struct Traces as "traces" {
        /// Where spans are exported to, by OTLP over HTTP with protobuf: a URL such as
        /// `http://127.0.0.1:4318/v1/traces`, or `off`. By default the environment's
        /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or its `OTEL_EXPORTER_OTLP_ENDPOINT` plus
        /// `/v1/traces`; without either, nothing is exported. Needs a build with the feature
        /// `opentelemetry`.
        endpoint: Option<String>;
        /// Headers of each request, including secrets: `name=value`, separated by commas or lines,
        /// `%2C` for a comma in a value. By default the environment's `OTEL_EXPORTER_OTLP_HEADERS`.
        headers: Option<Secret>;
        /// The fraction of traces started here that are exported. A span with a parent follows its
        /// trace: it is exported if the event's `traceparent` marks the trace as sampled.
        sample: Share = "1";
        /// Timeout of one batch of spans at the receiver, retries included.
        timeout: Duration = "5s", in 100ms..=1m;
        /// The service name in traces. By default the environment's `OTEL_SERVICE_NAME`, or the
        /// `service.name` of `OTEL_RESOURCE_ATTRIBUTES`, whose other attributes always apply.
        service_name: Option<String>, shown "`consumer.name`; of a relay `outbox-relay`";
    }
}

/// What the export of spans tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracesNotice {
    /// Something about the environment that keeps spans from being exported.
    Doubtful(String),
    /// Spans are lost from now on: told once until they are exported again.
    Lost {
        /// How many, so far.
        spans: u64,
        /// Why.
        error: String,
    },
    /// Spans are exported again.
    Exported {
        /// How many were lost meanwhile.
        spans: u64,
        /// For how long, in seconds.
        seconds: u64,
    },
}

impl Traces {
    /// Whether the configuration says that nothing is exported, whatever the environment says.
    pub(crate) fn is_off(&self) -> bool {
        self.endpoint.as_deref() == Some(OFF)
    }

    /// What is wrong with it; `exports` says whether the build of `package` has the export.
    pub fn problems(&self, package: &str, exports: bool) -> Vec<Problem> {
        let mut found = Vec::new();
        let key = &["traces.endpoint"];
        if let Some(endpoint) = self.endpoint.as_deref().filter(|_| !self.is_off()) {
            match receiver(endpoint) {
                Err(why) => {
                    let text = format!("`traces.endpoint` {why}, or off");
                    found.push(Problem::fatal(key, text));
                }
                Ok(receiver) if receiver.is_open() && self.headers.is_some() => {
                    found.push(Problem::doubt(
                        &["traces.endpoint", "traces.headers"],
                        "`traces.headers` travel unencrypted: `traces.endpoint` names another \
                         machine and begins with http://; use https://",
                    ));
                }
                Ok(_) => {}
            }
            if !exports {
                found.push(Problem::doubt(
                    key,
                    format!(
                        "`traces.endpoint` is set, but this build cannot export spans; build \
                         {package} with the feature `opentelemetry`, or remove it"
                    ),
                ));
            }
        }
        if let Some(Err(why)) = self.headers.as_ref().map(|headers| headers_of(headers.expose())) {
            let text = format!("`traces.headers`: {why}");
            found.push(Problem::fatal(&["traces.headers"], text));
        }
        found
    }
}

/// Who takes spans, as a URL names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Receiver<'u> {
    pub(crate) encrypted: bool,
    host: &'u str,
    /// The URL as far as everybody may see it: what stands behind a question mark may be a secret.
    pub(crate) shown: &'u str,
}

impl Receiver<'_> {
    /// Whether others may read what is sent.
    fn is_open(self) -> bool {
        !self.encrypted && !is_loopback(self.host)
    }
}

/// Reads the URL of a receiver. The error is the end of a sentence, and shows nothing of the URL.
pub(crate) fn receiver(url: &str) -> Result<Receiver<'_>, &'static str> {
    const NO_URL: &str = "is not the URL of a receiver; set one such as \
                          http://127.0.0.1:4318/v1/traces";
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").ok_or(NO_URL)?;
    let encrypted = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(NO_URL),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "contains a user, and perhaps a password, which every log would show; put them into \
             `traces.headers`, and set a URL such as http://127.0.0.1:4318/v1/traces",
        );
    }
    let bracket = authority.find(']').map_or(0, |end| end + 1);
    let host = authority[bracket..].find(':').map_or(authority, |at| &authority[..bracket + at]);
    let whole = !host.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
    if whole { Ok(Receiver { encrypted, host, shown }) } else { Err(NO_URL) }
}

/// Reads headers. The error is a sentence without any of them.
pub(crate) fn headers_of(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let headers =
        pairs(text).ok_or("each header is written name=value; separate them by commas or lines")?;
    let token = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    };
    let visible = |value: &str| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if headers.iter().all(|(name, value)| token(name) && visible(value)) {
        Ok(headers)
    } else {
        Err("a name or a value of a header has a character that HTTP does not allow")
    }
}

/// The pairs of a text such as `a=1,b=2`, as the variables of OpenTelemetry have them; `%20` means a space. `None`
/// when a part is no pair.
pub(crate) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), decoded(value.trim())))
    };
    parts.map(pair).collect()
}

/// A text without its `%` sequences; what is none stays.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).filter(|_| *first == b'%');
        let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(endpoint: &str, headers: Option<&str>, exports: bool) -> Vec<String> {
        let headers = headers.map(Secret::new);
        let traces = Traces { endpoint: Some(endpoint.into()), headers, ..Traces::default() };
        let found = traces.problems("inbox-consumer", exports);
        found.iter().map(|problem| format!("{} {}", problem.fatal, problem.text)).collect()
    }

    #[test]
    fn a_build_without_the_export_says_what_to_build() {
        let url = "http://127.0.0.1:4318/v1/traces";
        assert_eq!(problems(url, None, true), [""; 0]);
        assert_eq!(
            problems(url, None, false),
            [
                "false `traces.endpoint` is set, but this build cannot export spans; build inbox-consumer with the \
              feature `opentelemetry`, or remove it"
            ]
        );
        assert_eq!(problems("off", None, false), [""; 0]);
        assert_eq!(Traces::default().problems("inbox-consumer", false), []);
    }

    #[test]
    fn an_endpoint_is_a_url_without_a_password() {
        for wrong in
            ["collector:4318", "grpc://collector:4317", "http://", "https:///v1", "http://a b"]
        {
            let found = problems(wrong, None, true);
            assert!(
                found[0].starts_with("true `traces.endpoint` is not the URL"),
                "{wrong}: {found:?}"
            );
        }
        let found = problems("https://user:c4n4ry@collector/v1/traces", None, true);
        assert!(found[0].starts_with("true `traces.endpoint` contains a user"), "{found:?}");
        assert!(!found[0].contains("c4n4ry"));
        let shown = receiver("https://[::1]:4318/v1/traces?key=c4n4ry").unwrap();
        assert_eq!((shown.host, shown.shown), ("[::1]", "https://[::1]:4318/v1/traces"));
        assert_eq!(receiver("http://collector:4318").unwrap().host, "collector");
    }

    #[test]
    fn headers_are_pairs_and_never_shown() {
        let read = headers_of("Authorization=Bearer%20a=b, x-key=1%2C2\nx-100=100%\n").unwrap();
        let expected = [("Authorization", "Bearer a=b"), ("x-key", "1,2"), ("x-100", "100%")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for wrong in ["c4n4ry", "a b=c4n4ry", "a=c4n4ry%0d%0ab: c"] {
            let found = problems("https://collector/v1/traces", Some(wrong), true);
            assert!(found[0].starts_with("true `traces.headers`: "), "{found:?}");
            assert!(!format!("{found:?}").contains("c4n4ry"), "{found:?}");
        }
    }

    #[test]
    fn headers_to_another_machine_travel_encrypted() {
        let doubt = |endpoint| !problems(endpoint, Some("a=b"), true).is_empty();
        assert!(doubt("http://collector:4318/v1/traces"));
        assert!(!doubt("https://collector:4318/v1/traces"));
        assert!(!doubt("http://localhost:4318/v1/traces"));
    }
}
