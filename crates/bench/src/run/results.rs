//! What was measured, by contestant and round.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::amount::median;

/// One contestant in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    /// The figure of the scenario.
    pub(crate) rate: f64,
    /// Seconds of processor time by the unit of work.
    pub(crate) cpu: f64,
    /// The most memory, in bytes.
    pub(crate) peak: u64,
    /// What requests took: the median, the 99th percentile, and the longest.
    pub(crate) quantiles: [Duration; 3],
    /// Whether an upload was read back and compared.
    pub(crate) is_compared: bool,
}

/// All rounds of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Results(BTreeMap<String, BTreeMap<usize, Measurement>>);

impl Results {
    /// Adds what a contestant came to in a round.
    pub(crate) fn add(&mut self, name: &str, round: usize, measurement: Measurement) {
        let rounds = self.0.entry(name.to_owned()).or_default();
        rounds.insert(round, measurement);
    }

    /// A figure of a contestant in all its rounds.
    pub(crate) fn each(&self, name: &str, figure: impl Fn(&Measurement) -> f64) -> Vec<f64> {
        let rounds = self.0.get(name).into_iter().flat_map(BTreeMap::values);
        rounds.map(figure).collect()
    }

    /// The median of a figure of a contestant; none when no round counts.
    pub(crate) fn median(&self, name: &str, figure: impl Fn(&Measurement) -> f64) -> Option<f64> {
        median(&self.each(name, figure))
    }

    /// The median over the rounds of what one came to by what the best of others came to in the same round.
    pub(crate) fn ratio(&self, name: &str, others: &[&str]) -> Option<f64> {
        let rounds = self.0.get(name)?;
        let ratios = rounds.iter().filter_map(|(round, measurement)| {
            let rates = others
                .iter()
                .filter_map(|other| Some(self.0.get(*other)?.get(round)?.rate));
            Some(measurement.rate / rates.max_by(f64::total_cmp)?)
        });
        median(&ratios.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(rates: &[(&str, usize, f64)]) -> Results {
        let mut results = Results::default();
        for &(name, round, rate) in rates {
            let measurement = Measurement {
                rate,
                cpu: 0.0,
                peak: 0,
                quantiles: [Duration::ZERO; 3],
                is_compared: false,
            };
            results.add(name, round, measurement);
        }
        results
    }

    #[test]
    fn ratios_are_taken_inside_a_round_and_to_the_best_of_it() {
        let results = results(&[
            ("ours", 0, 10.0),
            ("a", 0, 5.0),
            ("b", 0, 4.0),
            ("ours", 1, 100.0),
            ("a", 1, 10.0),
            ("b", 1, 25.0),
            ("ours", 2, 9.0),
            ("ours", 3, 30.0),
            ("b", 3, 10.0),
        ]);
        assert_eq!(results.ratio("ours", &["a", "b"]), Some(3.0));
        assert_eq!(results.ratio("ours", &["nobody"]), None);
        assert_eq!(results.median("ours", |one| one.rate), Some(20.0));
    }
}
