//! The story: a shop, a relay, a broker, consumers that come and go, and what the database says in the end.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use inbox_consumer::testing::broker::MockBroker;
use indicatif::{ProgressBar, ProgressStyle};
use sqlx::Sqlite;
use tokio::process::{Child, Command};

use crate::{
    consumer,
    ledger::{Ledger, Sent, Verdict},
    relay,
    shop::Shop,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TOPIC: &str = "deposits";
const PARTITIONS: u16 = 6;
const ACCOUNTS: i64 = 40;
const PER_ACCOUNT: i64 = 75;
/// One of the shop's transactions in so many is rolled back, and tried again.
const ROLLBACK_EVERY: i64 = 15;
/// How long nothing may happen: the story ends in any case.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where everything is.
struct Stage {
    bootstrap: String,
    shop: String,
    ledger: String,
}

/// Tells the story; answers whether the promise was kept.
pub(crate) async fn tell() -> Result<bool, Error> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let broker = MockBroker::start(&[(TOPIC, PARTITIONS)])?;
    println!("A Kafka broker runs inside this process: topic `{TOPIC}`, {PARTITIONS} partitions.");
    let stage =
        Stage { bootstrap: broker.bootstrap(), shop: file("shop.db"), ledger: file("ledger.db") };
    let mut shop = Shop::open(&stage.shop).await?;
    println!(
        "A shop has an SQLite file: requests, and an outbox for the events that tell of them."
    );
    let ledger = Ledger::create(&stage.ledger, ACCOUNTS).await?;
    inbox_consumer::migrate::<Sqlite>(&consumer::config(&stage.bootstrap, &stage.ledger)).await?;
    println!("A ledger has another: accounts, deposits, and the inbox.\n");
    let began = Instant::now();
    let (verdict, sent) = happen(&stage, &mut shop, &ledger).await?;
    Ok(table(&verdict, &sent, began.elapsed()))
}

async fn happen(stage: &Stage, shop: &mut Shop, ledger: &Ledger) -> Result<(Verdict, Sent), Error> {
    let goal = ACCOUNTS * PER_ACCOUNT;
    let bar = ProgressBar::new(goal.unsigned_abs());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} effects  {msg}")?);
    let mut relay = start(relay::COMMAND, &stage.bootstrap, &stage.shop)?;
    tell_line(&bar, &format!("The relay starts (process {}).", id(&relay)));
    let mut first = start(consumer::COMMAND, &stage.bootstrap, &stage.ledger)?;
    tell_line(&bar, &format!("Consumer 1 starts (process {}).", id(&first)));
    sell(shop, 1, PER_ACCOUNT / 3).await?;
    shop.empty().await?;
    let copies = kill_relay(stage, shop, &mut relay, &bar).await?;
    sell(shop, PER_ACCOUNT / 3 + 2, PER_ACCOUNT).await?;
    reach(ledger, &bar, goal / 3).await?;
    // The real thing: `kill -9`, in the middle of whatever it is doing.
    let killed = id(&first);
    first.kill().await?;
    tell_line(&bar, &format!("kill -9 {killed}: consumer 1 is dead in the middle of its work."));
    let second = start(consumer::COMMAND, &stage.bootstrap, &stage.ledger)?;
    tell_line(&bar, &format!("Consumer 2 starts (process {}) and takes over.", id(&second)));
    reach(ledger, &bar, goal / 2).await?;
    let third = start(consumer::COMMAND, &stage.bootstrap, &stage.ledger)?;
    tell_line(&bar, &format!("Consumer 3 joins (process {}): a rebalance.", id(&third)));
    reach(ledger, &bar, goal).await?;
    // Copies still in the log would show as doubled effects now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    bar.set_position(ledger.effects().await?.unsigned_abs());
    bar.finish();
    for mut child in [relay, second, third] {
        child.kill().await?;
    }
    let sent = Sent { accounts: ACCOUNTS, per_account: PER_ACCOUNT, copies };
    Ok((ledger.verdict(&sent).await?, sent))
}

/// Deposits `from..=to` of every account, with a transaction now and then that is rolled back.
async fn sell(shop: &mut Shop, from: i64, to: i64) -> Result<(), Error> {
    for n in from..=to {
        if n % ROLLBACK_EVERY == 0 {
            shop.deposit(n, ACCOUNTS, false).await?;
        }
        shop.deposit(n, ACCOUNTS, true).await?;
    }
    Ok(())
}

/// `kill -9` at the worst moment: Kafka has acknowledged, the outbox does not know it. Answers how many
/// events the next relay sends once more.
async fn kill_relay(
    stage: &Stage,
    shop: &mut Shop,
    relay: &mut Child,
    bar: &ProgressBar,
) -> Result<i64, Error> {
    let killed = id(relay);
    shop.deposit(PER_ACCOUNT / 3 + 1, ACCOUNTS, true).await?;
    let copies = shop.caught(relay.kill()).await?;
    tell_line(
        bar,
        &format!(
            "kill -9 {killed}: the relay is dead; Kafka has {copies} events that it had not marked."
        ),
    );
    *relay = start(relay::COMMAND, &stage.bootstrap, &stage.shop)?;
    tell_line(bar, &format!("Another relay starts (process {}) and sends them again.", id(relay)));
    Ok(copies)
}

fn tell_line(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { println!("{line}") } else { bar.println(line) }
}

fn id(child: &Child) -> u32 {
    child.id().unwrap_or_default()
}

fn start(command: &str, bootstrap: &str, database: &str) -> Result<Child, Error> {
    let child = Command::new(std::env::current_exe()?)
        .args([command, bootstrap, database])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

/// Waits until that many effects are in the database.
async fn reach(ledger: &Ledger, bar: &ProgressBar, goal: i64) -> Result<(), Error> {
    let mut last = (0, Instant::now());
    loop {
        let effects = ledger.effects().await?;
        if effects > last.0 {
            last = (effects, Instant::now());
        }
        bar.set_position(effects.unsigned_abs());
        if effects >= goal {
            return Ok(());
        }
        if last.1.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(format!(
                "{effects} of {goal} effects are there, and no more have come for {seconds} s"
            )
            .into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Prints what the database says; answers whether all of it is as it must be.
fn table(verdict: &Verdict, sent: &Sent, took: Duration) -> bool {
    let expected = sent.accounts * sent.per_account;
    let amounts =
        (1..=sent.per_account).flat_map(|n| (0..sent.accounts).map(move |a| 1 + (n * a) % 9));
    let rows = [
        ("effects in the database", verdict.effects, expected),
        ("lost", verdict.lost, 0),
        ("doubled", verdict.doubled, 0),
        ("out of order", verdict.out_of_order, 0),
        ("sum of all balances", verdict.balance, amounts.sum()),
    ];
    println!("\n{:<26}{:>10}{:>10}", "read from the database", "found", "expected");
    let mut kept = true;
    for (name, found, wanted) in rows {
        let right = found == wanted;
        kept &= right;
        println!("{name:<26}{found:>10}{wanted:>10}  {}", if right { "ok" } else { "WRONG" });
    }
    let seconds = took.as_secs_f64();
    println!(
        "\n{} of the events were in Kafka twice; {} consumers had a part in it, in {seconds:.1} s.",
        sent.copies, verdict.processes
    );
    println!(
        "{}",
        if kept {
            "Each effect happened exactly once, in order."
        } else {
            "THE PROMISE WAS BROKEN."
        }
    );
    kept
}
