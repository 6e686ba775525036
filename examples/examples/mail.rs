//! A lesson on handlers in the relay's own process: no broker, no consumer, no other service.
//!
//! ```text
//! place_order ─▶ orders + outbox_events ─▶ relay ─┬ OrderPlaced ─▶ TakeFromStock ─▶ handled + stock (once per event)
//!                (one transaction)                └ MailWanted  ─▶ SendMail      ─▶ SMTP (at least once)
//! ```
//!
//! Each event goes to one handler, so an order appends two: they fail, wait and are tried again for themselves.
//! Events of one aggregate are handled one after the other. An order's mails have the address as theirs, so
//! that a mailbox that is full holds up no other one, and no order.
//!
//! # What it prints
//!
//! ```text
//! the mail server on 127.0.0.1:… is too busy for bob twice, and has no mailbox eve
//! 20 orders: each is taken from the stock … ms after its commit, by NOTIFY alone, and has its mail
//! bob's 2 mails have come in their order, after 3 attempts for the first
//! eve's mail is parked with its follower: …no such mailbox…
//! health: this relay is active, and ready, since one mailbox is nobody else's trouble; metrics: 1 row parked
//! 24 articles are taken from the stock, though 2 mails could not be sent
//! a shutdown waits for the mail that is under way: it is marked, and was sent once
//! ```

use std::time::Duration;

use examples::{Error, MailServer, RunningRelay, Services, wait_until};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
};
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{
    Relay,
    config::{Config, Route},
    destination::{Event, Handler, HandlerError, Handlers},
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

const TABLES: &str = "
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, address text NOT NULL, article text NOT NULL);
    CREATE TABLE stock (article text PRIMARY KEY, count bigint NOT NULL CHECK (count >= 0));
    INSERT INTO stock VALUES ('chair', 100);
    CREATE TABLE handled (event_id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())";

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    article: String,
}

#[derive(Serialize, Deserialize)]
struct MailWanted {
    to: String,
    subject: String,
    text: String,
}

/// The order and its events, or nothing of it. Answers its number.
async fn place_order(pool: &PgPool, address: &str, article: &str) -> Result<i64, Error> {
    let mut tx = pool.begin().await?;
    let id: i64 =
        sqlx::query_scalar("INSERT INTO orders (address, article) VALUES ($1, $2) RETURNING id")
            .bind(address)
            .bind(article)
            .fetch_one(&mut *tx)
            .await?;
    let placed = OrderPlaced { article: article.into() };
    let mail = MailWanted {
        to: address.into(),
        subject: format!("Order {id}"),
        text: format!("Thank you. We send your {article}."),
    };
    let order = Aggregate::new("Order", id.to_string())?;
    let mailbox = Aggregate::new("Mailbox", address)?;
    outbox_core::append(&mut *tx, &OutboxEvent::new("OrderPlaced", &order, &placed)?).await?;
    outbox_core::append(&mut *tx, &OutboxEvent::new("MailWanted", &mailbox, &mail)?).await?;
    tx.commit().await?;
    Ok(id)
}

/// Takes an article out of stock, once for each event.
struct TakeFromStock {
    pool: PgPool,
}

impl Handler for TakeFromStock {
    type Event = OrderPlaced;

    async fn handle(&self, event: &Event<OrderPlaced>) -> Result<(), HandlerError> {
        let mut tx = self.pool.begin().await?;
        // The id and the effect in one transaction. A relay that died before its mark sends a copy: the same id.
        let fresh =
            sqlx::query("INSERT INTO handled (event_id) VALUES ($1) ON CONFLICT DO NOTHING")
                .bind(event.envelope.event_id.uuid())
                .execute(&mut *tx)
                .await?;
        if fresh.rows_affected() == 0 {
            return Ok(());
        }
        let taken = sqlx::query("UPDATE stock SET count = count - 1 WHERE article = $1")
            .bind(&event.payload.article)
            .execute(&mut *tx)
            .await?;
        if taken.rows_affected() == 0 {
            return Err(HandlerError::reject(format!(
                "there is no article {}",
                event.payload.article
            )));
        }
        tx.commit().await?;
        Ok(())
    }
}

/// Sends a mail. A server cannot be asked whether it has one already, so a copy is sent once more, under the same
/// `Message-ID`, by which mailboxes may know it.
struct SendMail {
    from: Mailbox,
    smtp: AsyncSmtpTransport<Tokio1Executor>,
}

impl Handler for SendMail {
    type Event = MailWanted;

