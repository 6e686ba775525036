//! The settings of a webhook, read and checked; every value that cannot work, with what to do.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use reqwest::header::{HeaderName, HeaderValue};
use service_kit::{Problem, doubt_of, is_name};

use crate::{
    address::Address,
    cloud_event,
    content::Role,
    json_body::JsonBody,
    webhook::{Webhook, WebhookBody},
};

/// The longest name of a webhook.
const NAME_MAX: usize = 63;

/// Headers that each call sets, with names that others specify, or that belong to the connection.
const FIXED_HEADERS: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Headers that each call sets and a webhook may rename or leave out: no specification has their names.
const RENAMED_HEADERS: &[&str] = &[
    "aggregate-id",
    "aggregate-type",
    "aggregate-version",
    "causation-id",
    "correlation-id",
    "dedup-key",
    "delivery-attempt",
    "event-tombstone",
    "event-topic",
    "event-type",
    "idempotency-key",
    "occurred-at",
    "schema-version",
];

/// A webhook that can work, as far as can be seen without its files.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) body: WebhookBody,
    pub(crate) json: JsonBody,
    /// Other names of headers; `None`: not sent.
    pub(crate) header_names: HashMap<&'static str, Option<HeaderName>>,
    pub(crate) source: String,
    pub(crate) content_type: String,
    /// `Content-Type` of each call.
    pub(crate) content_header: HeaderValue,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) calls_max: usize,
    pub(crate) retry_after_max: Duration,
    pub(crate) response_bytes_max: usize,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) files: Vec<(Role, PathBuf)>,
}

/// All that is wrong or doubtful about a webhook, but for values that are missing or out of bounds: the reader
/// of the configuration reports those.
pub fn problems(webhook: &Webhook) -> Vec<Problem> {
    Settings::read(webhook).1
}

impl Settings {
    /// The settings, unless something keeps them from working; and all that is wrong or doubtful.
    pub(crate) fn read(webhook: &Webhook) -> (Option<Self>, Vec<Problem>) {
        let mut complaints = Complaints { name: &webhook.name, found: Vec::new() };
        let settings = read(webhook, &mut complaints);
        let fatal = complaints.found.iter().any(|problem| problem.fatal);
        (settings.filter(|_| !fatal), complaints.found)
    }
}

/// Problems of one webhook.
struct Complaints<'w> {
    name: &'w str,
    found: Vec<Problem>,
}

impl Complaints<'_> {
    fn fatal(&mut self, key: &'static str, text: impl std::fmt::Display) {
        self.found.push(Problem::fatal(&[key], format!("`{key}` of {:?} {text}", self.name)));
    }

    fn doubt(&mut self, key: &'static str, text: impl std::fmt::Display) {
        self.found.push(Problem::doubt(&[key], format!("`{key}` of {:?} {text}", self.name)));
    }

    fn take<T>(&mut self, key: &'static str, read: Result<T, String>) -> Option<T> {
        read.map_err(|error| self.fatal(key, error)).ok()
    }
}

fn read(webhook: &Webhook, complaints: &mut Complaints<'_>) -> Option<Settings> {
    if !webhook.name.is_empty() && !is_name(&webhook.name, NAME_MAX) {
        complaints.fatal(
            "webhooks.name",
            format!("may contain letters, digits, `.`, `_` and `-`, at most {NAME_MAX}"),
        );
    }
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !printable(&webhook.source) {
        complaints.fatal(
            "webhooks.source",
            "is not a URI reference: percent-encode what is not visible ASCII",
        );
    }
    let content_header = complaints.take("webhooks.content_type", content_header(webhook));
    let json = complaints.take("webhooks.body_fields", JsonBody::read(&webhook.body_fields));
    if !webhook.body_fields.is_empty() && webhook.body != WebhookBody::Json {
        complaints.fatal(
            "webhooks.body_fields",
            "is used only with `body = \"json\"`; set it, or remove the fields",
        );
    }
    let headers = fixed_headers(webhook, complaints);
    let header_names = header_names(webhook, &headers, complaints);
    let files = files(webhook, complaints);
    let address = address(webhook, complaints)?;
    authentication(webhook, &address, complaints);
    Some(Settings {
        name: webhook.name.clone(),
        address,
        body: webhook.body,
        json: json?,
        header_names,
        source: webhook.source.clone(),
        content_type: webhook.content_type.clone(),
        content_header: content_header?,
        timeout: webhook.timeout,
        connect_timeout: webhook.connect_timeout,
        calls_max: webhook.calls_max.into(),
        retry_after_max: webhook.retry_after_max,
        response_bytes_max: webhook.response_bytes_max,
        headers,
        files,
    })
}

