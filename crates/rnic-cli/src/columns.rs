//! Rows of text as lines with aligned columns.

/// Lines of text, one for each row, in which columns are aligned and two spaces apart. `is_right` says whether a column
/// is aligned to the right. Rows may have different numbers of cells.
pub(crate) fn aligned<R: AsRef<[String]>>(rows: &[R], is_right: impl Fn(usize) -> bool) -> Vec<String> {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.as_ref().get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &R| {
        let cells =
            row.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, width))| match is_right(column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}
