//! Text in columns.

/// Rows under their heads, each column as wide as its widest cell; numbers to the right.
pub(super) fn aligned<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let number = |column: usize| {
        rows.iter().all(|row| row[column].parse::<i64>().is_ok() || row[column] == "-")
    };
    let numbers: [bool; N] = std::array::from_fn(number);
    let line = |cells: [&str; N]| {
        let columns = (0..N).map(|column| {
            let (cell, width) = (cells[column], widths[column]);
            if numbers[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        columns.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(heads)).chain(rows).collect::<Vec<_>>().join("\n")
}