fn address(webhook: &Webhook, complaints: &mut Complaints<'_>) -> Option<Address> {
    if webhook.url.trim().is_empty() {
        return None;
    }
    let address = complaints.take("webhooks.url", Address::read(&webhook.url))?;
    if !address.is_encrypted() && !address.is_loopback() {
        if webhook.insecure_http {
            complaints.doubt(
                "webhooks.insecure_http",
                "is true: events go unencrypted to another machine, so anybody on the network can \
                 read and change them, read the credentials, and impersonate the receiver; use \
                 https://",
            );
        } else {
            complaints.fatal(
                "webhooks.url",
                "is http:// and names another machine: events and credentials would go \
                 unencrypted to an unverified receiver; use https://, or set `insecure_http` to \
                 true if you trust the network",
            );
        }
    }
    if webhook.ca_file.is_some() && !address.is_encrypted() {
        complaints.fatal(
            "webhooks.ca_file",
            "is not used, since `url` is http://; remove it, or use https://",
        );
    }
    Some(address)
}

fn content_header(webhook: &Webhook) -> Result<HeaderValue, String> {
    let is_type = |text: &str| {
        text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty())
    };
    let value = HeaderValue::from_str(&webhook.content_type)
        .ok()
        .filter(|_| is_type(&webhook.content_type));
    let value = value.ok_or("is not a media type, such as application/json")?;
    Ok(match webhook.body {
        WebhookBody::Payload => value,
        WebhookBody::CloudEvents => HeaderValue::from_static(cloud_event::CONTENT_TYPE),
        WebhookBody::Json => HeaderValue::from_static("application/json"),
    })
}

/// A name, and what stands behind the colon.
fn header(line: &str) -> Result<(HeaderName, &str), String> {
    let (name, value) =
        line.split_once(':').ok_or("has an entry without a colon; write \"Name: value\"")?;
    let known = HeaderName::from_bytes(name.as_bytes());
    let name = known.map_err(|_| format!("has {name:?}, which is not a header name"))?;
    if [FIXED_HEADERS, RENAMED_HEADERS].iter().any(|own| own.contains(&name.as_str())) {
        return Err(format!("has `{name}`, which each call sets itself; remove it"));
    }
    Ok((name, value.trim()))
}

fn fixed_headers(
    webhook: &Webhook,
    complaints: &mut Complaints<'_>,
) -> Vec<(HeaderName, HeaderValue)> {
    let read = |line: &String| {
        let (name, value) = header(line)?;
        if ["authorization", "cookie"].contains(&name.as_str()) {
            return Err(format!(
                "has `{name}`, and values here are shown in logs; put it into a file: \
                 `bearer_file`, `basic_file` or `header_files`"
            ));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            format!(
                "has characters for `{name}` that a header does not allow; leave visible \
                     ASCII in it"
            )
        })?;
        Ok((name, value))
    };
    let lines = webhook.headers.iter().map(read);
    lines.filter_map(|line| complaints.take("webhooks.headers", line)).collect()
}

