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
