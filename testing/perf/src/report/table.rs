//! The table of a scenario.

use crate::contestant::Role;
use crate::record::{Entry, Measured};
use crate::units::figure;

const NOTHING: &str = "–";

/// The table of the entries that `shown` selects, in Markdown, in columns that line up: medians of
/// all rounds, and medians of the ratios inside the rounds.
pub(crate) fn of(measured: &Measured, shown: impl Fn(&Entry) -> bool) -> String {
    let rows = measured.entries.iter().filter(|entry| shown(entry));
    let rows = rows.filter_map(|entry| row(measured, entry));
    let mut rows: Vec<_> = std::iter::once(titles(measured)).chain(rows).collect();
    drop_empty(&mut rows);
    lined_up(&rows)
}

fn titles(measured: &Measured) -> Vec<String> {
    let main = measured.main_figure();
    let columns = ["", main.name(), "range", "of the floor"];
    let others = measured.figures.iter().skip(1).map(|figure| figure.name());
    columns
        .into_iter()
        .chain(others)
        .map(str::to_owned)
        .collect()
}

/// None when no round of it counts.
fn row(measured: &Measured, entry: &Entry) -> Option<Vec<String>> {
    let main = measured.main_figure();
    let (lowest, highest) = entry.range(main)?;
    let median = |of| or_nothing(entry.median(of), figure);
    let ratio = measured.ratio(main, entry, |other| other.role == Role::Reference);
    let columns = [
        entry.name.clone(),
        median(main),
        format!("{}–{}", figure(lowest), figure(highest)),
        or_nothing(ratio, |ratio| format!("{ratio:.2}")),
    ];
    let others = measured.figures.iter().skip(1);
    Some(
        columns
            .into_iter()
            .chain(others.map(|of| median(*of)))
            .collect(),
    )
}

/// Takes out columns in which nothing stands.
fn drop_empty(rows: &mut [Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    for column in (0..columns).rev() {
        let mut cells = rows.iter().skip(1).map(|row| &row[column]);
        if cells.all(|cell| cell == NOTHING) {
            for row in &mut *rows {
                row.remove(column);
            }
        }
    }
}

fn or_nothing(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), shown)
}

/// Rows of cells as Markdown. The first row is the head.
pub(crate) fn lined_up(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(3)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths);
        let cells = cells.map(|(cell, &width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: Vec<_> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut lines = rows.iter().map(|row| line(row));
    let head = lines.next().unwrap_or_default();
    format!("{head}{}{}", line(&rule), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_says_nothing_is_left_out() {
        let rows = [["", "a", "b"], ["x", NOTHING, "1"], ["y", NOTHING, NOTHING]];
        let mut rows = rows.map(|row| row.map(str::to_owned).to_vec());
        drop_empty(&mut rows);
        assert_eq!(rows, [["", "b"], ["x", "1"], ["y", NOTHING]]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["", "one"], ["longer", "2"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "|        | one |\n| ------ | --- |\n| longer | 2   |\n";
        assert_eq!(lined_up(&rows), expected);
    }
}
