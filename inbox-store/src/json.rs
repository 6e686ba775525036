//! Lists as one parameter, for a database that knows JSON and no arrays.

use std::fmt::Write as _;

use inbox_engine::internal::LaneMove;

/// Lane moves as `[[lane,prev,new,leader_epoch],…]` for `json_each`.
pub(crate) fn moves(moves: &[LaneMove]) -> String {
    let mut json = String::with_capacity(2 + moves.len() * 32);
    for LaneMove { lane, prev, new, leader_epoch } in moves {
        json.push(if json.is_empty() { '[' } else { ',' });
        let _ = write!(json, "[{},{},{},{}]", lane.0, prev.0, new.0, leader_epoch.0);
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// Numbers as a JSON array for `json_each`.
pub(crate) fn numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    let mut json = String::new();
    for number in numbers {
        json.push(if json.is_empty() { '[' } else { ',' });
        let _ = write!(json, "{number}");
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// `[0,1,…]`: the places of a [`joined`] blob.
pub(crate) fn places(count: usize) -> String {
    numbers((0..count).filter_map(|place| i64::try_from(place).ok()))
}

/// 16-byte values in one blob; the statements cut it at the places of a JSON array.
pub(crate) fn joined<'a>(values: impl IntoIterator<Item = &'a [u8; 16]>) -> Vec<u8> {
    values.into_iter().flatten().copied().collect()
}
