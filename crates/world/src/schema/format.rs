//! Formats of strings, and patterns, which are Go's.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

/// A regular expression in Go's syntax and meaning.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
}

impl Pattern {
    /// The error is in Go's words where they are known.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        for around in ["(?=", "(?!", "(?<=", "(?<!"] {
            if source.contains(around) {
                return Err(format!(
                    "error parsing regexp: invalid or unsupported Perl syntax: `{}`",
                    &around[..3]
                ));
            }
        }
        match Regex::new(&translated(source)) {
            Ok(regex) => Ok(Self { source: source.to_owned(), regex }),
            Err(_) => Err(format!("error parsing regexp: {}", complaint(source))),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn complaint(source: &str) -> String {
    let unescaped = source.replace("\\\\", "").replace("\\(", "").replace("\\)", "").replace("\\[", "");
    let count = |letter| unescaped.matches(letter).count();
    if unescaped.contains('[') && !unescaped.contains(']') {
        let from = source.find('[').unwrap_or_default();
        format!("missing closing ]: `{}`", &source[from..])
    } else if count('(') > count(')') {
        format!("missing closing ): `{source}`")
    } else if count(')') > count('(') {
        format!("unexpected ): `{source}`")
    } else if let Some(first @ ('*' | '+' | '?')) = source.chars().next() {
        format!("missing argument to repetition operator: `{first}`")
    } else {
        format!("invalid syntax: `{source}`")
    }
}

/// In the syntax of the regex crate. There `\d`, `\w`, `\s` and `\b` know all of Unicode, in Go only ASCII, and
/// classes have operators of their own.
fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut letters = source.chars().peekable();
    let mut class_start: Option<usize> = None;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\x0c\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\x0c\\r ]"),
                Some('b') if class_start.is_none() => out.push_str("(?-u:\\b)"),
                Some('B') if class_start.is_none() => out.push_str("(?-u:\\B)"),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if class_start.is_none() => {
                out.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if letters.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
                class_start = Some(out.len());
            }
            '[' if letters.peek() == Some(&':') => out.push('['),
            '[' => out.push_str("\\["),
            ']' if out.ends_with(':') && class_start.is_some_and(|start| out[start..].contains("[:")) => {
                out.push(']');
            }
            ']' => {
                class_start = None;
                out.push(']');
            }
            '&' | '~' if class_start.is_some() => out.extend(['\\', letter]),
            other => out.push(other),
        }
    }
    out
}

/// A format that the API server looks at. Others are allowed and mean nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// As the schema spells it.
    pub(super) name: &'static str,
    pub(super) of: FormatOf,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FormatOf {
    Integer,
    Number,
    Text(fn(&str) -> bool),
}

impl Format {
    /// `only_type` is the schema's, where it has exactly one.
    pub(super) fn named(name: &str, only_type: Option<super::Type>) -> Option<Self> {
        use super::Type;
        let (name, of) = FORMATS.iter().copied().find(|(known, _)| *known == name)?;
        let fits = match only_type {
            None | Some(Type::String) => matches!(of, FormatOf::Text(_)),
            Some(Type::Integer) => matches!(of, FormatOf::Integer),
            Some(Type::Number) => matches!(of, FormatOf::Number),
            Some(Type::Object | Type::Array | Type::Boolean) => false,
        };
        fits.then_some(Self { name, of })
    }
}

