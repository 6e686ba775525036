//! Text in columns.

use service_kit::cli::columns;

/// Rows under their heads, each column as wide as its widest cell; numbers to the right.
pub(super) fn aligned<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let number = |column: usize| {
        rows.iter().all(|row| row[column].parse::<i64>().is_ok() || row[column] == "-")
    };
    columns(heads, rows, std::array::from_fn(number))
}
