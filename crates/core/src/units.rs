//! Quantities and money as integers.
//!
//! Nothing here is a float: a float CPU loses a milli-CPU at 16777.217 cores, and a float price makes
//! two equal plans differ in their last digit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The largest magnitude Kubernetes keeps; anything beyond is capped to it, as its own parser does.
const UNITS_MAX: i128 = i64::MAX as i128;

/// A Kubernetes quantity (`500m`, `1.5Gi`, `12e6`), exact to the nano like Kubernetes' own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("a quantity must not be empty; write for example 500m, 2 or 1.5Gi")]
    Empty,
    #[error(
        "`{0}` is not a quantity; write a decimal number with an optional suffix, for example 500m, 2 or 1.5Gi"
    )]
    NotANumber(String),
    #[error(
        "`{0}` has the unknown suffix `{1}`; the suffixes are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, and e3 for an exponent"
    )]
    UnknownSuffix(String, String),
    #[error("`{0}` is negative; a resource cannot be")]
    Negative(String),
}

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0 };

    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT }
    }

    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * (NANOS_PER_UNIT / 1000) }
    }

    pub const fn from_nanos(nanos: i128) -> Self {
        Self { nanos }
    }

    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whole units, rounded away from zero: a request of half a byte needs a byte.
    pub fn units_ceil(self) -> i64 {
        saturate(div_away_from_zero(self.nanos, NANOS_PER_UNIT))
    }

    /// Millionths, rounded away from zero.
    pub fn micro_ceil(self) -> i64 {
        saturate(div_away_from_zero(self.nanos, NANOS_PER_UNIT / 1_000_000))
    }

    /// Thousandths, rounded away from zero.
    pub fn milli_ceil(self) -> i64 {
        saturate(div_away_from_zero(self.nanos, NANOS_PER_UNIT / 1000))
    }
}

fn div_away_from_zero(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// What a suffix multiplies by: a power of two, or a power of ten.
#[derive(Clone, Copy)]
enum Scale {
    Binary(u32),
    Decimal(i32),
}

fn parse_suffix(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            Scale::Decimal(exponent.parse::<i32>().ok()?)
        }
    })
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Accepts what Kubernetes' parser accepts, which is more than its documented grammar: a suffix, a
    /// sign or a point without digits is zero. `tests/quantities.tsv` has the cases.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') {
            return Err(QuantityError::NotANumber(text.to_owned()));
        }
        let scale = parse_suffix(suffix).ok_or_else(|| {
            if number.is_empty() {
                QuantityError::NotANumber(text.to_owned())
            } else {
                QuantityError::UnknownSuffix(text.to_owned(), suffix.to_owned())
            }
        })?;
        let magnitude = scaled_nanos(whole, fraction, scale);
        Ok(Self { nanos: if negative { -magnitude } else { magnitude } })
    }
}

/// `whole.fraction × scale` in nanos, rounded up to the nano and capped at what Kubernetes keeps.
///
/// Exact for any number of digits: the digits after the point are multiplied like on paper, from the
/// last one up, so that no more than a carry is ever held.
fn scaled_nanos(whole: &str, fraction: &str, scale: Scale) -> i128 {
    const CAP: i128 = UNITS_MAX * NANOS_PER_UNIT;
    let (factor, exponent) = match scale {
        // At most 2^60 × 10^9, so a digit times it, and a carry, are far from overflowing.
        Scale::Binary(bits) => (NANOS_PER_UNIT << bits, 0),
        Scale::Decimal(exponent) => (NANOS_PER_UNIT, i64::from(exponent)),
    };
    let leading_zeros = whole.bytes().chain(fraction.bytes()).take_while(|b| *b == b'0').count();
    let digit_count = whole.len() + fraction.len() - leading_zeros;
    if digit_count == 0 {
        return 0;
    }
    // The digits from the first that is not zero, and zeros for ever after the last.
    let digit = |place: usize| {
        let place = place + leading_zeros;
        let (text, place) =
            if place < whole.len() { (whole, place) } else { (fraction, place - whole.len()) };
        text.as_bytes().get(place).map_or(0, |byte| i128::from(byte - b'0'))
    };
    // How many digits stand before the point; negative where zeros follow the point first.
    let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let point = signed(whole.len()).saturating_add(exponent).saturating_sub(signed(leading_zeros));
    let whole_digits = usize::try_from(point).unwrap_or(0);

    let (mut carry, mut inexact) = (0_i128, false);
    for place in (whole_digits..digit_count).rev() {
        let product = digit(place) * factor + carry;
        inexact |= product % 10 != 0;
        carry = product / 10;
    }
    for _ in point..0 {
        if carry == 0 {
            break;
        }
        inexact |= carry % 10 != 0;
        carry /= 10;
    }
    let mut units = 0_i128;
    for place in 0..whole_digits {
        units = units * 10 + digit(place);
        if units > UNITS_MAX {
            return CAP;
        }
    }
    let nanos = units.checked_mul(factor).and_then(|nanos| nanos.checked_add(carry + i128::from(inexact)));
    nanos.map_or(CAP, |nanos| nanos.min(CAP))
}