type Row = (&'static str, FormatOf);

const FORMATS: &[Row] = &[
    ("int32", FormatOf::Integer),
    ("int64", FormatOf::Integer),
    ("float", FormatOf::Number),
    ("double", FormatOf::Number),
    ("bsonobjectid", FormatOf::Text(|text| text.len() == 24 && is_hex(text))),
    ("uri", FormatOf::Text(is_uri)),
    ("email", FormatOf::Text(is_email)),
    ("hostname", FormatOf::Text(is_hostname)),
    ("ipv4", FormatOf::Text(is_ipv4)),
    ("ipv6", FormatOf::Text(is_ipv6)),
    ("cidr", FormatOf::Text(is_cidr)),
    ("mac", FormatOf::Text(is_mac)),
    ("uuid", FormatOf::Text(|text| is_uuid(text, None))),
    ("uuid3", FormatOf::Text(|text| is_uuid(text, Some('3')))),
    ("uuid4", FormatOf::Text(|text| is_uuid(text, Some('4')))),
    ("uuid5", FormatOf::Text(|text| is_uuid(text, Some('5')))),
    ("isbn", FormatOf::Text(|text| is_isbn10(text) || is_isbn13(text))),
    ("isbn10", FormatOf::Text(is_isbn10)),
    ("isbn13", FormatOf::Text(is_isbn13)),
    ("creditcard", FormatOf::Text(is_credit_card)),
    ("ssn", FormatOf::Text(is_ssn)),
    ("hexcolor", FormatOf::Text(is_hex_colour)),
    ("rgbcolor", FormatOf::Text(is_rgb_colour)),
    ("byte", FormatOf::Text(|text| !text.is_empty() && STANDARD.decode(text).is_ok())),
    ("password", FormatOf::Text(|_| true)),
    ("date", FormatOf::Text(is_date)),
    ("duration", FormatOf::Text(is_duration)),
    ("datetime", FormatOf::Text(is_date_time)),
    ("date-time", FormatOf::Text(is_date_time)),
    ("k8s-short-name", FormatOf::Text(|text| is_short_name(text) && text.len() <= 63)),
    ("k8s-long-name", FormatOf::Text(|text| text.split('.').all(is_short_name) && text.len() <= 253)),
];

/// A pattern of ours that is known to compile; none matches nothing.
fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_hex(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_hexdigit())
}

fn is_short_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_date(text: &str) -> bool {
    let is_shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| matches!((at, byte), (4 | 7, b'-') | (_, b'0'..=b'9')));
    is_shaped && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.as_ref().and_then(|regex| regex.captures(time)) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// As Go's durations, or in words such as `3 days`.
fn is_duration(text: &str) -> bool {
    static GO: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok()
    });
    static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let units = "ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week|wk";
        Regex::new(&format!(r"(?i)[0-9]+\s*({units})(\b|[a-z]+)")).ok()
    });
    matches(&GO, text) || matches(&WORDS, text)
}

/// Leading zeros are fine, as they were before Go 1.17.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        let digits = part.trim_start_matches('0');
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number && (digits.is_empty() || digits.parse::<u8>().is_ok())
    };
    (parts.len() == 4 && parts.iter().all(is_part)) || (text.contains('.') && is_ipv6(text))
}

fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(bits) = length.parse::<u32>() else { return false };
    let is_plain = length.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && ((bits <= Ipv4Addr::BITS && is_ipv4(address)) || (bits <= Ipv6Addr::BITS && is_ipv6(address)))
}

fn is_mac(text: &str) -> bool {
    static MAC: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let byte = "[0-9a-fA-F]{2}";
        let lengths = |mark: &str| [5, 7, 19].map(|more| format!("{byte}({mark}{byte}){{{more}}}")).join("|");
        let dotted =
            [2, 3, 9].map(|more| format!(r"[0-9a-fA-F]{{4}}(\.[0-9a-fA-F]{{4}}){{{more}}}")).join("|");
        Regex::new(&format!("^({}|{}|{dotted})$", lengths(":"), lengths("-"))).ok()
    });
    matches(&MAC, text)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}$",
        )
        .ok()
    });
    let Some(found) = UUID.as_ref().and_then(|regex| regex.captures(text)) else { return false };
    let is_variant = matches!(&found[2], "8" | "9" | "a" | "b" | "A" | "B");
    version.is_none_or(|version| found[1] == *version.to_string() && (version == '3' || is_variant))
}

fn is_hostname(text: &str) -> bool {
    static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let any = r"[a-zA-Z0-9\p{S}\p{L}]";
        let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
        let alone = format!("{any}((-?{any}{{0,62}})?)");
        let dotted = format!(r"({any}(({inner}{{0,61}}{any})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}}");
        Regex::new(&format!("^({alone}|{dotted})$")).ok()
    });
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&HOSTNAME, text)
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.ends_with('>')) {
        (Some(start), true) => &text[start + 1..text.len() - 1],
        _ => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |text: &str, quotable: bool| {
        let quoted = quotable && text.len() > 2 && text.starts_with('"') && text.ends_with('"');
        let plain = |part: &str| {
            !part.is_empty()
                && part.chars().all(|letter| !letter.is_whitespace() && !"()<>[]:;@\\,\"".contains(letter))
        };
        quoted || text.split('.').all(plain)
    };
    is_atom(local, true) && is_atom(domain, false)
}

