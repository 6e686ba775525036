//! What is shown nowhere, and what leads nowhere else.

use std::process::Command;

use outbox_webhook::internal::Judgement;

use super::{
    Receiver, deliver, event, file, parts, path,
    receiver::{Step, answer},
    sink, webhook,
};

#[tokio::test]
async fn a_secret_that_a_receiver_sends_back_is_not_shown() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let echo = format!("t0k3n-long k3y-long {secret} t0k3n-long");
    let headers = "location: https://h/?token=t0k3n-long\r\n";
    for bytes_max in 1..100 {
        let receiver = Receiver::start([answer("302 x", headers, &echo)]).await;
        let (token, key, secrets) = (file("t0k3n-long"), file("k3y-long\n"), file(secret));
        let mut webhook = webhook(receiver.url("/"));
        webhook.bearer_file = Some(path(&token));
        webhook.header_files = vec![format!("X-Api-Key: {}", path(&key))];
        webhook.secret_files = vec![path(&secrets)];
        webhook.response_bytes_max = bytes_max;
        let sink = sink(&webhook);
        let outcome = deliver(&sink, event()).await;
        // The random names of its files may hold what a secret begins with.
        let files = [path(&token), path(&key), path(&secrets)];
        let sink = files.iter().fold(format!("{sink:?}"), |text, file| text.replace(file, ""));
        for shown in [parts(&outcome).1.to_owned(), format!("{outcome:?} {sink}")] {
            for part in ["t0k", "k3y", "MfKQ"] {
                assert!(!shown.contains(part), "{bytes_max}: {shown}");
            }
        }
    }
}

/// As programs that write JSON, URLs and forms send it back.
#[tokio::test]
async fn a_secret_that_comes_back_encoded_is_not_shown() {
    let token = "t0k3n/a+b=\"c\" d";
    let echoes = [
        "t0k3n\\/a+b=\\\"c\\\" d",
        "t0k3n\\u002fa\\u002Bb=\\u0022c\\u0022 d",
        "t0k3n%2Fa%2Bb%3D%22c%22%20d",
        "t0k3n%2fa%2bb%3d%22c%22+d",
        "%74%30k3n/a+b=%22c%22%20d",
        "{\\\"got\\\":\\\"t0k3n\\\\/a+b=\\\\\\\"c\\\\\\\" d\\\"}",
    ];
    for echo in echoes {
        for bytes_max in 1..60 {
            let headers = format!("location: https://h/?token={echo}\r\n");
            let receiver = Receiver::start([answer("302 x", &headers, echo)]).await;
            let file = file(token);
            let mut webhook = webhook(receiver.url("/"));
            webhook.bearer_file = Some(path(&file));
            webhook.response_bytes_max = bytes_max;
            let outcome = deliver(&sink(&webhook), event()).await;
            let (_, shown, _) = parts(&outcome);
            for part in ["k3n", "a+b", "u002fa", "%2Fa", "%2fa", "c\\", "%22"] {
                assert!(!shown.contains(part), "{echo} {bytes_max}: {shown}");
            }
            assert!(shown.contains("***"), "{shown}");
        }
    }
}

/// Libraries that verify signatures strip the prefix, decode the rest, and may print either.
#[tokio::test]
async fn a_signing_secret_is_shown_in_none_of_its_forms() {
    for (secret, forms) in [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            &[
                "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0",
                "31F290F6BF06298AAB4F08D43C3F082CF648A362DA2DA4B0",
            ][..],
        ),
        (
            "whsec_PDw/Pz8+Pnp6enp6enp6enp6enp6enp6eg==",
            &[
                "PDw/Pz8+Pnp6enp6enp6enp6enp6enp6eg",
                "PDw_Pz8-Pnp6enp6enp6enp6enp6enp6eg",
                "<<???>>zzzzzzzzzzzzzzzzzz",
            ],
        ),
    ] {
        for form in forms {
            let echo = format!("no signature by {form}");
            let receiver = Receiver::start([answer("422 x", "", &echo)]).await;
            let file = file(secret);
            let mut webhook = webhook(receiver.url("/"));
            webhook.secret_files = vec![path(&file)];
            let outcome = deliver(&sink(&webhook), event()).await;
            let (_, shown, _) = parts(&outcome);
            assert!(shown.contains("no signature by ***"), "{form}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_password_is_shown_in_none_of_its_forms() {
    let password = file("ada:p4ssw0rd");
    let receiver =
        Receiver::start([answer("400 x", "", "YWRhOnA0c3N3MHJk ada:p4ssw0rd p4ssw0rd")]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.basic_file = Some(path(&password));
    let outcome = deliver(&sink(&webhook), event()).await;
    assert_eq!(parts(&outcome).1, "webhook shop answered 400 Bad Request: *** *** ***");
}

#[tokio::test]
async fn what_a_receiver_says_acts_on_no_terminal() {
    let receiver = Receiver::start([answer("400 x", "", "\u{1b}[2J\u{0}a\r\nb\u{202e}")]).await;
    let outcome = deliver(&sink(&webhook(receiver.url("/"))), event()).await;
    let wanted = "webhook shop answered 400 Bad Request: \\u{1b}[2J\\u{0}a\\r\\nb\\u{202e}";
    assert_eq!(parts(&outcome).1, wanted);
}

#[tokio::test]
async fn a_check_looks_at_files_and_calls_nobody() {
    let secrets = file("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let receiver = Receiver::start([Step::Silence]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.secret_files = vec![path(&secrets)];
    let sink = sink(&webhook);
    assert_eq!(sink.check().await, Ok(()));
    std::fs::write(secrets.path(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_MfKQ").unwrap();
    let error = sink.check().await.unwrap_err();
    let wanted = format!(
        "webhook shop: `webhooks.secret_files`: line 2 of {} has 3 bytes after whsec_",
        path(&secrets)
    );
    assert!(error.starts_with(&wanted), "{error}");
    secrets.close().unwrap();
    let error = sink.check().await.unwrap_err();
    assert!(error.starts_with("webhook shop: `webhooks.secret_files`: cannot read /"), "{error}");
    assert_eq!(receiver.connections(), 0);
}

/// Another process, since variables of the environment belong to all of one.
#[test]
fn the_proxies_of_the_environment_are_not_used() {
    let nobody = "http://127.0.0.1:1";
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "secrecy::an_event_is_delivered"])
        .envs(
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
                .map(|name| (name, nobody)),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn an_event_is_delivered() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    assert_eq!(deliver(&sink(&webhook(receiver.url("/"))), event()).await, Judgement::Delivered);
}
