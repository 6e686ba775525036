//! `[[webhooks]]` of a relay: read from a file, bounded, and made a destination.
#![cfg(feature = "webhook")]

use std::time::Duration;

use outbox_relay::{
    config::{Config, Overrides, Webhook, WebhookBody},
    destination::{Sink as _, http::WebhookSink},
};

fn webhook() -> Webhook {
    Webhook { name: "shop".into(), url: "http://localhost/".into(), ..Webhook::default() }
}

fn fatal(webhooks: Vec<Webhook>) -> Vec<String> {
    let mut config = Config::new("localhost:1", "sqlite:d");
    config.webhooks = webhooks;
    let found = config.validate().into_iter().filter(|problem| problem.fatal);
    found.map(|problem| problem.text).collect()
}

type Change = fn(&mut Webhook);

/// What is changed, and what is said of it.
const OUT_OF_BOUNDS: &[(Change, &str)] = &[
    (
        |w| w.name.clear(),
        "`webhooks.name` of \"\" is invalid: expected non-empty string, found \"\"",
    ),
    (
        |w| w.url.clear(),
        "`webhooks.url` of \"shop\" is invalid: expected non-empty string, found \"\"",
    ),
    (|w| w.source.clear(), "`webhooks.source` of \"shop\" is invalid: expected non-empty string"),
    (|w| w.content_type.clear(), "expected non-empty string"),
    (
        |w| w.timeout = Duration::ZERO,
        "`webhooks.timeout` of \"shop\" is invalid: expected duration 1ms–10m, found \"0s\"",
    ),
    (|w| w.timeout = Duration::from_secs(601), "expected duration 1ms–10m"),
    (|w| w.connect_timeout = Duration::ZERO, "`webhooks.connect_timeout` of \"shop\" is invalid"),
    (
        |w| w.calls_max = 0,
        "`webhooks.calls_max` of \"shop\" is invalid: expected integer 1–10000, found `0`",
    ),
    (|w| w.calls_max = 10_001, "expected integer 1–10000"),
    (|w| w.retry_after_max = Duration::from_secs(700_000), "expected duration 0s–7d"),
    (|w| w.response_bytes_max = 65_537, "expected size 0–64KiB"),
];

#[test]
fn a_value_out_of_bounds_is_refused_with_a_sentence() {
    for (change, sentence) in OUT_OF_BOUNDS {
        let mut webhook = webhook();
        change(&mut webhook);
        let error = WebhookSink::new(&webhook).unwrap_err();
        assert!(error.contains(sentence), "{error}");
        let found = fatal(vec![webhook]);
        assert!(found.iter().any(|text| text.contains(sentence)), "{sentence}\n{found:?}");
    }
}

#[test]
fn calls_and_their_length_are_bounded_as_configured() {
    let sink = WebhookSink::new(&webhook()).unwrap();
    assert_eq!((sink.name(), sink.calls_max(), sink.batch_max()), ("shop", 64, 1));
    assert_eq!(sink.deadline(), Duration::from_secs(20));
}

#[test]
fn two_webhooks_have_two_names() {
    let found = fatal(vec![webhook(), webhook()]);
    assert_eq!(found, ["two [[webhooks]] have the `name` \"shop\"; rename one"]);
}

#[test]
fn webhooks_are_read_from_a_file() {
    let text = "[kafka]\nbootstrap = \"localhost:1\"\ntopic = \"t\"\n[database]\nurl = \"sqlite:x\"\n\
                [[webhooks]]\nname = \"shop\"\nurl = \"https://shop.example/{topic}\"\nbody = \"cloudevents\"\n\
                timeout = \"20s\"\nresponse_bytes_max = \"2KiB\"\nheaders = [\"X-Tenant: 7\"]\nsecret_files = [\"/run/a\"]\n\
                [[webhooks]]\nname = \"crm\"\nurl = \"http://localhost/\"\n";
    let load = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::load(Some(file.path()), [], &Overrides::new())
    };
    let config = load(text).unwrap();
    let [shop, crm] = &config.webhooks[..] else { panic!() };
    assert_eq!(
        (shop.body, shop.timeout.as_secs(), shop.response_bytes_max),
        (WebhookBody::CloudEvents, 20, 2_048)
    );
    assert_eq!(
        crm,
        &Webhook { name: "crm".into(), url: "http://localhost/".into(), ..Webhook::default() }
    );
    for (change, sentence) in [
        (("name = \"crm\"\n", ""), "`name` is missing in the [[webhooks]] of"),
        (("\"20s\"", "\"0s\""), "expected duration 1ms–10m, found \"0s\""),
        (
            ("\"cloudevents\"", "\"xml\""),
            "expected one of payload, cloudevents, json, found \"xml\"",
        ),
        (("timeout", "time_out"), "unknown key `webhooks.time_out`"),
        (("https://shop", "ftp://shop"), "begins neither with https:// nor with http://"),
        (("name = \"crm\"", "name = \"shop\""), "two [[webhooks]] have the `name` \"shop\""),
    ] {
        let error = load(&text.replacen(change.0, change.1, 1)).unwrap_err().to_string();
        assert!(error.contains(sentence), "{sentence}: {error}");
    }
}
