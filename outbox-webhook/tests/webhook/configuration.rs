//! What a webhook may be told: each value that cannot work, with its sentence.

use std::time::Duration;

use outbox_webhook::internal::{self, Caller, Webhook, WebhookBody};

use super::{file, path};

fn problems(webhook: &Webhook, fatal: bool) -> Vec<String> {
    let found = internal::problems(webhook).into_iter().filter(|problem| problem.fatal == fatal);
    found.map(|problem| problem.text).collect()
}

fn new(webhook: &Webhook) -> Result<Caller, String> {
    Caller::new(webhook, |_, _| ())
}

fn signed(change: impl FnOnce(&mut Webhook)) -> Webhook {
    let mut webhook = super::webhook("https://shop.example/in");
    webhook.secret_files = vec!["/run/secrets/shop".into()];
    change(&mut webhook);
    webhook
}

type Change = fn(&mut Webhook);

fn json_fields(webhook: &mut Webhook, fields: &[&str]) {
    webhook.body = WebhookBody::Json;
    webhook.body_fields = fields.iter().map(|field| (*field).to_owned()).collect();
}

/// What is changed, and what is said of it.
const WRONG: &[(Change, &str)] = &[
    (
        |w| w.name = "a b".into(),
        "`webhooks.name` of \"a b\" may contain letters, digits, `.`, `_` and `-`, at most 63",
    ),
    (|w| w.name = "x".repeat(64), "at most 63"),
    (
        |w| w.url = "shop.example".into(),
        "`webhooks.url` of \"shop\" begins neither with https:// nor with http://",
    ),
    (|w| w.url = "ftp://shop.example".into(), "begins neither with"),
    (|w| w.url = "{event_type}://shop.example".into(), "begins neither with"),
    (|w| w.url = "https://{aggregate_id}.example/".into(), "has a placeholder in host or port"),
    (|w| w.url = "https://h:{aggregate_id}/".into(), "has a placeholder in host or port"),
    (|w| w.url = "https://h{topic}".into(), "has a placeholder in host or port"),
    (|w| w.url = "https://ada:secret@h/".into(), "contains credentials, which would be shown"),
    (|w| w.url = "https://h/#x".into(), "has a `#`"),
    (|w| w.url = "https://".into(), "is not a URL: empty host"),
    (|w| w.url = "https://h:99999/".into(), "is not a URL: invalid port number"),
    (|w| w.url = "https://h/{id}".into(), "has {id}, which is not one of {event_type}"),
    (|w| w.url = "https://h/{topic".into(), "has a `{` without its `}`"),
    (|w| w.url = "https://h/topic}".into(), "that a URL does not allow"),
    (|w| w.url = "https://h/a b".into(), "that a URL does not allow"),
    (|w| w.url = "https://h/ü".into(), "that a URL does not allow"),
    (|w| w.url = "https://h/a/../b".into(), "that a URL does not allow"),
    (|w| w.url = "https://h/a\\b".into(), "that a URL does not allow"),
    (|w| w.url = "https://h\\{topic}".into(), "that a URL does not allow"),
    (
        |w| w.url = "http://shop.example/in".into(),
        "`webhooks.url` of \"shop\" is http:// and names another machine: events and credentials would go \
             unencrypted to an unverified receiver; use https://, or set `insecure_http` to true if \
             you trust the network",
    ),
    (|w| w.url = "http://localhost.example/".into(), "names another machine"),
    (|w| w.url = "http://10.0.0.1/".into(), "names another machine"),
    (|w| w.source = "a b".into(), "`webhooks.source` of \"shop\" is not a URI reference"),
    (|w| w.content_type.clear(), "is not a media type"),
    (|w| w.header_names = vec!["Event-Type".into()], "has an entry without a colon"),
    (
        |w| w.header_names = vec!["webhook-id: X-Id".into()],
        "`webhooks.header_names` of \"shop\" has \"webhook-id\", which is not one of aggregate-id, ",
    ),
    (
        |w| w.header_names = vec!["Event-Type: a b".into()],
        "has \"a b\", which is not a header name",
    ),
    (|w| w.header_names = vec!["Event-Type: Host".into()], "which each call sets itself"),
    (|w| w.header_names = vec!["Event-Type: Cookie".into()], "which is for credentials"),
    (
        |w| w.header_names = vec!["Event-Type: X-A".into(), "Event-Topic: x-a".into()],
        "names two headers `x-a`",
    ),
    (
        |w| {
            w.headers = vec!["X-A: 1".into()];
            w.header_names = vec!["Event-Type: X-A".into()];
        },
        "names two headers `x-a`",
    ),
    (
        |w| w.header_names = vec!["Event-Type: X-A".into(), "event-type: X-B".into()],
        "has two entries for `event-type`",
    ),
    (|w| w.body_fields = vec!["id: id".into()], "is used only with `body = \"json\"`"),
    (|w| json_fields(w, &["id"]), "has an entry without a colon"),
    (|w| json_fields(w, &["id: uuid"]), "has \"uuid\", which is not one of id, type, "),
    (|w| json_fields(w, &["id: id", "id: type"]), "has the field \"id\" twice, or without a name"),
    (
        |w| w.content_type = "json".into(),
        "`webhooks.content_type` of \"shop\" is not a media type, such as application/json",
    ),
    (|w| w.content_type = "a/b\r\nx: y".into(), "is not a media type"),
    (
        |w| w.headers = vec!["X-Tenant".into()],
        "`webhooks.headers` of \"shop\" has an entry without a colon; write \"Name: value\"",
    ),
    (|w| w.headers = vec!["X Tenant: a".into()], "has \"X Tenant\", which is not a header name"),
    (|w| w.headers = vec![": a".into()], "has \"\", which is not a header name"),
    (
        |w| w.headers = vec!["X-A: b\r\nX-C: d".into()],
        "has characters for `x-a` that a header \
                                                       does not allow",
    ),
    (
        |w| w.headers = vec!["Webhook-Id: a".into()],
        "has `webhook-id`, which each call sets itself; remove it",
    ),
    (
        |w| w.headers = vec!["Transfer-Encoding: chunked".into()],
        "has `transfer-encoding`, which each call sets itself",
    ),
    (
        |w| w.headers = vec!["Authorization: Bearer t0k3n".into()],
        "has `authorization`, and values here are shown",
    ),
    (|w| w.headers = vec!["Cookie: t0k3n".into()], "has `cookie`, and values here are shown"),
    (
        |w| w.header_files = vec!["/run/key".into()],
        "`webhooks.header_files` of \"shop\" has an entry without a colon",
    ),
    (|w| w.header_files = vec!["Host: /run/key".into()], "has `host`, which each call sets itself"),
    (
        |w| w.header_files = vec!["X-Key:".into()],
        "`webhooks.header_files` of \"shop\" names no file",
    ),
    (|w| w.secret_files = vec![String::new()], "`webhooks.secret_files` of \"shop\" names no file"),
    (
        |w| (w.bearer_file, w.basic_file) = (Some("/a".into()), Some("/b".into())),
        "`webhooks.bearer_file` of \"shop\" is not the only setting for `Authorization`: keep one",
    ),
    (
        |w| (w.bearer_file, w.header_files) = (Some("/a".into()), vec!["AUTHORIZATION: /b".into()]),
        "is not the only setting for `Authorization`",
    ),
    (
        |w| (w.url, w.ca_file) = ("http://localhost/".into(), Some("/a".into())),
        "`webhooks.ca_file` of \"shop\" is not used, since `url` is http://; remove it, or use https://",
    ),
];