impl fmt::Display for Quantity {
    /// Canonical decimal form: the largest suffix that leaves an integer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [(&str, i128); 10] = [
            ("E", 1_000_000_000_000_000_000_000_000_000),
            ("P", 1_000_000_000_000_000_000_000_000),
            ("T", 1_000_000_000_000_000_000_000),
            ("G", 1_000_000_000_000_000_000),
            ("M", 1_000_000_000_000_000),
            ("k", 1_000_000_000_000),
            ("", 1_000_000_000),
            ("m", 1_000_000),
            ("u", 1_000),
            ("n", 1),
        ];
        if self.nanos == 0 {
            return f.write_str("0");
        }
        for (suffix, unit) in SUFFIXES {
            if self.nanos % unit == 0 {
                return write!(f, "{}{suffix}", self.nanos / unit);
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// From text or from a bare number, as Kubernetes accepts both.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 2 or 1.5Gi")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(units))
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                // A bare `0.5` reaches us as a float; its shortest text is what the author wrote.
                format!("{units}").parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A whole number of bytes or things in binary canonical form (`15250Mi`, `6Gi`).
pub fn format_binary(units: i64) -> String {
    const SUFFIXES: [(&str, u32); 6] =
        [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    if units == 0 {
        return "0".to_owned();
    }
    for (suffix, bits) in SUFFIXES {
        if units % (1_i64 << bits) == 0 {
            return format!("{}{suffix}", units >> bits);
        }
    }
    units.to_string()
}

/// Money per hour, in micro-dollars. Prices are rounded to the micro-dollar once, when they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price {
    micro_usd: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("`{0}` is not a price; write US dollars an hour as a decimal number, for example 0.0416")]
    NotANumber(String),
    #[error("`{0}` is negative; a price cannot be")]
    Negative(String),
    #[error("`{0}` is absurdly high; a price is in US dollars an hour, below 1000000")]
    TooHigh(String),
}

impl Price {
    pub const ZERO: Self = Self { micro_usd: 0 };
    /// A million dollars an hour: what is above it is a mistake in the price list.
    const MICRO_USD_MAX: i64 = 1_000_000_000_000;
    /// 730 hours, the month that cloud price lists use.
    pub const HOURS_PER_MONTH: i64 = 730;

    pub const fn from_micro_usd(micro_usd: i64) -> Self {
        Self { micro_usd }
    }

    pub const fn micro_usd(self) -> i64 {
        self.micro_usd
    }

    pub const fn is_zero(self) -> bool {
        self.micro_usd == 0
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { micro_usd: self.micro_usd.saturating_add(other.micro_usd) }
    }

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self { micro_usd: self.micro_usd.saturating_sub(other.micro_usd) }
    }

    #[must_use]
    pub const fn times(self, count: i64) -> Self {
        Self { micro_usd: self.micro_usd.saturating_mul(count) }
    }

    #[must_use]
    pub const fn per_month(self) -> Self {
        self.times(Self::HOURS_PER_MONTH)
    }

    /// This price times `numerator / denominator`, rounded half up; for discounts and percentages.
    #[must_use]
    pub fn scaled(self, numerator: i64, denominator: i64) -> Self {
        let product = i128::from(self.micro_usd) * i128::from(numerator);
        let denominator = i128::from(denominator.max(1));
        Self { micro_usd: saturate((product + denominator / 2).div_euclid(denominator)) }
    }
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let quantity = text
            .parse::<Quantity>()
            .ok()
            .filter(|_| text.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b)))
            .filter(|_| text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit()))
            .ok_or_else(|| PriceError::NotANumber(text.to_owned()))?;
        if quantity.is_negative() {
            return Err(PriceError::Negative(text.to_owned()));
        }
        let micro_usd = saturate((quantity.nanos + 500) / 1000);
        if micro_usd > Self::MICRO_USD_MAX {
            return Err(PriceError::TooHigh(text.to_owned()));
        }
        Ok(Self { micro_usd })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.micro_usd < 0 { "-" } else { "" };
        let magnitude = self.micro_usd.unsigned_abs();
        write!(f, "{sign}{}.{:06}", magnitude / 1_000_000, magnitude % 1_000_000)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Price;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a price in US dollars an hour such as 0.0416")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Price, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, usd: i64) -> Result<Price, E> {
                usd.to_string().parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, usd: u64) -> Result<Price, E> {
                usd.to_string().parse().map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, usd: f64) -> Result<Price, E> {
                format!("{usd}").parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_nanos(text: &str, nanos: i128) {
        assert_eq!(text.parse::<Quantity>().map(Quantity::nanos), Ok(nanos), "{text}");
    }

    #[test]
    fn quantities_are_exact() {
        let unit = NANOS_PER_UNIT;
        for (text, nanos) in [
            ("0", 0),
            ("1", unit),
            ("+1", unit),
            ("-1", -unit),
            ("500m", unit / 2),
            (".5", unit / 2),
            ("1.", unit),
            ("0.1m", unit / 10_000),
            ("1n", 1),
            ("0.1n", 1),
            ("1e3", 1000 * unit),
            ("1E3", 1000 * unit),
            ("1e-3", unit / 1000),
            ("1e-30", 1),
            ("12E", UNITS_MAX * unit),
            ("1Ei", (1 << 60) * unit),
            ("16Ei", UNITS_MAX * unit),
            ("9223372036854775807", i128::from(i64::MAX) * unit),
            ("99999999999999999999999999999999999999999999", UNITS_MAX * unit),
            ("1.5Gi", 3 * (1 << 29) * unit),
            ("0.1Ki", 102_400_000_000),
            ("16777.217", 16_777_217_000_000),
            ("0.000000000000000000000000000000000000000000000000000001", 1),
        ] {
            check_nanos(text, nanos);
        }
    }

    #[test]
    fn quantities_that_kubernetes_refuses_are_refused() {
        for text in [
            "",
            "1e2Mi",
            "1i",
            "0.1mi",
            "1 ",
            " 1",
            "1.1.1",
            "1e",
            "1Kb",
            "aoeu",
            "--1",
            "1K",
            "0x10",
            "1_000",
            "1e2147483648",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn rounding_is_away_from_zero() {
        assert_eq!("0.5".parse::<Quantity>().unwrap().units_ceil(), 1);
        assert_eq!("0.0001".parse::<Quantity>().unwrap().milli_ceil(), 1);
        assert_eq!("-0.5".parse::<Quantity>().unwrap().units_ceil(), -1);
    }

    #[test]
    fn canonical_forms() {
        for (text, canonical) in
            [("1000m", "1"), ("3900m", "3900m"), ("1500", "1500"), ("2000", "2k"), ("0", "0"), ("1e-9", "1n")]
        {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical);
        }
        assert_eq!(format_binary(15_250 << 20), "15250Mi");
        assert_eq!(format_binary(6 << 30), "6Gi");
        assert_eq!(format_binary(1000), "1000");
    }

    #[test]
    fn prices_round_to_the_micro_dollar() {
        assert_eq!("0.117179869184".parse::<Price>().unwrap().to_string(), "0.117180");
        assert_eq!("5".parse::<Price>().unwrap().to_string(), "5.000000");
        assert_eq!(Price::from_micro_usd(-1).to_string(), "-0.000001");
        assert_eq!(Price::from_micro_usd(100).scaled(70, 100).micro_usd(), 70);
        for text in ["", "-1", "1Gi", "free", "1e9", ".", "-", "e5", "E", "+."] {
            assert!(text.parse::<Price>().is_err(), "{text:?} was accepted");
        }
    }
}
