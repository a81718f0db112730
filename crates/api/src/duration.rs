//! Durations as Go writes them, which is how every dialect's manifests write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration such as `720h`, `1h30m`, `1.5h` or `300ms`, never negative, exact to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanos: u64,
}

/// A duration, or `Never` for what must not happen at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NillableDuration {
    After(GoDuration),
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("a duration must not be empty; write for example 720h, 1h30m or 300ms")]
    Empty,
    #[error("`{0}` is not a duration; write numbers with units, for example 720h, 1h30m or 300ms")]
    NotANumber(String),
    #[error("`{0}` ends without a unit; write ns, us, ms, s, m or h after each number, for example {0}s")]
    MissingUnit(String),
    #[error("`{0}` has the unknown unit `{1}`; the units are ns, us, ms, s, m and h")]
    UnknownUnit(String, String),
    #[error("`{0}` is negative; a duration here cannot be")]
    Negative(String),
    #[error("`{0}` is too long; a duration is at most 2562047h, about 292 years")]
    TooLong(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or Never")]
pub struct NillableDurationError(#[from] DurationError);

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Go keeps durations in 63 bits; what it refuses as too long, so does Berth.
const NANOS_MAX: u64 = i64::MAX as u64;

const UNITS: [(&str, u64); 8] = [
    ("h", 3600 * NANOS_PER_SEC),
    ("m", 60 * NANOS_PER_SEC),
    ("s", NANOS_PER_SEC),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

impl GoDuration {
    pub const ZERO: Self = Self { nanos: 0 };

    pub const fn from_secs(secs: u32) -> Self {
        Self { nanos: secs as u64 * NANOS_PER_SEC }
    }

    pub const fn from_hours(hours: u16) -> Self {
        Self::from_secs(hours as u32 * 3600)
    }

    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Rounded up: nothing that is to be waited for ends early.
    pub const fn whole_secs(self) -> u64 {
        self.nanos.div_ceil(NANOS_PER_SEC)
    }

    pub const fn as_std(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let mut rest = match text.as_bytes().first() {
            None => return Err(DurationError::Empty),
            Some(b'-') => return Err(DurationError::Negative(text.to_owned())),
            Some(b'+') => &text[1..],
            Some(_) => text,
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(DurationError::NotANumber(text.to_owned()));
        }
        let mut nanos: u64 = 0;
        while !rest.is_empty() {
            let (part, tail) = parse_part(text, rest)?;
            nanos = nanos.saturating_add(part);
            rest = tail;
        }
        if nanos > NANOS_MAX {
            return Err(DurationError::TooLong(text.to_owned()));
        }
        Ok(Self { nanos })
    }
}

/// One number with its unit off the front of `rest`, in nanoseconds, and what follows it.
fn parse_part<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), DurationError> {
    let (whole, after_whole) = split_digits(rest);
    let (fraction, after_number) = match after_whole.strip_prefix('.') {
        Some(after_point) => split_digits(after_point),
        None => ("", after_whole),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::NotANumber(text.to_owned()));
    }
    let unit_end = after_number.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after_number.len());
    let (unit, tail) = after_number.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let (_, unit_nanos) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| DurationError::UnknownUnit(text.to_owned(), unit.to_owned()))?;
    let whole_nanos = decimal(whole).and_then(|value| value.checked_mul(unit_nanos));
    let Some(whole_nanos) = whole_nanos.filter(|nanos| *nanos <= NANOS_MAX) else {
        return Err(DurationError::TooLong(text.to_owned()));
    };
    Ok((whole_nanos + fraction_nanos(fraction, unit_nanos), tail))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn decimal(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// `0.digits × unit`, cut off at the nanosecond like Go. No unit has more than 13 digits of nanoseconds.
fn fraction_nanos(digits: &str, unit_nanos: u64) -> u64 {
    let mut place = u128::from(unit_nanos) * 10_u128.pow(18);
    let mut sum: u128 = 0;
    for digit in digits.bytes().take(18) {
        place /= 10;
        sum += place * u128::from(digit - b'0');
    }
    u64::try_from(sum / 10_u128.pow(18)).unwrap_or(u64::MAX)
}

impl fmt::Display for GoDuration {
    /// Whole parts from the largest unit down (`1h30m`, `1s500ms`): both Go and the patterns of the
    /// dialects' schemas read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.nanos;
        for (unit, unit_nanos) in UNITS.into_iter().filter(|(unit, _)| unit.is_ascii()) {
            if rest >= unit_nanos {
                write!(f, "{}{unit}", rest / unit_nanos)?;
                rest %= unit_nanos;
            }
        }
        Ok(())
    }
}

