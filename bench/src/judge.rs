//! A run is right if every event had its effect once, in the order of its account.

use xtask::failure::{Outcome, failure};

use crate::candidate::Inbox;
use crate::plan::Expected;
use crate::scenario::{Case, Traffic};
use crate::server::Database;

/// How many wrong accounts are named.
const NAMED_MAX: usize = 5;

/// What was found in a database after a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Account, balance, events, last sequence, disorder of each row.
    pub(crate) accounts: Vec<[i64; 5]>,
    /// Rows of the inbox.
    pub(crate) claimed: i64,
    /// Parked events.
    pub(crate) parked: i64,
}

/// Compares the database with what the plan comes to.
pub(crate) async fn judge(
    database: &Database,
    inbox: Inbox,
    case: &Case,
    expected: &Expected,
) -> Outcome {
    let parked = match inbox {
        Inbox::None => return Ok(()),
        Inbox::Plain => 0,
        Inbox::Ours => count(database, "inbox_parked").await?,
    };
    let sql = "SELECT account, balance, events, last_sequence, disorder FROM accounts";
    let rows = database.rows(sql).await?;
    let accounts = rows.iter().map(|row| std::array::from_fn(|column| row.get(column))).collect();
    let grown = i64::try_from(case.grown).unwrap_or(i64::MAX);
    let claimed = match case.traffic {
        // Most rows are pruned.
        Traffic::Steady(_) => expected.distinct,
        _ => count(database, inbox.table()?).await? - grown,
    };
    verdict(&Found { accounts, claimed, parked }, expected)
}

/// Fails with what is wrong.
pub(crate) fn verdict(found: &Found, expected: &Expected) -> Outcome {
    let mut wrong = Vec::new();
    if found.claimed != expected.distinct {
        wrong
            .push(format!("the inbox has {} rows for {} events", found.claimed, expected.distinct));
    }
    if found.parked > 0 {
        wrong.push(format!("{} events are parked", found.parked));
    }
    wrong.extend(wrong_accounts(&found.accounts, expected));
    let more = wrong.len().saturating_sub(NAMED_MAX);
    wrong.truncate(NAMED_MAX);
    if more > 0 {
        wrong.push(format!("{more} more"));
    }
    if wrong.is_empty() { Ok(()) } else { failure(format!("WRONG RESULT: {}", wrong.join("; "))) }
}

fn wrong_accounts(rows: &[[i64; 5]], expected: &Expected) -> Vec<String> {
    let mut found = vec![(0, 0); expected.accounts.len()];
    let mut wrong = Vec::new();
    for &[account, balance, events, last, disorder] in rows {
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
    let differ = pairs.filter(|(_, (found, expected))| found != expected);
    wrong.extend(differ.map(|(account, (found, expected))| {
        format!("account {account} has (balance, events) {found:?} instead of {expected:?}")
    }));
    wrong
}

async fn count(database: &Database, table: &str) -> Outcome<i64> {
    Ok(database.row(&format!("SELECT count(*) FROM {table}")).await?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    /// The plan's result, changed.
    fn judged(change: impl FnOnce(&mut Found)) -> Option<String> {
        let expected = Plan { accounts: 10, ..Plan::of(2_000) }.expected();
        let rows = (0..).zip(&expected.accounts);
        let accounts = rows.map(|(account, (sum, number))| [account, *sum, *number, *number, 0]);
        let mut found =
            Found { accounts: accounts.collect(), claimed: expected.distinct, parked: 0 };
        change(&mut found);
        verdict(&found, &expected).err().map(|failure| failure.0)
    }

    #[test]
    fn a_right_result_is_right() {
        assert_eq!(judged(|_| ()), None);
    }

    #[test]
    fn each_wrong_result_is_found() {
        let says = |change: fn(&mut Found), words: &str| {
            let said = judged(change).unwrap_or_default();
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        };
        says(|found| found.claimed += 1, "the inbox has");
        says(|found| found.parked = 1, "1 events are parked");
        says(|found| found.accounts[3][1] += 1, "account 3 has");
        says(|found| found.accounts[3][2] += 1, "account 3 has");
        says(|found| found.accounts[4][3] -= 1, "account 4 took 0 of");
        says(|found| found.accounts[5][4] = 2, "account 5 took 2 of");
        says(|found| found.accounts.truncate(9), "account 9 has (balance, events) (0, 0)");
        says(|found| found.accounts[0][0] = 10, "nobody paid to account 10");
    }
}