/// Headers that have other names, or are not sent.
fn header_names(
    webhook: &Webhook,
    fixed: &[(HeaderName, HeaderValue)],
    complaints: &mut Complaints<'_>,
) -> HashMap<&'static str, Option<HeaderName>> {
    let mut names: HashMap<&'static str, Option<HeaderName>> = HashMap::new();
    for line in &webhook.header_names {
        let Some((own, other)) = complaints.take("webhooks.header_names", renamed(line)) else {
            continue;
        };
        let taken = other.as_ref().filter(|other| {
            let by_file = webhook.header_files.iter().filter_map(|line| header(line).ok());
            fixed.iter().any(|(name, _)| name == *other)
                || by_file.into_iter().any(|(name, _)| name == **other)
                || names.values().flatten().any(|name| name == *other)
        });
        if let Some(taken) = taken {
            complaints.fatal(
                "webhooks.header_names",
                format!("names two headers `{taken}`; choose another name for one"),
            );
        } else if names.insert(own, other).is_some() {
            complaints
                .fatal("webhooks.header_names", format!("has two entries for `{own}`; remove one"));
        }
    }
    names
}

/// A header that may be renamed, and its new name.
fn renamed(line: &str) -> Result<(&'static str, Option<HeaderName>), String> {
    let (own, other) = line
        .split_once(':')
        .ok_or("has an entry without a colon; write \"Event-Type: X-Event-Type\"")?;
    let known = RENAMED_HEADERS.iter().find(|name| name.eq_ignore_ascii_case(own.trim()));
    let own = known.ok_or_else(|| {
        format!("has {:?}, which is not one of {}", own.trim(), RENAMED_HEADERS.join(", "))
    })?;
    if other.trim().is_empty() {
        return Ok((own, None));
    }
    let (other, _) = header(&format!("{}:", other.trim()))?;
    if ["authorization", "cookie"].contains(&other.as_str()) {
        return Err(format!("has `{other}`, which is for credentials; choose another name"));
    }
    Ok((own, Some(other)))
}

/// Every file, with what it is for.
fn files(webhook: &Webhook, complaints: &mut Complaints<'_>) -> Vec<(Role, PathBuf)> {
    let mut files: Vec<(Role, PathBuf)> = Vec::new();
    let mut add = |role: Role, file: &str, complaints: &mut Complaints<'_>| {
        if file.is_empty() {
            return complaints.fatal(role.key(), "names no file");
        }
        files.push((role, file.into()));
    };
    for file in &webhook.secret_files {
        add(Role::Secrets, file, complaints);
    }
    for (role, file) in [(Role::Bearer, &webhook.bearer_file), (Role::Basic, &webhook.basic_file)] {
        if let Some(file) = file {
            add(role, file, complaints);
        }
    }
    for line in &webhook.header_files {
        if let Some((name, file)) = complaints.take("webhooks.header_files", header(line)) {
            add(Role::Header(name), file, complaints);
        }
    }
    let what = |role: &Role| format!("what `{}` of {:?} names", role.key(), webhook.name);
    let doubts = files.iter().filter_map(|(role, file)| doubt_of(&[role.key()], &what(role), file));
    complaints.found.extend(doubts);
    if let Some(file) = &webhook.ca_file {
        files.push((Role::Authority, file.into()));
    }
    files
}

fn authentication(webhook: &Webhook, address: &Address, complaints: &mut Complaints<'_>) {
    let by_header = webhook.header_files.iter().filter_map(|line| header(line).ok());
    let authorizations = by_header.filter(|(name, _)| *name == "authorization").count()
        + usize::from(webhook.bearer_file.is_some())
        + usize::from(webhook.basic_file.is_some());
    if authorizations > 1 {
        complaints.fatal(
            "webhooks.bearer_file",
            "is not the only setting for `Authorization`: keep one of `bearer_file`, `basic_file` \
             and the entry of `header_files`",
        );
    }
    if authorizations == 0
        && webhook.secret_files.is_empty()
        && webhook.header_files.is_empty()
        && !address.is_loopback()
    {
        complaints.doubt(
            "webhooks.secret_files",
            "is not set, nor is `bearer_file`, `basic_file` or `header_files`: a receiver cannot \
             authenticate the caller; share a secret",
        );
    }
}
