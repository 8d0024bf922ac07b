//! Byte ranges and conditional requests: RFC 9110, sections 8.8, 13 and 14.
//!
//! One byte range is supported, also one from the end. Multiple ranges, other units and malformed ones are ignored, as the standard
//! allows; a range that starts after the end cannot be satisfied.

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Everything.
    Whole,
    /// The bytes from the first to the second, both included.
    Part(u64, u64),
    /// Nothing of what is there.
    Nothing,
}

/// Reads a `Range` header for `length` bytes.
pub(crate) fn wanted(header: Option<&str>, length: u64) -> Wanted {
    header
        .and_then(|header| parse(header, length))
        .unwrap_or(Wanted::Whole)
}

fn parse(header: &str, length: u64) -> Option<Wanted> {
    let (unit, range) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim_matches([' ', '\t']).split_once('-')?;
    let end = length.checked_sub(1);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => {
            let count = number(last)?;
            Some(match end {
                Some(end) if count > 0 => Wanted::Part(length - count.min(length), end),
                _ => Wanted::Nothing,
            })
        }
        (false, _) => {
            let first = number(first)?;
            let last = if last.is_empty() { u64::MAX } else { number(last)? };
            if last < first {
                return None;
            }
            Some(match end {
                Some(end) if first <= end => Wanted::Part(first, last.min(end)),
                _ => Wanted::Nothing,
            })
        }
    }
}

/// Digits alone, of any length: what is larger than any file is as good as the largest number.
fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
}

/// Whether `If-None-TextHit` names this tag. The comparison is the weak one.
pub(crate) fn known(if_none_match: Option<&str>, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    if_none_match.is_some_and(|list| {
        list.trim() == "*"
            || list
                .split(',')
                .any(|one| !tag.is_empty() && bare(one) == bare(tag))
    })
}

/// Whether a range may be answered: `If-Range` is absent or names exactly this tag. A date never does, since no dates are given.
pub(crate) fn range_holds(if_range: Option<&str>, tag: &str) -> bool {
    if_range.is_none_or(|given| given.trim() == tag && tag.starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges() {
        let of_100 = |header| wanted(Some(header), 100);
        for (header, first, last) in [
            ("bytes=0-0", 0, 0),
            ("bytes=0-", 0, 99),
            ("bytes=99-", 99, 99),
            ("bytes=10-19", 10, 19),
            ("bytes=10-1000", 10, 99),
            ("bytes=10-99999999999999999999999999", 10, 99),
            ("bytes=-1", 99, 99),
            ("bytes=-500", 0, 99),
            ("BYTES=5-6", 5, 6),
            ("bytes= 5-6 ", 5, 6),
        ] {
            assert_eq!(of_100(header), Wanted::Part(first, last), "{header}");
        }
        for header in [
            "bytes=100-",
            "bytes=100-200",
            "bytes=-0",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(of_100(header), Wanted::Nothing, "{header}");
        }
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5",
            "bytes=6-5",
            "bytes=a-b",
            "bytes=0-1,5-6",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=--1",
            "bytes=0x1-2",
            "bytes=1 - 2",
            "lines=1-2",
            "bytes 1-2",
        ] {
            assert_eq!(of_100(header), Wanted::Whole, "{header}");
        }
        assert_eq!(wanted(None, 100), Wanted::Whole);
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Nothing);
        assert_eq!(wanted(Some("bytes=-5"), 0), Wanted::Nothing);
    }

    #[test]
    fn tags() {
        assert!(known(Some("\"a\""), "\"a\""));
        assert!(known(Some("W/\"a\""), "\"a\""));
        assert!(known(Some("\"b\", \"a\""), "\"a\""));
        assert!(known(Some("*"), "\"a\""));
        assert!(!known(Some("\"b\""), "\"a\""));
        assert!(!known(None, "\"a\""));
        assert!(range_holds(None, "\"a\""));
        assert!(range_holds(Some("\"a\""), "\"a\""));
        assert!(!range_holds(Some("W/\"a\""), "\"a\""));
        assert!(!range_holds(Some("Sat, 14 Nov 2026 10:00:00 GMT"), "\"a\""));
    }

    proptest! {
        /// Whatever is asked, what is sent lies inside; a header that is well formed gives what its formula says.
        #[test]
        fn inside(header in "(bytes=)?[0-9a-z,=\\- ]{0,12}", length in 0_u64..50) {
            if let Wanted::Part(first, last) = wanted(Some(&header), length) {
                prop_assert!(first <= last && last < length);
            }
        }

        #[test]
        fn by_the_formula(first in 0_u64..60, more in 0_u64..60, length in 1_u64..50) {
            let last = first + more;
            let got = wanted(Some(&format!("bytes={first}-{last}")), length);
            let bytes: Vec<u64> = (0..length).filter(|b| (first..=last).contains(b)).collect();
            match got {
                Wanted::Part(a, b) => prop_assert_eq!((a..=b).collect::<Vec<_>>(), bytes),
                Wanted::Nothing => prop_assert!(bytes.is_empty()),
                Wanted::Whole => prop_assert!(false),
            }
        }
    }
}
