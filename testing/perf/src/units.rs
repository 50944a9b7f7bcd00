//! Amounts: as numbers to reckon with, and as people read them.

/// Bytes of a kibibyte.
pub(crate) const KIB: u64 = 1024;
/// Bytes of a mebibyte.
pub(crate) const MIB: u64 = 1024 * KIB;
/// Bytes of a gibibyte.
pub(crate) const GIB: u64 = 1024 * MIB;

/// A count as a number with a fraction.
#[expect(
    clippy::cast_precision_loss,
    reason = "no count here comes near to 2^53"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    float(bytes) / float(MIB)
}

/// The middle of some values; of none, none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len.is_multiple_of(2) => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// A number with the digits that can mean something: 3 of them, or all before the point.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 1.0 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// Digits, with a comma before each third from the end.
fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_figure_has_three_digits_or_all_before_the_point() {
        let figures = [0.1234, 1.234, 12.34, 123.4, 1234.5, 1_234_567.0].map(figure);
        let expected = ["0.123", "1.23", "12.3", "123", "1,234", "1,234,567"];
        assert_eq!(figures, expected);
    }
}