impl NillableDuration {
    pub const fn duration(self) -> Option<GoDuration> {
        match self {
            Self::After(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

impl FromStr for NillableDuration {
    type Err = NillableDurationError;

    fn from_str(text: &str) -> Result<Self, NillableDurationError> {
        if text == "Never" { Ok(Self::Never) } else { Ok(Self::After(text.parse()?)) }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(duration) => duration.fmt(f),
            Self::Never => f.write_str("Never"),
        }
    }
}

struct TextVisitor<T> {
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor {
            expecting: "a duration such as 720h, 1h30m or 300ms",
            parse: |text| text.parse().map_err(|error: DurationError| error.to_string()),
        })
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor {
            expecting: "a duration such as 720h or 1h30m, or Never",
            parse: |text| text.parse().map_err(|error: NillableDurationError| error.to_string()),
        })
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$",
        })
    }
}

impl JsonSchema for NillableDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NillableDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(([0-9]+(s|m|h))+|Never)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let sec = NANOS_PER_SEC;
        for (text, nanos, canonical) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("+5s", 5 * sec, "5s"),
            ("720h", 720 * 3600 * sec, "720h"),
            ("720h0m0s", 720 * 3600 * sec, "720h"),
            ("1h30m", 5400 * sec, "1h30m"),
            ("1.5h", 5400 * sec, "1h30m"),
            (".5s", sec / 2, "500ms"),
            ("1.s", sec, "1s"),
            ("300ms", 300_000_000, "300ms"),
            ("90m", 5400 * sec, "1h30m"),
            ("1m1.5s", 61 * sec + sec / 2, "1m1s500ms"),
            ("7us", 7_000, "7us"),
            ("7\u{b5}s", 7_000, "7us"),
            ("7\u{3bc}s", 7_000, "7us"),
            ("1.5ns", 1, "1ns"),
            ("0.3333333333333333333h", 1_199_999_999_999, "19m59s999ms999us999ns"),
            ("5s5h", 18_005 * sec, "5h5s"),
            ("2562047h47m16.854775807s", NANOS_MAX, "2562047h47m16s854ms775us807ns"),
        ] {
            let parsed = text.parse::<GoDuration>().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.nanos(), nanos, "{text}");
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(parsed), "{text} does not survive its own text");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_with_what_would_be_right() {
        for (text, refusal) in [
            ("", "must not be empty"),
            ("+", "write numbers with units"),
            ("soon", "write numbers with units"),
            ("5", "for example 5s"),
            ("1h5", "ends without a unit"),
            ("5d", "the unknown unit `d`; the units are ns, us, ms, s, m and h"),
            ("5 s", "unknown unit ` s`"),
            ("5S", "unknown unit `S`"),
            (".s", "write numbers with units"),
            ("1..5s", "ends without a unit"),
            ("-5s", "is negative"),
            ("2562048h", "too long"),
            ("2562047h48m", "too long"),
            ("99999999999999999999999ns", "too long"),
            ("Never", "write numbers with units"),
        ] {
            let error = text.parse::<GoDuration>().expect_err(text).to_string();
            assert!(error.contains(refusal), "{text}: {error}");
        }
    }

    #[test]
    fn never_is_a_word_of_its_own() {
        assert_eq!("Never".parse(), Ok(NillableDuration::Never));
        assert_eq!("5m".parse(), Ok(NillableDuration::After(GoDuration::from_secs(300))));
        assert_eq!(NillableDuration::Never.to_string(), "Never");
        for text in ["never", "5", ""] {
            let error = text.parse::<NillableDuration>().expect_err(text).to_string();
            assert!(error.ends_with(", or Never"), "{text}: {error}");
        }
    }
}
