//! Where spans go, and whose they are: the configuration, and OpenTelemetry's variables where it says nothing.

use opentelemetry::KeyValue;
use opentelemetry_sdk::{Resource, resource::TelemetryResourceDetector};

use crate::{
    Secret, Traces, host,
    traces::{headers_of, pairs, receiver},
};

/// Where a receiver takes spans, below the address for all signals.
const PATH: &str = "/v1/traces";

/// Where spans go.
pub(super) struct Destination {
    pub(super) url: String,
    /// **In clear.**
    pub(super) headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").finish_non_exhaustive()
    }
}

impl Destination {
    /// What the configuration says, else the environment; `None` where neither names a receiver. The error is a
    /// sentence about the environment.
    pub(super) fn of(traces: &Traces, env: &[(String, String)]) -> Result<Option<Self>, String> {
        if traces.is_off() {
            return Ok(None);
        }
        let configured = traces.endpoint.clone().map(|url| ("traces.endpoint", url));
        let Some((source, url)) = configured.or_else(|| in_environment(env)) else {
            return Ok(None);
        };
        let unused = |why: &str| format!("spans are not exported: {why}");
        receiver(&url).map_err(|why| unused(&format!("`{source}` {why}")))?;
        let headers = traces.headers.as_ref().map(Secret::expose);
        let (source, headers) = match headers {
            Some(headers) => ("traces.headers", headers),
            None => {
                let name = "OTEL_EXPORTER_OTLP_HEADERS";
                (name, variable(env, name).unwrap_or_default())
            }
        };
        let headers = headers_of(headers).map_err(|why| unused(&format!("`{source}`: {why}")))?;
        Ok(Some(Self { url, headers }))
    }
}

/// The variable that names a receiver, and its URL.
fn in_environment(env: &[(String, String)]) -> Option<(&'static str, String)> {
    let (traces, all) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
    let for_all = |url: &str| (all, url.trim_end_matches('/').to_owned() + PATH);
    let for_traces = variable(env, traces).map(|url| (traces, url.to_owned()));
    for_traces.or_else(|| variable(env, all).map(for_all))
}

/// Whose spans they are.
pub(super) fn resource(traces: &Traces, service: &str, env: &[(String, String)]) -> Resource {
    let attributes = variable(env, "OTEL_RESOURCE_ATTRIBUTES").and_then(pairs).unwrap_or_default();
    let own = [
        KeyValue::new("service.name", service.to_owned()),
        KeyValue::new("host.name", host()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    let named = traces.service_name.as_deref().or_else(|| variable(env, "OTEL_SERVICE_NAME"));
    // A later one goes over an earlier one of the same name.
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(own)
        .with_attributes(attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)))
        .with_attributes(named.map(|name| KeyValue::new("service.name", name.to_owned())))
        .build()
}

/// The value of a variable that is set to something.
fn variable<'e>(env: &'e [(String, String)], name: &str) -> Option<&'e str> {
    let found = env.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim());
    found.filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    fn env(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn configured(url: &str) -> Traces {
        Traces { endpoint: Some(url.into()), ..Traces::default() }
    }

    #[test]
    fn the_configuration_goes_before_the_environment() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318/");
        let special = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://special:4318/spans");
        let url = |traces: &Traces, variables: &[(&str, &str)]| {
            Destination::of(traces, &env(variables)).unwrap().map(|destination| destination.url)
        };
        let none = Traces::default();
        assert_eq!(url(&none, &[]), None);
        assert_eq!(url(&none, &[general]).unwrap(), "http://general:4318/v1/traces");
        assert_eq!(url(&none, &[general, special]).unwrap(), "http://special:4318/spans");
        assert_eq!(url(&configured("http://own/x"), &[special]).unwrap(), "http://own/x");
        assert_eq!(url(&configured("off"), &[special]), None);
    }

    #[test]
    fn headers_of_the_environment_count_where_none_are_configured() {
        let variables = env(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]);
        let mut traces = configured("http://own/x");
        let headers =
            |traces: &Traces| Destination::of(traces, &variables).unwrap().unwrap().headers;
        assert_eq!(headers(&traces), [("a".into(), "b".into())]);
        traces.headers = Some("c=d".into());
        assert_eq!(headers(&traces), [("c".into(), "d".into())]);
    }

    #[test]
    fn an_environment_that_names_no_receiver_is_told_without_its_secrets() {
        let refusal = |name: &str, value: &str| {
            let variables = env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"), (name, value)]);
            Destination::of(&Traces::default(), &variables).unwrap_err()
        };
        let url = refusal("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "u:c4n4ry@collector:4317");
        assert!(url.contains("`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is not the URL"), "{url}");
        let headers = refusal("OTEL_EXPORTER_OTLP_HEADERS", "c4n4ry");
        assert!(headers.contains("`OTEL_EXPORTER_OTLP_HEADERS`: each header"), "{headers}");
        assert!(!(url + &headers).contains("c4n4ry"));
    }

    #[test]
    fn a_service_has_the_name_that_is_said_for_it() {
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=listed,deployment=a%20b");
        let name = ("OTEL_SERVICE_NAME", "variable");
        let named = |traces: &Traces, variables: &[(&str, &str)], key: &'static str| {
            let resource = resource(traces, "own", &env(variables));
            resource.get(&Key::from_static_str(key)).map(|value| value.to_string())
        };
        let service = |traces: &Traces, variables: &[(&str, &str)]| {
            named(traces, variables, "service.name").unwrap()
        };
        let mut traces = Traces::default();
        assert_eq!(service(&traces, &[]), "own");
        assert_eq!(service(&traces, &[attributes]), "listed");
        assert_eq!(service(&traces, &[attributes, name]), "variable");
        assert_eq!(named(&traces, &[attributes], "deployment").unwrap(), "a b");
        traces.service_name = Some("configured".into());
        assert_eq!(service(&traces, &[attributes, name]), "configured");
    }
}
