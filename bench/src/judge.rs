//! A run is right if every event had its effect once, in the order of its account.

use xtask::failure::{Outcome, failure};

use crate::candidate::Inbox;
use crate::plan::Expected;
use crate::server::Database;

/// How many wrong accounts are named.
const NAMED_MAX: usize = 5;

/// Compares the database with what the plan comes to.
/// `grown` rows were in the inbox before.
pub(crate) async fn judge(
    database: &Database,
    inbox: Inbox,
    grown: u64,
    expected: &Expected,
) -> Outcome {
    let mut wrong = accounts(database, expected).await?;
    let (table, parked) = match inbox {
        Inbox::Plain => ("inbox", 0),
        Inbox::Ours => ("inbox_events", count(database, "inbox_parked").await?),
        Inbox::None => return Ok(()),
    };
    let grown = i64::try_from(grown).unwrap_or(i64::MAX);
    let claimed = count(database, table).await? - grown;
    if claimed != expected.distinct {
        wrong.push(format!("the inbox has {claimed} rows for {} events", expected.distinct));
    }
    if parked > 0 {
        wrong.push(format!("{parked} events are parked"));
    }
    if wrong.is_empty() { Ok(()) } else { failure(format!("WRONG RESULT: {}", wrong.join("; "))) }
}

async fn accounts(database: &Database, expected: &Expected) -> Outcome<Vec<String>> {
    let mut found = vec![(0, 0); expected.accounts.len()];
    let mut wrong = Vec::new();
    for row in database
        .rows("SELECT account, balance, events, last_sequence, disorder FROM accounts")
        .await?
    {
        let [account, balance, events, last, disorder]: [i64; 5] =
            std::array::from_fn(|column| row.get(column));
        if disorder != 0 || last != events {
            wrong.push(format!(
                "account {account} took {disorder} of {events} events out of order, the last was {last}"
            ));
        }
        match usize::try_from(account).ok().and_then(|account| found.get_mut(account)) {
            Some(place) => *place = (balance, events),
            None => wrong.push(format!("nobody paid to account {account}")),
        }
    }
    let pairs = found.iter().zip(&expected.accounts).enumerate();
    wrong.extend(pairs.filter(|(_, (found, expected))| found != expected).map(
        |(account, (found, expected))| {
            format!("account {account} has (balance, events) {found:?} instead of {expected:?}")
        },
    ));
    let more = wrong.len().saturating_sub(NAMED_MAX);
    wrong.truncate(NAMED_MAX);
    if more > 0 {
        wrong.push(format!("{more} more accounts"));
    }
    Ok(wrong)
}

async fn count(database: &Database, table: &str) -> Outcome<i64> {
    Ok(database.row(&format!("SELECT count(*) FROM {table}")).await?.get(0))
}
