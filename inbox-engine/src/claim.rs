//! What a batch claims: distinct ids, sorted.

use crate::{Item, Rule};

/// The ids of a batch, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distinct {
    /// Items to claim, by id bytes: transactions that lock ids in one order do not deadlock (B14).
    pub claimed: Vec<usize>,
    /// Items whose id an earlier delivery of the batch has: `(copy, first)`.
    pub copies: Vec<(usize, usize)>,
}

/// Makes the ids of a batch distinct before the claim (finding 8): the delivery with the lowest
/// offset, across lanes, is the first, the others settle with it. `wanted` leaves items out.
pub fn distinct<T>(items: &[Item<T>], wanted: impl Fn(&Item<T>) -> bool) -> Distinct {
    let mut claimed: Vec<usize> = (0..items.len()).filter(|i| wanted(&items[*i])).collect();
    if Rule::ClaimSorted.on() {
        claimed.sort_unstable_by_key(|i| (items[*i].id, items[*i].offset));
    }
    let mut copies = Vec::new();
    if Rule::DistinctIds.on() {
        let mut first = usize::MAX;
        claimed.retain(|&i| {
            let copy = first != usize::MAX && items[first].id == items[i].id;
            if copy {
                copies.push((i, first));
            } else {
                first = i;
            }
            !copy
        });
    }
    Distinct { claimed, copies }
}
