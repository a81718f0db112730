//! Times as Go reads them.

use jiff::Timestamp;

/// In RFC 3339; or Go's words for what is wrong.
pub(super) fn parse(text: &str, layout: &str) -> Result<Timestamp, String> {
    if let Some((rest, element)) = first_mismatch(text) {
        return Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"));
    }
    text.parse().map_err(|_| format!("parsing time {text:?}: day out of range"))
}

/// Where a text stops being a time, and what should be there.
fn first_mismatch(text: &str) -> Option<(&str, &'static str)> {
    let elements = [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in elements {
        let taken = if digits == 0 {
            rest.strip_prefix(element)
        } else {
            let is_number = rest.get(..digits).is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()));
            is_number.then(|| rest.get(digits..)).flatten()
        };
        match taken {
            Some(after) => rest = after,
            None => return Some((rest, element)),
        }
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let zone = rest.as_bytes();
    let is_offset = matches!(zone, [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()));
    if rest == "Z" || is_offset { None } else { Some((rest, "Z07:00")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        let layout = "2006-01-02T15:04:05Z07:00";
        for (text, rest, element) in [
            ("yesterday", "yesterday", "2006"),
            ("2026-1-1", "1-1", "01"),
            ("2026-01-01", "", "T"),
            ("2026-01-01T00:00:00", "", "Z07:00"),
            ("2026-01-01 00:00:00Z", " 00:00:00Z", "T"),
        ] {
            let expected =
                format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}");
            assert_eq!(parse(text, layout), Err(expected));
        }
        for text in ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.5Z"] {
            let expected: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
            assert_eq!(parse(text, layout).map(Timestamp::as_second), Ok(expected.as_second()), "{text}");
        }
    }
}
