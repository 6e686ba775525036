//! The story: a broker, consumers that come and go, and what the database says in the end.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use inbox_consumer::testing::broker::{MockBroker, Producer};
use indicatif::{ProgressBar, ProgressStyle};
use outbox_core::{Aggregate, OutboxEvent};
use sqlx::Sqlite;
use tokio::process::{Child, Command};

use crate::{
    consumer::{self, Deposited},
    ledger::{Ledger, Sent, Verdict},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TOPIC: &str = "deposits";
const PARTITIONS: u16 = 6;
const ACCOUNTS: i64 = 40;
const PER_ACCOUNT: i64 = 75;
/// One event in so many is sent a second time.
const COPY_EVERY: i64 = 20;
/// The story ends in any case.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells the story; answers whether the promise was kept.
pub(crate) async fn tell() -> Result<bool, Error> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("ledger.db").display().to_string();
    let broker = MockBroker::start(&[(TOPIC, PARTITIONS)])?;
    println!("A Kafka broker runs inside this process: topic `{TOPIC}`, {PARTITIONS} partitions.");
    let ledger = Ledger::create(&database, ACCOUNTS).await?;
    inbox_consumer::migrate::<Sqlite>(&consumer::config(&broker.bootstrap(), &database)).await?;
    println!("An SQLite file holds accounts, deposits and the inbox.");
    let sent = send(&broker).await?;
    println!(
        "Sent {} records: {} deposits to {} accounts, {} of them twice.\n",
        sent.total,
        sent.accounts * sent.per_account,
        sent.accounts,
        sent.copies
    );
    let began = Instant::now();
    let verdict = consume(&broker.bootstrap(), &database, &ledger, &sent).await?;
    Ok(table(&verdict, &sent, began.elapsed()))
}

async fn send(broker: &MockBroker) -> Result<Sent, Error> {
    let producer = Producer::new(&broker.bootstrap())?;
    let mut sent = Sent { accounts: ACCOUNTS, per_account: PER_ACCOUNT, copies: 0, total: 0 };
    for n in 1..=PER_ACCOUNT {
        // One event of each account at a time, so that the order within an account is ours.
        let mut records = Vec::new();
        for account in 0..ACCOUNTS {
            let aggregate = Aggregate::new("Account", account.to_string())?;
            let payload = Deposited { n, amount: 1 + (n * account) % 9 };
            let record = OutboxEvent::new("Deposited", &aggregate, &payload)?.record();
            if (n * ACCOUNTS + account) % COPY_EVERY == 0 {
                sent.copies += 1;
                records.push(record.clone());
            }
            records.push(record);
        }
        sent.total += i64::try_from(records.len())?;
        let acknowledged = records.iter().map(|record| producer.send(TOPIC, record));
        futures::future::try_join_all(acknowledged).await?;
    }
    Ok(sent)
}

async fn consume(
    bootstrap: &str,
    database: &str,
    ledger: &Ledger,
    sent: &Sent,
) -> Result<Verdict, Error> {
    let goal = sent.accounts * sent.per_account;
    let bar = ProgressBar::new(goal.unsigned_abs());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} effects  {msg}")?);
    let mut first = start(bootstrap, database)?;
    tell_line(&bar, &format!("Consumer 1 starts (process {}).", id(&first)));
    reach(ledger, &bar, goal / 4).await?;
    // The real thing: `kill -9`, in the middle of whatever it is doing.
    let killed = id(&first);
    first.kill().await?;
    tell_line(&bar, &format!("kill -9 {killed}: consumer 1 is dead in the middle of its work."));
    let mut second = start(bootstrap, database)?;
    tell_line(&bar, &format!("Consumer 2 starts (process {}) and takes over.", id(&second)));
    reach(ledger, &bar, goal / 2).await?;
    let mut third = start(bootstrap, database)?;
    tell_line(&bar, &format!("Consumer 3 joins (process {}): a rebalance.", id(&third)));
    reach(ledger, &bar, goal).await?;
    // Copies still in the log would show as doubled effects now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    bar.set_position(ledger.effects().await?.unsigned_abs());
    bar.finish();
    second.kill().await?;
    third.kill().await?;
    Ok(ledger.verdict(sent).await?)
}

fn tell_line(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { println!("{line}") } else { bar.println(line) }
}

fn id(child: &Child) -> u32 {
    child.id().unwrap_or_default()
}

fn start(bootstrap: &str, database: &str) -> Result<Child, Error> {
    let child = Command::new(std::env::current_exe()?)
        .args([consumer::COMMAND, bootstrap, database])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

/// Waits until that many effects are in the database.
async fn reach(ledger: &Ledger, bar: &ProgressBar, goal: i64) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        let effects = ledger.effects().await?;
        bar.set_position(effects.unsigned_abs());
        if effects >= goal {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(
                format!("after {seconds} s only {effects} of {goal} effects are there").into()
            );
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
    println!("\n{} processes had a part in it, in {seconds:.1} s.", verdict.processes);
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
