//! Compares two builds of ours.

use crate::contestant::Role;
use crate::record::{Entry, Measured};
use crate::units::figure;

use super::table;

/// A table of all figures of two builds: medians, and the median of the ratios inside the rounds.
/// None when only one was measured.
pub(crate) fn of(scenarios: &[Measured]) -> Option<String> {
    let head = ["", "", "before", "now", "now / before"];
    let rows: Vec<_> = scenarios.iter().flat_map(of_scenario).collect();
    let head = head.map(str::to_owned).to_vec();
    (!rows.is_empty()).then(|| table::lined_up(&[vec![head], rows].concat()))
}

fn of_scenario(measured: &Measured) -> Vec<Vec<String>> {
    let of_role = |role| {
        let entries = measured.entries.iter();
        entries.filter(move |entry| entry.role == role && entry.durable)
    };
    // Both builds have the same parts in the same order. Only our build also has yardsticks.
    let pairs = of_role(Role::Baseline).filter_map(|before| {
        let now = of_role(Role::Ours).find(|now| part(now) == part(before))?;
        Some((before, now))
    });
    pairs
        .flat_map(|(before, now)| of_pair(measured, before, now))
        .collect()
}

/// The fixture or shape of an entry, if its scenario has several.
fn part(entry: &Entry) -> Option<&str> {
    entry.name.split_once(", ").map(|(_, part)| part)
}

fn of_pair(measured: &Measured, before: &Entry, now: &Entry) -> Vec<Vec<String>> {
    let suffix = part(now).map_or_else(String::new, |part| format!(", {part}"));
    let row = |of: &crate::figure::Figure| {
        let ratio = measured.ratio(*of, now, |other| other.name == before.name)?;
        Some(vec![
            format!("{}{suffix}", measured.name),
            of.name().to_owned(),
            figure(before.median(*of)?),
            figure(now.median(*of)?),
            format!("{ratio:.3}"),
        ])
    };
    measured.figures.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::record::tests::measured;

    #[test]
    fn parts_of_both_builds_are_held_against_each_other_round_by_round() {
        let baseline = [(0, 10.0), (1, 100.0), (2, 10.0)];
        let mut measured = measured(&[
            ("windlass, empty", Role::Ours, &[(0, 1.0), (1, 100.0)]),
            (
                "windlass, 10 there",
                Role::Ours,
                &[(0, 5.0), (1, 50.0), (2, 20.0)],
            ),
            ("windlass before, 10 there", Role::Baseline, &baseline),
            ("nginx", Role::Peer, &[(0, 5.0)]),
        ]);
        let expected = "\
|              |       | before | now  | now / before |
| ------------ | ----- | ------ | ---- | ------------ |
| S1, 10 there | MiB/s | 10.0   | 20.0 | 0.500        |
";
        assert_eq!(of(&[measured.clone()]).as_deref(), Some(expected));
        measured.entries.remove(2);
        assert_eq!(of(&[measured]), None);
    }
}
