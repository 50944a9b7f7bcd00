//! Counts per upload, and a table of two builds.

use std::collections::BTreeMap;
use std::fmt;

/// Totals of one life of the server, by name.
pub(crate) type Totals = BTreeMap<&'static str, u64>;

/// Counts per upload, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, f64>);

impl Counts {
    /// Counts per upload, from the totals of two lives that differ by this number of uploads.
    pub(crate) fn each(less: &Totals, more: &Totals, uploads: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let float = |count: u64| count as f64;
        let each = more.iter().map(|(name, more)| {
            let less = less.get(name).copied().unwrap_or_default();
            (*name, (float(*more) - float(less)) / float(uploads))
        });
        Self(each.collect())
    }
}

/// A table of two builds.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

/// One count of a scenario: the medians over all rounds.
#[derive(Debug)]
struct Row {
    scenario: &'static str,
    name: &'static str,
    before: f64,
    now: f64,
}

impl Table {
    /// Adds the counts of a scenario, a list of rounds for each build.
    pub(crate) fn add(&mut self, scenario: &'static str, before: &[Counts], now: &[Counts]) {
        let names = now.iter().flat_map(|counts| counts.0.keys().copied());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        self.0.extend(names.into_iter().map(|name| Row {
            scenario,
            name,
            before: median(before, name),
            now: median(now, name),
        }));
    }
}

fn median(rounds: &[Counts], name: &str) -> f64 {
    let values = rounds.iter().filter_map(|counts| counts.0.get(name));
    let mut values: Vec<_> = values.copied().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scenario, name) = ("scenario", "per upload");
        let (before, now, difference) = ("before", "now", "difference");
        writeln!(
            f,
            "{scenario:<16}{name:<18}{before:>14}{now:>14}{difference:>14}"
        )?;
        for row in &self.0 {
            let Row {
                scenario,
                name,
                before,
                now,
            } = row;
            let difference = now - before;
            writeln!(
                f,
                "{scenario:<16}{name:<18}{before:>14.2}{now:>14.2}{difference:>+14.2}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_work_cancels_out_and_the_median_of_the_rounds_is_shown() {
        let each = |less, more| {
            Counts::each(
                &Totals::from([("syncs", less)]),
                &Totals::from([("syncs", more)]),
                4,
            )
        };
        let mut table = Table::default();
        let before = [each(10, 18), each(10, 1000), each(0, 4)];
        table.add("one", &before, &[each(10, 16)]);
        let shown = table.to_string();
        let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["one", "syncs", "2.00", "1.50", "-0.50"]);
    }
}
