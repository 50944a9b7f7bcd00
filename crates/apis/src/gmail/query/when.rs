//! Dates and ages, as searches write them.

use jiff::civil::Date;
use jiff::tz::TimeZone;

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Milliseconds since the epoch: of a day's beginning in UTC, as in `2024/5/1`, `2024-05-01` and
/// `05/01/2024`, or of a number of seconds.
pub(super) fn moment(text: &str) -> Option<u64> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<_> = text.split(['/', '-', '.']).collect();
    if !numbers.iter().all(|number| is_digits(number)) {
        return None;
    }
    match numbers[..] {
        [seconds] => seconds.parse::<u64>().ok()?.checked_mul(1000),
        [year, month, day] if year.len() == 4 => day_of(year, month, day),
        [month, day, year] if year.len() == 4 => day_of(year, month, day),
        _ => None,
    }
}

fn day_of(year: &str, month: &str, day: &str) -> Option<u64> {
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let begins = date.ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(u64::try_from(begins.timestamp().as_millisecond()).unwrap_or(0))
}

/// Milliseconds, as in `3d`, `2m` (months of 30 days) and `1y`.
pub(super) fn age(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let days = match unit.to_ascii_lowercase() {
        'd' => 1,
        'w' => 7,
        'm' => 30,
        'y' => 365,
        _ => return None,
    };
    number.checked_mul(days * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_in_several_ways() {
        for text in [
            "2024/5/1",
            "2024/05/01",
            "2024-05-01",
            "05/01/2024",
            "1714521600",
        ] {
            assert_eq!(moment(text), Some(1_714_521_600_000), "{text}");
        }
        assert_eq!(moment("1950/1/1"), Some(0));
        for text in [
            "",
            "2024",
            "tomorrow",
            "2024/13/1",
            "1/2/3",
            "2024/5",
            "99999999999999999999",
        ] {
            let number = text == "2024";
            assert_eq!(moment(text).is_some(), number, "{text}");
        }
    }

    #[test]
    fn an_age_is_a_number_of_days_weeks_months_or_years() {
        assert_eq!(age("3d"), Some(3 * DAY));
        assert_eq!(age("1w"), Some(7 * DAY));
        assert_eq!(age("2M"), Some(60 * DAY));
        assert_eq!(age("1y"), Some(365 * DAY));
        for text in ["", "d", "3", "3h", "-1d", "18446744073709551615y", "3é"] {
            assert_eq!(age(text), None, "{text}");
        }
    }
}
