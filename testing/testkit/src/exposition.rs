//! Metrics in the text formats of Prometheus, read for tests.

use std::collections::{BTreeMap, BTreeSet};

/// The parsed text of a scrape.
#[derive(Debug, Clone)]
pub struct Exposition {
    /// The metrics, in the order of the text.
    pub metrics: Vec<Metric>,
    /// The values, in the order of the text.
    pub samples: Vec<Sample>,
}

/// A metric, as the lines before its values describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Its help text.
    pub help: String,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Name of the metric, with a suffix if the metric has several values.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Exposition {
    /// Reads the text of a scrape.
    ///
    /// # Panics
    /// If it is malformed, or a series occurs twice.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let (mut metrics, mut samples): (Vec<Metric>, Vec<Sample>) = Default::default();
        let mut help = ("", "");
        for line in text.lines() {
            if let Some(line_of_help) = line.strip_prefix("# HELP ") {
                help = line_of_help.split_once(' ').expect("a name and a text");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a name and a type");
                assert_eq!(help.0, name, "the help of another metric");
                metrics.push(Metric {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    help: help.1.to_owned(),
                });
            } else if !line.starts_with('#') {
                let sample = Sample::parse(line).unwrap_or_else(|| panic!("malformed: {line}"));
                samples.push(sample);
            }
        }
        let exposition = Self { metrics, samples };
        let series = exposition.series();
        assert_eq!(series.len(), exposition.samples.len(), "a series is twice");
        exposition
    }

    /// All series: names with their labels.
    pub fn series(&self) -> BTreeSet<String> {
        self.samples.iter().map(Sample::series).collect()
    }

    /// The value of a series. `series` is written like [`Exposition::series`] writes it: with its
    /// labels in alphabetical order.
    ///
    /// # Panics
    /// If the series is missing.
    #[track_caller]
    pub fn value(&self, series: &str) -> f64 {
        let found = self.samples.iter().find(|it| it.series() == series);
        found
            .unwrap_or_else(|| panic!("no series {series} in {:#?}", self.series()))
            .value
    }

    /// The series of this name that are not zero, by their labels.
    pub fn non_zero(&self, name: &str) -> BTreeMap<String, f64> {
        let samples = self.samples.iter();
        samples
            .filter(|sample| sample.name == name && sample.value != 0.0)
            .map(|sample| (sample.labels_as_text(), sample.value))
            .collect()
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')?),
            None => (series, ""),
        };
        let labels = labels.split_terminator("\",").map(|label| {
            let (key, value) = label.split_once("=\"")?;
            Some((key.to_owned(), value.trim_end_matches('"').to_owned()))
        });
        Some(Self {
            name: name.to_owned(),
            labels: labels.collect::<Option<_>>()?,
            value: value.parse().ok()?,
        })
    }

    fn labels_as_text(&self) -> String {
        let labels = self.labels.iter();
        let labels: Vec<_> = labels
            .map(|(key, value)| format!("{key}=\"{value}\""))
            .collect();
        labels.join(",")
    }

    fn series(&self) -> String {
        if self.labels.is_empty() {
            return self.name.clone();
        }
        format!("{}{{{}}}", self.name, self.labels_as_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_with_its_labels_in_order() {
        let text = "# HELP a_total Some a.\n# TYPE a_total counter\na_total{y=\"2\",x=\"b c\"} 7\n\
                    a_total{y=\"3\",x=\"b\"} 0\nb 0.5\n# EOF\n";
        let read = Exposition::parse(text);
        assert_eq!(read.metrics.len(), 1);
        assert_eq!(
            (&*read.metrics[0].kind, &*read.metrics[0].help),
            ("counter", "Some a.")
        );
        assert!((read.value("a_total{x=\"b c\",y=\"2\"}") - 7.0).abs() < f64::EPSILON);
        assert!((read.value("b") - 0.5).abs() < f64::EPSILON);
        assert_eq!(read.non_zero("a_total").len(), 1);
    }
}
