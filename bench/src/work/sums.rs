//! Deposits of a batch, summed up per account: what a statement for many accounts is given.

use std::collections::HashMap;

use super::record::Deposited;

/// A column for each parameter of the statement, a row per account.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) accounts: Vec<i64>,
    pub(super) balances: Vec<i64>,
    pub(super) events: Vec<i64>,
    pub(super) last_sequences: Vec<i64>,
    pub(super) disorder: Vec<i64>,
}

impl Sums {
    /// Of deposits in their order.
    pub(super) fn of<'d>(deposits: impl Iterator<Item = &'d Deposited>) -> Self {
        let mut sums = Self::default();
        let mut rows: HashMap<i64, usize> = HashMap::new();
        for deposited in deposits {
            let row = *rows.entry(deposited.account).or_insert_with(|| sums.row(deposited));
            sums.add(row, deposited);
        }
        sums
    }

    /// Row by row: account, balance, events, last sequence, disorder.
    pub(super) fn rows(&self) -> Vec<[i64; 5]> {
        let Self { accounts, balances, events, last_sequences, disorder } = self;
        let row =
            |at: usize| [accounts[at], balances[at], events[at], last_sequences[at], disorder[at]];
        (0..accounts.len()).map(row).collect()
    }

    /// A new row, as if the deposit before this one had been the last.
    fn row(&mut self, deposited: &Deposited) -> usize {
        self.accounts.push(deposited.account);
        self.balances.push(0);
        self.events.push(0);
        self.last_sequences.push(deposited.sequence - 1);
        self.disorder.push(0);
        self.accounts.len() - 1
    }

    fn add(&mut self, row: usize, deposited: &Deposited) {
        self.balances[row] += deposited.amount;
        self.events[row] += 1;
        self.disorder[row] += i64::from(deposited.sequence != self.last_sequences[row] + 1);
        self.last_sequences[row] = deposited.sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_follow_is_counted() {
        let of = |account, sequence| Deposited { account, amount: 10, sequence };
        let sums = Sums::of([of(1, 4), of(2, 1), of(1, 5), of(2, 3)].iter());
        assert_eq!(sums.accounts, [1, 2]);
        assert_eq!((sums.balances, sums.events), (vec![20, 20], vec![2, 2]));
        assert_eq!((sums.last_sequences, sums.disorder), (vec![5, 3], vec![0, 1]));
    }
}
