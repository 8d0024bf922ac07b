//! Days of the calendar, as `2026-11-15`: what filters compare, as text, since such texts sort by time.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use crate::Error;

/// Checks a day that a person wrote as `2026-11-15`.
///
/// # Errors
/// If it is written in another way, or the calendar does not have it.
///
/// ```
/// assert_eq!(hark_catalogue::parse_day("2024-02-29").unwrap(), "2024-02-29");
/// assert!(hark_catalogue::parse_day("2026-02-31").is_err());
/// ```
pub fn parse_day(text: &str) -> Result<String, Error> {
    // jiff reads other forms too, such as 20261115 and years before 0, which do not sort as texts.
    match text.parse::<Date>() {
        Ok(date) if date.year() >= 0 && date.to_string() == text => Ok(text.to_owned()),
        _ => Err(Error::BadDay {
            text: text.chars().take(40).collect(),
        }),
    }
}

/// The day of a time, given in nanoseconds since 1970, in UTC.
pub(crate) fn day_of(nanoseconds: i64) -> String {
    // Every i64 is between the years 1677 and 2262, which jiff knows.
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH);
    Offset::UTC.to_datetime(time).date().to_string()
}

/// A time in seconds, or as on a clock: `90`, `1:30`, `1:02:03.5`.
///
/// # Errors
/// That it is no time, in words for a person.
pub fn parse_time(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a time; write seconds or a clock, such as 90 or 1:30");
    let mut total = 0.0;
    for (nth, part) in text.split(':').enumerate() {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value: f64 = part.parse().map_err(|_| wrong())?;
        // Minutes and seconds of a clock go to 59.
        if nth > 2 || !is_number || (nth > 0 && value >= 60.0) {
            return Err(wrong());
        }
        total = 60.0 * total + value;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for day in [
            "2026-11-15",
            "2024-02-29",
            "1857-04-09",
            "9999-12-31",
            "0000-01-01",
        ] {
            assert_eq!(parse_day(day).unwrap(), day);
        }
        for wrong in [
            "2026-02-31",
            "2025-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-11-00",
            "2026-11-32",
            "15.11.2026",
            "2026-1-1",
            "26-1-1",
            "2026-11",
            "20261115",
            "+026-11-11",
            "-002026-11-15",
            "2026-11-15T10:00",
            "2026-11-15-1",
            " 2026-11-15",
            "today",
            "",
        ] {
            assert!(parse_day(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_the_day_of_utc() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_763_164_800, "2025-11-15"),
            (4_107_542_400, "2100-03-01"),
            (4_107_542_399, "2100-02-28"),
        ] {
            assert_eq!(day_of(seconds * 1_000_000_000 + 999_999_999), day);
        }
        assert_eq!(day_of(i64::MIN), "1677-09-21");
        assert_eq!(day_of(i64::MAX), "2262-04-11");
    }

    #[test]
    fn times_are_seconds_or_a_clock() {
        for (text, expected) in [
            ("90", 90.0),
            ("1:30", 90.0),
            ("0:05.5", 5.5),
            ("1:02:03", 3723.0),
            ("7200", 7200.0),
        ] {
            assert!((parse_time(text).unwrap() - expected).abs() < 1e-9, "{text}");
        }
        for text in [
            "", "1:", ":30", "1:60", "1:2:3:4", "-1", "1:-5", "nan", "inf", "1e3", "a",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
