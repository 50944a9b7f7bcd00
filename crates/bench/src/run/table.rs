//! The table of a scenario.

use crate::amount::{figure, mib};
use crate::contestant::{Contestant, Role};
use crate::scenario::{Scenario, Unit};

use super::results::Results;

const NOTHING: &str = "–";

/// What the columns are called.
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

/// The table in Markdown, in columns that line up: medians of all rounds, and medians of the ratios inside the rounds.
pub(super) fn of(scenario: &Scenario, contestants: &[Contestant], results: &Results) -> String {
    let of_role = |role| {
        let those = contestants.iter().filter(move |one| one.role == role);
        those.map(|one| one.name.as_str()).collect::<Vec<_>>()
    };
    let (floor, peers) = (of_role(Role::Reference), of_role(Role::Peer));
    let mut rows = vec![titles(scenario.unit)];
    for one in contestants {
        rows.extend(row(one, results, &floor, &peers));
    }
    format!(
        "\n{}: {}\n\n{}",
        scenario.name,
        scenario.title,
        lined_up(&rows)
    )
}

/// None when no round of it counts.
fn row(one: &Contestant, results: &Results, floor: &[&str], peers: &[&str]) -> Option<Vec<String>> {
    let rates = results.each(&one.name, |measurement| measurement.rate);
    let lowest = rates.iter().copied().min_by(f64::total_cmp)?;
    let highest = rates.iter().copied().max_by(f64::total_cmp)?;
    let median = |of: fn(&super::Measurement) -> f64| {
        results
            .median(&one.name, of)
            .map_or_else(|| NOTHING.to_owned(), figure)
    };
    let ratio = |others: &[&str]| {
        results
            .ratio(&one.name, others)
            .map_or_else(|| NOTHING.to_owned(), |ratio| format!("{ratio:.2}"))
    };
    Some(vec![
        one.name.clone(),
        if one.durable { "yes" } else { "no" }.to_owned(),
        median(|one| one.rate),
        format!("{} to {}", figure(lowest), figure(highest)),
        ratio(floor),
        ratio(peers),
        median(|one| one.cpu),
        median(|one| mib(one.peak)),
        median(|one| one.quantiles[0].as_secs_f64() * 1000.0),
        median(|one| one.quantiles[1].as_secs_f64() * 1000.0),
        median(|one| one.quantiles[2].as_secs_f64() * 1000.0),
    ])
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
