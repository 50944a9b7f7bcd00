//! The table of a scenario.

use crate::amount::{figure, mib};
use crate::contestant::Role;
use crate::record::{Entry, Measured, Measurement};
use crate::scenario::Unit;

const NOTHING: &str = "–";

/// The table in Markdown, in columns that line up: medians of all rounds, and medians of the ratios inside the rounds.
pub(crate) fn of(measured: &Measured) -> String {
    let rows = measured.entries.iter();
    let rows = rows.filter_map(|entry| row(measured, entry));
    let rows: Vec<_> = std::iter::once(titles(measured.unit)).chain(rows).collect();
    lined_up(&rows)
}

fn titles(unit: Unit) -> Vec<String> {
    let titles = [
        "",
        "durable",
        unit.name(),
        "lowest to highest",
        "of the floor",
        "of the best peer",
        unit.work_name(),
        "MiB",
        "p50 ms",
        "p99 ms",
        "max ms",
    ];
    titles.map(str::to_owned).into()
}

/// None when no round of it counts.
fn row(measured: &Measured, entry: &Entry) -> Option<Vec<String>> {
    let (lowest, highest) = entry.range()?;
    let median = |of: fn(&Measurement) -> f64| or_nothing(entry.median(of), figure);
    let ratio = |role| or_nothing(measured.ratio(entry, role), |ratio| format!("{ratio:.2}"));
    Some(vec![
        entry.name.clone(),
        if entry.durable { "yes" } else { "no" }.to_owned(),
        median(|one| one.rate),
        format!("{} to {}", figure(lowest), figure(highest)),
        ratio(Role::Reference),
        ratio(Role::Peer),
        median(|one| one.cpu),
        median(|one| mib(one.peak)),
        median(|one| one.quantiles[0] * 1000.0),
        median(|one| one.quantiles[1] * 1000.0),
        median(|one| one.quantiles[2] * 1000.0),
    ])
}

fn or_nothing(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), shown)
}

/// Rows of cells as Markdown. The first row is the head.
fn lined_up(rows: &[Vec<String>]) -> String {
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
    fn columns_line_up() {
        let rows = [["", "one"], ["longer", "2"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "|        | one |\n| ------ | --- |\n| longer | 2   |\n";
        assert_eq!(lined_up(&rows), expected);
    }
}