#[test]
fn a_value_that_cannot_work_is_refused_with_a_sentence() {
    for (at, (change, sentence)) in WRONG.iter().enumerate() {
        let webhook = signed(change);
        let found = problems(&webhook, true);
        assert!(found.iter().any(|text| text.contains(sentence)), "{at}: {sentence}\n{found:?}");
        assert!(
            found.iter().all(|text| !text.contains("secret@") && !text.contains("t0k3n")),
            "{found:?}"
        );
        let error = new(&webhook).unwrap_err();
        assert!(error.contains(sentence), "{error}");
    }
}

#[test]
fn what_is_in_a_file_and_cannot_be_used_is_said_without_it() {
    let wrong: &[(&str, Change, &str)] = &[
        ("", |w| w.secret_files.clone_from(&w.headers), "is empty; write a secret into it"),
        ("c4n4ry", |w| w.secret_files.clone_from(&w.headers), "line 1 of"),
        ("whsec_c4n4ry!", |w| w.secret_files.clone_from(&w.headers), "is not base64 after whsec_"),
        ("\n\nwhsec_c4n4", |w| w.secret_files.clone_from(&w.headers), "line 3 of"),
        ("", |w| w.bearer_file = w.headers.pop(), "is empty; write the value into it"),
        (
            "a\nc4n4ry",
            |w| w.bearer_file = w.headers.pop(),
            "contains characters that a header does not allow; leave one line",
        ),
        ("c4n4ry", |w| w.basic_file = w.headers.pop(), "does not contain user:password"),
        (
            "c4n4ry\0",
            |w| w.header_files = vec![format!("X-Key: {}", w.headers[0])],
            "contains characters that a header does not allow",
        ),
        ("c4n4ry", |w| w.ca_file = w.headers.pop(), "contains no certificates"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            |w| w.ca_file = w.headers.pop(),
            "contains an invalid certificate",
        ),
    ];
    for (at, (text, change, sentence)) in wrong.iter().enumerate() {
        let file = file(text);
        let mut webhook = super::webhook("https://shop.example/in");
        webhook.headers = vec![path(&file)];
        change(&mut webhook);
        webhook.headers.clear();
        let error = new(&webhook).unwrap_err();
        assert!(error.contains(sentence), "{at}: {error}");
        assert!(!error.contains("c4n4ry"), "{error}");
    }
    let large = file(&"x".repeat((1 << 20) + 1));
    let missing = signed(|webhook| webhook.secret_files = vec!["/nowhere/file".into()]);
    assert!(new(&missing).unwrap_err().contains("cannot read /nowhere/file"));
    let large = signed(|webhook| webhook.secret_files = vec![path(&large)]);
    assert!(new(&large).unwrap_err().contains("is larger than 1 MiB"));
    let many = file(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n".repeat(5));
    let many = signed(|webhook| webhook.secret_files = vec![path(&many), path(&many)]);
    assert!(new(&many).unwrap_err().contains(
        "contain 10 secrets; at most 8 are \
                                                           allowed"
    ));
}

#[test]
fn what_is_doubtful_is_said() {
    let open = signed(|webhook| {
        webhook.url = "http://shop.example/".into();
        webhook.insecure_http = true;
    });
    let found = problems(&open, false);
    assert!(
        found[0].contains("`webhooks.insecure_http` of \"shop\" is true: events go unencrypted"),
        "{found:?}"
    );
    let unsigned = signed(|webhook| webhook.secret_files.clear());
    let found = problems(&unsigned, false);
    assert!(found[0].contains("a receiver cannot authenticate the caller"), "{found:?}");
    for good in [
        signed(|_| ()),
        signed(|webhook| webhook.url = "http://127.0.0.1:8080".into()),
        signed(|webhook| webhook.url = "http://[::1]/{topic}?a={event_type}".into()),
        signed(|webhook| webhook.body = WebhookBody::CloudEvents),
        super::webhook("http://localhost"),
    ] {
        assert_eq!(problems(&good, true), [""; 0]);
        assert_eq!(problems(&good, false), [""; 0]);
    }
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_may_read_is_doubted() {
    use std::os::unix::fs::PermissionsExt as _;
    let secrets = file("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let webhook = signed(|webhook| webhook.secret_files = vec![path(&secrets)]);
    let found = problems(&webhook, false);
    assert!(found[0].contains("other users of this machine may read (mode 0644)"), "{found:?}");
}

#[test]
fn calls_and_their_length_are_bounded_as_configured() {
    let caller = new(&super::webhook("http://localhost/")).unwrap();
    assert_eq!((caller.name(), caller.calls_max()), ("shop", 64));
    assert_eq!(caller.deadline(), Duration::from_secs(15));
}
