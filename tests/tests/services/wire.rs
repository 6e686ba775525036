//! The way to the database and to the brokers: who is on it, and what each end proves. Commands of consumer and
//! relay, as a user runs them.

use std::process::Command;

use tests::{
    Authority, Certificate, KafkaSettings, Listener, OwnKafka, OwnPostgres, SOON, Schema, Stage,
    Topic, Worker, eventually,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::mpsc,
};

use super::commands::{ran, worker};
use crate::programs::RELAY;

/// What must be nowhere but on the way.
const CANARY: &str = "c4n4ry";
const HERE: &str = "DNS:localhost,IP:127.0.0.1";

/// A PostgreSQL that is none: it speaks no TLS, asks for the password in clear, and keeps it.
async fn fake(address: &str) -> (u16, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(ask_for_the_password(stream, told.clone()));
        }
    });
    (port, heard)
}

async fn ask_for_the_password(mut stream: TcpStream, told: mpsc::UnboundedSender<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        let said = &bytes[..count];
        let _ = told.send(said.to_vec());
        let answer: &[u8] = match said {
            // SSLRequest.
            [0, 0, 0, 8, 4, 210, 22, 47] => b"N",
            // A start: AuthenticationCleartextPassword.
            [0, ..] => b"R\0\0\0\x08\0\0\0\x03",
            _ => return,
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// An address of this machine that is not its loopback, if it has any.
async fn other_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").await.ok()?;
    // Nothing is sent: the system only says by which of its addresses it would be.
    socket.connect("192.0.2.1:9").await.ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then(|| own.to_string())
}

/// The relay's binary, configured by its environment alone.
fn relay(url: &str, bootstrap: &str, topic: &str) -> Command {
    let mut command = RELAY.command();
    command
        .env("OUTBOX_DATABASE__URL", url)
        .env("OUTBOX_KAFKA__BOOTSTRAP", bootstrap)
        .env("OUTBOX_KAFKA__TOPIC", topic)
        .current_dir(std::env::temp_dir());
    command
}

/// Runs a command that has a secret; answers its exit code and everything it says.
async fn silent(command: Command, args: &str) -> (Option<i32>, String) {
    let (code, out, err) = ran(command, args).await;
    let said = out + &err;
    assert!(!said.contains(CANARY), "{said}");
    (code, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_pretends_is_not_given_the_password() {
    let Some(address) = other_address().await else {
        let why = "this machine has no address beside its loopback";
        return tests::skip("a_server_that_pretends_is_not_given_the_password", why);
    };
    let stage = Stage::set("wire", 1).await;
    let (port, mut heard) = fake(&address).await;
    let url = format!("postgres://app:{CANARY}@{address}:{port}/x");
    let consumer = || {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", &url);
        command
    };
    for args in ["check", "migrate", "status", "run", "parked list", "prune"] {
        let (code, said) = silent(consumer(), args).await;
        assert!(
            code != Some(0) && said.contains("it offers no TLS, or somebody on the network"),
            "{said}"
        );
    }
    for args in ["check", "migrate", "status", "run", "failed list"] {
        let shipping = relay(&url, stage.topic.bootstrap(), stage.topic.name());
        let (code, said) = silent(shipping, args).await;
        assert!(
            code != Some(0) && said.contains("it offers no TLS, or somebody on the network"),
            "{said}"
        );
    }
    let mut asked = 0;
    while let Ok(said) = heard.try_recv() {
        asked += 1;
        assert!(!String::from_utf8_lossy(&said).contains(CANARY), "the password was sent");
    }
    assert!(asked > 0, "nobody came");
    // Who says the word gets what it says, and is reminded of it.
    let mut command = consumer();
    command.env("INBOX_DATABASE__TLS", "insecure");
    let (_, said) = silent(command, "check").await;
    assert!(
        said.contains("`database.tls` is insecure, and `database.url` names another"),
        "{said}"
    );
    let mut sent = Vec::new();
    while let Ok(said) = heard.try_recv() {
        sent.extend(said);
    }
    assert!(String::from_utf8_lossy(&sent).contains(CANARY), "the fake server works");
}

/// A server that wants TLS and a password of `app`, and a certificate of `sealed`.
async fn postgres_with(certificate: &Certificate) -> (OwnPostgres, Schema) {
    let rules = "hostssl all app 127.0.0.1/32 scram-sha-256\nhostnossl all app 127.0.0.1/32 reject\n\
                 hostssl all sealed 127.0.0.1/32 cert\nhost all sealed 127.0.0.1/32 reject";
    let server = OwnPostgres::start_with_tls(certificate, rules).await;
    let schema = server.schema().await;
    let roles = format!(
        "CREATE ROLE app SUPERUSER LOGIN PASSWORD '{CANARY}'; CREATE ROLE sealed SUPERUSER LOGIN;"
    );
    schema.run(&roles).await;
    (server, schema)
}

fn with_options(schema: &Schema, server: &str, more: &str) -> String {
    format!("{}{more}", schema.url_at(server))
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_to_the_database_is_proved_by_certificate_and_name() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let (server, schema) = postgres_with(&trusted.sign("server", HERE, 2)).await;
    let stage = Stage::with(tests::Services::from_env().topic("wire", 1).await, schema).await;
    let ca = |authority: &Authority| format!("&sslrootcert={}", authority.file().display());
    let at =
        |host: &str, user: &str| format!("postgres://{user}@{host}:{}/postgres", server.port());
    let url = |more: &str| {
        let at = at("127.0.0.1", &format!("app:{CANARY}"));
        with_options(&stage.schema, &at, &format!("&sslmode=verify-full{more}"))
    };
    let good = url(&ca(&trusted));
    // Consumes and ships with it.
    let running = Worker::spawn(worker(&stage).env("INBOX_DATABASE__URL", &good).arg("run"));
    stage.count("a", 1, 5).await;
    eventually(SOON, "all effects", async || stage.effects().await == 5).await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE ssl AND application_name LIKE 'inbox/%'";
    assert!(stage.schema.number(encrypted).await > 0, "sessions are encrypted");
    drop(running);
    let looks = async |url: &str| {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", url);
        let (code, said) = silent(command, "status").await;
        let shipping = relay(url, stage.topic.bootstrap(), stage.topic.name());
        let (its_code, its) = silent(shipping, "status").await;
        assert_eq!((code == Some(0)), (its_code == Some(0)), "both or none: {said} {its}");
        (code, said, its)
    };
    let refused = async |url: &str, what: &str| {
        let (code, said, its) = looks(url).await;
        assert!(
            code != Some(0) && said.contains(what) && its.contains(what),
            "{what}: {said} {its}"
        );
        assert_eq!(
            (said.lines().count(), its.lines().count()),
            (1, 1),
            "one sentence: {said} {its}"
        );
    };
    let (code, said, _) = looks(&good).await;
    assert_eq!(code, Some(0), "{said}");
    refused(&url(&ca(&other)), "its certificate is not signed by a trusted authority").await;
    refused(&url(""), "its certificate is not signed by a trusted authority").await;
    let wrong = good.replace(CANARY, "wr0ng");
    refused(&wrong, "refused the login of user app; correct the password").await;
    server.show(&trusted.sign("server", "DNS:elsewhere.example", 2)).await;
    refused(&good, "its certificate is for another name").await;
    let loose = good.replace("verify-full", "verify-ca");
    assert_eq!(looks(&loose).await.0, Some(0), "the name alone was wrong");
    let expired = trusted.sign("server", HERE, 0);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    server.show(&expired).await;
    refused(&good, "its certificate has expired").await;
    server.show(&trusted.sign("server", HERE, 2)).await;
    // A certificate of the client's, and none.
    let sealed = with_options(
        &stage.schema,
        &at("127.0.0.1", "sealed"),
        &format!("&sslmode=verify-full{}", ca(&trusted)),
    );
    refused(&sealed, "refused the login of user sealed").await;
    let own = trusted.sign("sealed", "DNS:sealed", 2);
    let shown = |own: &Certificate| {
        format!("{sealed}&sslcert={}&sslkey={}", own.chain.display(), own.key.display())
    };
    assert_eq!(looks(&shown(&own)).await.0, Some(0));
    let stranger = other.sign("sealed", "DNS:sealed", 2);
    let (code, said, _) = looks(&shown(&stranger)).await;
    assert!(code != Some(0) && said.lines().count() == 1, "{said}");
}

/// A broker with a listener for SCRAM over TLS, one for clients' certificates, and two whose own are of no use.
async fn broker(trusted: &Authority) -> OwnKafka {
    let listener = |name, protocol, certificate: &Certificate, more: &[(&'static str, &str)]| {
        let text = |file: &std::path::Path| file.display().to_string();
        let mut properties = vec![
            ("ssl.keystore.type", "PEM".to_owned()),
            ("ssl.keystore.location", text(&certificate.store())),
            ("ssl.truststore.type", "PEM".to_owned()),
            ("ssl.truststore.location", text(&certificate.authority)),
        ];
        properties.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
        Listener { name, protocol, properties }
    };
    let (good, elsewhere, expired) = (
        trusted.sign("server", HERE, 2),
        trusted.sign("server", "DNS:elsewhere.example", 2),
        trusted.sign("server", HERE, 0),
    );
    let scram = [
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        (
            "scram-sha-512.sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        ),
    ];
    let mutual = [("ssl.client.auth", "required")];
    let listeners = vec![
        listener("SCRAM", "SASL_SSL", &good, &scram),
        listener("MUTUAL", "SSL", &good, &mutual),
        listener("ELSEWHERE", "SSL", &elsewhere, &[]),
        listener("EXPIRED", "SSL", &expired, &[]),
    ];
    let users = vec![("app".to_owned(), CANARY.to_owned())];
    OwnKafka::start_with(KafkaSettings { listeners, users, ..KafkaSettings::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_scram_to_the_brokers_are_proved_and_named() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let kafka = broker(&trusted).await;
    let topic: Topic = kafka.topic("wire", 1).await;
    let stage = Stage::with(topic, tests::Services::from_env().schema().await).await;
    let own = trusted.sign("app", "DNS:app", 2);
    let (trusted_file, other_file) = (trusted.file(), other.file());
    let (ca, other_ca) = (trusted_file.to_str().unwrap(), other_file.to_str().unwrap());
    let (chain, key) = (own.chain.to_str().unwrap(), own.key.to_str().unwrap());
    let with = |mut command: Command, prefix: &str, listener: &str, keys: &[(&str, &str)]| {
        command.env(format!("{prefix}_KAFKA__BOOTSTRAP"), kafka.address_of(listener));
        for (name, value) in keys {
            command.env(format!("{prefix}_KAFKA__{name}"), value);
        }
        command
    };
    let scram = |ca, password| {
        [
            ("SECURITY_PROTOCOL", "sasl_ssl"),
            ("SASL_MECHANISM", "SCRAM-SHA-512"),
            ("SASL_USERNAME", "app"),
            ("SASL_PASSWORD", password),
            ("SSL_CA_LOCATION", ca),
        ]
    };
    let good = scram(ca, CANARY);
    let running = Worker::spawn(with(worker(&stage), "INBOX", "SCRAM", &good).arg("run"));
    stage.count("a", 1, 5).await;
    eventually(SOON, "all effects", async || stage.effects().await == 5).await;
    drop(running);
    let checks = async |listener: &str, keys: &[(&str, &str)]| {
        let shipping = relay(&stage.schema.url(), "", stage.topic.name());
        let (consumer, relay) = tokio::join!(
            silent(with(worker(&stage), "INBOX", listener, keys), "check"),
            silent(with(shipping, "OUTBOX", listener, keys), "check"),
        );
        [consumer, relay]
    };
    let refused = async |listener: &str, keys: &[(&str, &str)], what: &str| {
        for (code, said) in checks(listener, keys).await {
            assert!(code != Some(0) && said.contains(what), "{listener}, {what}: {said}");
        }
    };
    for (code, said) in checks("SCRAM", &good).await {
        assert_eq!(code, Some(0), "{said}");
    }
    let ssl = [("SECURITY_PROTOCOL", "ssl"), ("SSL_CA_LOCATION", ca)];
    let tls_failed = "TLS with Kafka at 127.0.0.1:";
    // Each takes the command's patience with brokers that it cannot reach. The last one speaks plaintext where TLS is
    // spoken, as somebody on the way would have it.
    let (untrusting, mistaken) = (scram(other_ca, CANARY), scram(ca, "wr0ng"));
    tokio::join!(
        refused("SCRAM", &untrusting, tls_failed),
        refused("SCRAM", &mistaken, "refuses the credentials"),
        refused("ELSEWHERE", &ssl, tls_failed),
        refused("EXPIRED", &ssl, tls_failed),
        refused("MUTUAL", &ssl, tls_failed),
        refused("SCRAM", &[("SECURITY_PROTOCOL", "plaintext")], "brokers"),
    );
    let sealed = [ssl[0], ssl[1], ("SSL_CERTIFICATE_LOCATION", chain), ("SSL_KEY_LOCATION", key)];
    for (code, said) in checks("MUTUAL", &sealed).await {
        assert_eq!(code, Some(0), "{said}");
    }
}