    async fn handle(&self, event: &Event<MailWanted>) -> Result<(), HandlerError> {
        let MailWanted { to, subject, text } = &event.payload;
        let mail = Message::builder()
            .from(self.from.clone())
            .to(to.parse().map_err(HandlerError::reject)?)
            .subject(subject)
            .message_id(Some(format!("<{}@shop.example>", event.envelope.event_id)))
            .header(ContentType::TEXT_PLAIN)
            .body(text.clone())
            .map_err(HandlerError::reject)?;
        match self.smtp.send(mail).await {
            Ok(_) => Ok(()),
            // 5xx: not this mail. The row is parked for a person.
            Err(error) if error.is_permanent() => Err(HandlerError::reject(error)),
            // 4xx: not now. Tried again, with delays that grow.
            Err(error) if error.is_transient() => Err(HandlerError::retry(error)),
            // No server: no mail's fault, so that no attempt is spent.
            Err(error) => Err(HandlerError::unavailable(error)),
        }
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let database = services.create_database("shop").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    outbox_core::migrate(&mut *pool.acquire().await?).await?;
    let mail_server = MailServer::start(|recipient, before| match recipient {
        "bob@example.org" if before < 2 => Some("451 4.3.2 too busy"),
        "eve@example.org" => Some("550 5.1.1 no such mailbox"),
        _ => None,
    })
    .await?;
    println!(
        "the mail server on {} is too busy for bob twice, and has no mailbox eve",
        mail_server.address
    );

    // Without TLS, to this process alone. Elsewhere: `AsyncSmtpTransport::relay(host)?.credentials(…)`, with one of
    // lettre's features for TLS.
    let smtp = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
        .port(mail_server.address.port())
        .timeout(Some(Duration::from_secs(20)))
        .build();
    let send_mail = SendMail { from: "Shop <shop@example.org>".parse()?, smtp };
    let handlers = Handlers::default()
        .on("OrderPlaced", TakeFromStock { pool: pool.clone() })
        .on("MailWanted", send_mail);

    let mut config = Config::default();
    config.database.url = database.as_str().into();
    config.routes = vec![Route { to: "handlers".into(), ..Route::default() }];
    // Sooner than usual, for the lesson; and the poll so seldom that only a NOTIFY can be what wakes the relay.
    config.retry.delay_min = Duration::from_millis(100);
    config.wake.poll_interval = Duration::from_mins(10);
    let relay =
        RunningRelay::start(Relay::builder(config).destination("handlers", handlers)).await?;

    let count_rows = async |condition: &'static str| {
        let sql = format!("SELECT count(*) FROM outbox_events WHERE {condition}");
        sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(sql)).fetch_one(&pool).await
    };
    let count_handled = async || {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM handled").fetch_one(&pool).await
    };

    // One after the other: the relay has nothing to do when each is placed.
    for n in 1..=20 {
        place_order(&pool, "ada@example.org", "chair").await?;
        wait_until("the chair is taken", async || Ok(count_handled().await? == n)).await?;
    }
    // From the begin of the transaction that appended to the one that handled.
    let median: f64 = sqlx::query_scalar(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM at - created_at) * 1000)
         FROM handled JOIN outbox_events USING (event_id)",
    )
    .fetch_one(&pool)
    .await?;
    wait_until("all is marked", async || Ok(count_rows("sent_at IS NULL").await? == 0)).await?;
    let subjects = |to: &str| -> Vec<String> {
        mail_server.mails(to).into_iter().map(|mail| mail.subject).collect()
    };
    let wanted: Vec<String> = (1..=20).map(|id| format!("Order {id}")).collect();
    assert_eq!(subjects("ada@example.org"), wanted);
    println!(
        "20 orders: each is taken from the stock {median:.0} ms after its commit, by NOTIFY alone, and has its mail"
    );

    // The first mail for bob is not taken at once; the second one waits for it. Nobody else does.
    let mut orders = Vec::new();
    for address in ["bob@example.org", "bob@example.org", "eve@example.org", "eve@example.org"] {
        orders.push(place_order(&pool, address, "chair").await?);
    }
    let count_parked = async |state: &'static str| {
        let sql = "SELECT count(*) FROM outbox_parked WHERE state = $1";
        sqlx::query_scalar::<_, i64>(sql).bind(state).fetch_one(&pool).await
    };
    wait_until("all but eve's two mails are sent", async || {
        let refused = count_parked("parked").await?;
        let behind = count_parked("behind").await?;
        Ok((refused, behind, count_rows("sent_at IS NULL").await?) == (1, 1, 2))
    })
    .await?;
    let wanted: Vec<String> = orders[..2].iter().map(|id| format!("Order {id}")).collect();
    assert_eq!(subjects("bob@example.org"), wanted);
    assert_eq!(mail_server.attempts("bob@example.org"), 4);
    println!("bob's 2 mails have come in their order, after 3 attempts for the first");
    // A person decides on it: `outbox-relay failed retry` or `discard`.
    let error: String =
        sqlx::query_scalar("SELECT error FROM outbox_parked WHERE state = 'parked'")
            .fetch_one(&pool)
            .await?;
    assert_eq!(mail_server.attempts("eve@example.org"), 1);
    println!("eve's mail is parked with its follower: {error}");
    // A service with a port of its own mounts both: `readings.readiness()` and `readings.prometheus()`.
    wait_until("the metrics tell of it", async || {
        let text = relay.readings.prometheus();
        Ok(text
            .lines()
            .any(|line| line.starts_with("outbox_set_aside_rows{") && line.ends_with(" 1")))
    })
    .await?;
    let health = relay.readings.readiness();
    assert!(health.ready, "{health:?}");
    println!(
        "health: {}, and ready, since one mailbox is nobody else's trouble; metrics: 1 row parked",
        health.sentence
    );
    let left: i64 = sqlx::query_scalar("SELECT count FROM stock").fetch_one(&pool).await?;
    assert_eq!(left, 76);
    println!("{} articles are taken from the stock, though 2 mails could not be sent", 100 - left);

    // The server has a mail and has not answered yet when the relay is asked to end.
    let held_back = mail_server.answers.write().await;
    place_order(&pool, "cleo@example.org", "chair").await?;
    wait_until("the mail is under way", async || Ok(subjects("cleo@example.org").len() == 1))
        .await?;
    let stopping = tokio::spawn(relay.stop());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!stopping.is_finished(), "it waits for the answer");
    drop(held_back);
    stopping.await??;
    assert_eq!(count_rows("sent_at IS NULL").await?, 2, "eve's alone");
    assert_eq!(subjects("cleo@example.org").len(), 1);
    println!("a shutdown waits for the mail that is under way: it is marked, and was sent once");
    pool.close().await;
    services.clean_up().await
}