/// Absolute, with a scheme or from the root.
fn is_uri(text: &str) -> bool {
    static SCHEME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[a-zA-Z][a-zA-Z0-9+.\-]*:").ok());
    let is_clean = !text.chars().any(|letter| letter.is_ascii_control());
    is_clean && (text.starts_with('/') || matches(&SCHEME, text))
}

fn is_ssn(text: &str) -> bool {
    static SSN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
    text.len() == 11 && matches(&SSN, text)
}

fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

fn is_rgb_colour(text: &str) -> bool {
    static RGB: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
        Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
    });
    matches(&RGB, text)
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|letter| letter.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text: String = text.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    let value = |letter: char| if letter == 'X' { Some(10) } else { letter.to_digit(10) };
    let values: Option<Vec<u32>> = text.chars().map(value).collect();
    let Some(values) = values else { return false };
    values.len() == 10
        && values[..9].iter().all(|value| *value < 10)
        && (1..=10).zip(&values).map(|(weight, value)| weight * value).sum::<u32>().is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text: String = text.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    let values = digits(&text);
    text.len() == 13
        && values.len() == 13
        && values
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(value, weight)| value * weight)
            .sum::<u32>()
            .is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    static KNOWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$").ok()
    });
    let values = digits(text);
    let bare: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |value: u32| if value > 4 { value * 2 - 9 } else { value * 2 };
    let sum: u32 = values
        .iter()
        .rev()
        .enumerate()
        .map(|(at, value)| if at % 2 == 1 { doubled(*value) } else { *value })
        .sum();
    matches(&KNOWN, &bare) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::super::Type;
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
                &["", "2014-12-15", "2014-13-15T19:30:20Z", "2014-12-15T24:30:20Z"],
            ),
            ("date", &["2014-12-15"], &["2014-12-32", "14-12-15"]),
            ("duration", &["1h30m", "0", "-1.5s", "22 ns", "3 days"], &["", "1x", "h"]),
            ("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "10.0.0.256", "::1"]),
            ("ipv6", &["::1", "fe80::1"], &["10.0.0.1", ":::"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45:67:89", "01:23-45:67:89:ab"]),
            ("uuid", &["2a02f46d-c3f4-4f2b-9cf1-6f8bd16dd8d2"], &["2a02f46d"]),
            ("uuid4", &["2a02f46d-c3f4-4f2b-9cf1-6f8bd16dd8d2"], &["2a02f46d-c3f4-3f2b-9cf1-6f8bd16dd8d2"]),
            ("hostname", &["example.com", "a", "ex-ample.com"], &["exa_mple.com", "-a.com"]),
            ("email", &["a@b.c", "A <a@b.c>"], &["a", "a@", "a b@c"]),
            ("uri", &["http://a/b", "/a"], &["a/b", ""]),
            ("byte", &["aGk="], &["", "a!"]),
            ("hexcolor", &["#FFF", "ffffff"], &["#ffff"]),
            ("rgbcolor", &["rgb(1,2,3)"], &["rgb(1,2)"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
            ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112"]),
            ("k8s-short-name", &["a-b"], &["A", "a.b", "-a"]),
            ("k8s-long-name", &["a.b"], &["a..b"]),
        ];
        for (name, fine, wrong) in rows {
            let Some(Format { of: FormatOf::Text(fits), .. }) = Format::named(name, Some(Type::String))
            else {
                panic!("{name} is a format of strings")
            };
            fine.iter().for_each(|text| assert!(fits(text), "{name} {text:?}"));
            wrong.iter().for_each(|text| assert!(!fits(text), "{name} {text:?}"));
        }
        assert!(Format::named("int32", Some(Type::String)).is_none());
        assert!(Format::named("float", Some(Type::Integer)).is_none());
        assert!(Format::named("colour", Some(Type::String)).is_none());
    }

    #[test]
    fn patterns_are_gos() {
        let rows = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١", false),
            (r"^[\w.-]+$", "a.b-c_d", true),
            (r"^[^]]$", "a", true),
            (r"^[[:alpha:]\d]+$", "a1", true),
            (r"^[a[]+$", "a[", true),
            (r"^[a&&b]+$", "&", true),
            (r"^https?:\/\/.+$", "https://a", true),
            (r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))$", "-1.5", true),
            (r"\bä", "ä", false),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        let rows = [
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ];
        for (pattern, expected) in rows {
            assert_eq!(Pattern::parse(pattern).unwrap_err(), expected, "{pattern}");
        }
    }
}
