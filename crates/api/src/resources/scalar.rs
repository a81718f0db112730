//! Scalars that refuse on reading what the API server would refuse by its schema.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use berth_core::units::{Price, Quantity, format_binary};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What Kubernetes accepts as a quantity when it is written as text.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Resources by name: `cpu: 4`, `memory: 16Gi`.
pub type Amounts = BTreeMap<String, Amount>;

/// A Kubernetes quantity in a manifest, from text or a bare number.
///
/// It remembers whether it was written with a binary suffix, so that `16Gi` is written back as
/// `16Gi`; two amounts are equal when their values are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    value: Quantity,
    binary: bool,
}

impl Amount {
    pub const fn get(self) -> Quantity {
        self.value
    }

    /// Written with a binary suffix where the value allows it, as memory is.
    pub const fn binary(value: Quantity) -> Self {
        Self { value, binary: true }
    }
}

impl From<Quantity> for Amount {
    fn from(value: Quantity) -> Self {
        Self { value, binary: false }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.value.units_ceil();
        if self.binary && Quantity::from_units(units) == self.value {
            f.write_str(&format_binary(units))
        } else {
            self.value.fmt(f)
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 2 or 1.5Gi")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                let value = text.parse().map_err(E::custom)?;
                Ok(Amount { value, binary: text.ends_with('i') })
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Amount, E> {
                Ok(Quantity::from_units(units).into())
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Amount, E> {
                Ok(Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)).into())
            }
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Amount, E> {
                // A bare `0.5` reaches us as a float; its shortest text is what the author wrote.
                format!("{units}").parse::<Quantity>().map(Amount::from).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "pattern": QUANTITY_PATTERN })
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole<const MIN: u32, const MAX: u32>(u32);

/// The largest number of Kubernetes' `int32` fields.
pub const INT32_MAX: u32 = i32::MAX as u32;

pub type Count = Whole<0, INT32_MAX>;
pub type Percentage = Whole<0, 100>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} is out of range; write a whole number from {min} to {max}")]
pub struct OutOfRange {
    value: i128,
    min: u32,
    max: u32,
}

impl<const MIN: u32, const MAX: u32> Whole<MIN, MAX> {
    pub fn new(value: i128) -> Result<Self, OutOfRange> {
        match u32::try_from(value) {
            Ok(small) if (MIN..=MAX).contains(&small) => Ok(Self(small)),
            _ => Err(OutOfRange { value, min: MIN, max: MAX }),
        }
    }

    /// The nearest number that is in range.
    pub const fn clamped(value: u32) -> Self {
        if value < MIN {
            Self(MIN)
        } else if value > MAX {
            Self(MAX)
        } else {
            Self(value)
        }
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<const MIN: u32, const MAX: u32>;
        impl<const MIN: u32, const MAX: u32> de::Visitor<'_> for Visitor<MIN, MAX> {
            type Value = Whole<MIN, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                Whole::new(value.into()).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                Whole::new(value.into()).map_err(E::custom)
            }
        }
        deserializer.deserialize_i64(Visitor)
    }
}

impl<const MIN: u32, const MAX: u32> Serialize for Whole<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "integer", "format": "int32", "minimum": MIN });
        if MAX < INT32_MAX {
            schema.insert("maximum".to_owned(), MAX.into());
        }
        schema
    }
}

/// A number of nodes, or a percentage of them: `3` or `10%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    Count(u32),
    Percent(Percentage),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number nor a percentage; write a whole number such as 3, or 0% to 100%")]
pub struct IntOrPercentError(String);

impl IntOrPercent {
    /// How many of `total` that is; a percentage rounds up, so that 5% of 10 nodes is one and not none.
    pub fn of(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let nodes = (u64::from(total) * u64::from(percent.get())).div_ceil(100);
                u32::try_from(nodes).unwrap_or(total)
            }
        }
    }
}

impl FromStr for IntOrPercent {
    type Err = IntOrPercentError;

    fn from_str(text: &str) -> Result<Self, IntOrPercentError> {
        let refused = || IntOrPercentError(text.to_owned());
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused());
        }
        let number: u32 = digits.parse().map_err(|_| refused())?;
        if digits.len() == text.len() {
            return Ok(Self::Count(number));
        }
        Percentage::new(number.into()).map(Self::Percent).map_err(|_| refused())
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{}%", percent.get()),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    /// From text, and from a bare number too: the schema wants text, but people write `nodes: 3`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = IntOrPercent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number such as 3, or a percentage from 0% to 100%")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<IntOrPercent, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<IntOrPercent, E> {
                u32::try_from(count)
                    .map(IntOrPercent::Count)
                    .map_err(|_| E::custom(IntOrPercentError(count.to_string())))
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<IntOrPercent, E> {
                u32::try_from(count)
                    .map(IntOrPercent::Count)
                    .map_err(|_| E::custom(IntOrPercentError(count.to_string())))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for IntOrPercent {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" })
    }
}

/// An amount of US dollars, written as a bare number, kept in micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dollars {
    micro_usd: i64,
}

impl Dollars {
    pub const fn from_whole(dollars: u32) -> Self {
        Self { micro_usd: dollars as i64 * 1_000_000 }
    }

    pub const fn micro_usd(self) -> i64 {
        self.micro_usd
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl Visitor {
            fn parse<E: de::Error>(text: &str) -> Result<Dollars, E> {
                let price: Price = text.parse().map_err(|_| {
                    E::custom(format_args!("`{text}` is not an amount of US dollars; write a number from 0 to 1000000, for example 10.5"))
                })?;
                Ok(Dollars { micro_usd: price.micro_usd() })
            }
        }
        impl de::Visitor<'_> for Visitor {
            type Value = Dollars;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of US dollars such as 10 or 10.5")
            }
            fn visit_i64<E: de::Error>(self, dollars: i64) -> Result<Dollars, E> {
                Self::parse(&dollars.to_string())
            }
            fn visit_u64<E: de::Error>(self, dollars: u64) -> Result<Dollars, E> {
                Self::parse(&dollars.to_string())
            }
            fn visit_f64<E: de::Error>(self, dollars: f64) -> Result<Dollars, E> {
                Self::parse(&dollars.to_string())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.micro_usd % 1_000_000 == 0 {
            return serializer.serialize_i64(self.micro_usd / 1_000_000);
        }
        let text = Price::from_micro_usd(self.micro_usd).to_string();
        let number: f64 = text.parse().map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

impl JsonSchema for Dollars {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

/// How many resources can be reserved. It is said in the schema as well as in a rule, because the API server takes a
/// rule over all keys only of a map whose size is bounded.
const RESERVABLE: usize = 4;
/// How many signals there are for evictions.
pub(super) const SIGNALS: usize = 6;

/// A map whose values are non-negative quantities written as text.
pub(super) fn reserved_amounts(_: &mut SchemaGenerator) -> Schema {
    let pattern = QUANTITY_PATTERN.replacen(r"(\+|-)?", r"\+?", 1);
    json_schema!({
        "type": "object", "maxProperties": RESERVABLE,
        "additionalProperties": { "type": "string", "pattern": pattern },
    })
}

/// A map of eviction thresholds: a quantity or a percentage for each signal.
pub(super) fn eviction_thresholds(_: &mut SchemaGenerator) -> Schema {
    let quantity = QUANTITY_PATTERN.trim_start_matches('^').trim_end_matches('$');
    let pattern = format!(r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%|{quantity})$");
    json_schema!({
        "type": "object", "maxProperties": SIGNALS,
        "additionalProperties": { "type": "string", "pattern": pattern },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_back_as_they_were_read() {
        for (json, text) in [
            (r#""16Gi""#, "16Gi"),
            (r#""1.5Gi""#, "1536Mi"),
            (r#""500m""#, "500m"),
            ("4", "4"),
            ("0.5", "500m"),
            (r#""1000Mi""#, "1000Mi"),
        ] {
            let amount: Amount = serde_json::from_str(json).unwrap();
            assert_eq!(amount.to_string(), text, "{json}");
        }
        let binary: Amount = serde_json::from_str(r#""1Gi""#).unwrap();
        let decimal: Amount = serde_json::from_str("1073741824").unwrap();
        assert_eq!(binary, decimal);
    }

    #[test]
    fn percentages_round_up() {
        for (text, total, nodes) in [
            ("10%", 0, 0),
            ("10%", 1, 1),
            ("10%", 10, 1),
            ("10%", 11, 2),
            ("100%", 7, 7),
            ("3", 1, 3),
            ("0", 9, 0),
        ] {
            assert_eq!(
                text.parse::<IntOrPercent>().map(|budget| budget.of(total)),
                Ok(nodes),
                "{text} of {total}"
            );
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        fn refusal<T: de::DeserializeOwned + fmt::Debug>(json: &str) -> String {
            serde_json::from_str::<T>(json).expect_err(json).to_string()
        }
        for (error, expected) in [
            (refusal::<Whole<1, 100>>("0"), "0 is out of range; write a whole number from 1 to 100"),
            (refusal::<Whole<1, 100>>("101"), "101 is out of range; write a whole number from 1 to 100"),
            (refusal::<Count>("-1"), "-1 is out of range"),
            (refusal::<Count>(r#""3""#), "expected a whole number from 0 to"),
            (refusal::<Count>("1.5"), "expected a whole number from 0 to"),
            (refusal::<IntOrPercent>(r#""101%""#), "or 0% to 100%"),
            (refusal::<IntOrPercent>(r#""1.5%""#), "or 0% to 100%"),
            (refusal::<IntOrPercent>(r#""-1""#), "or 0% to 100%"),
            (refusal::<IntOrPercent>("-1"), "or 0% to 100%"),
            (refusal::<IntOrPercent>(r#""%""#), "or 0% to 100%"),
            (refusal::<Dollars>("-1"), "write a number from 0 to 1000000"),
            (refusal::<Dollars>(r#""10""#), "expected an amount of US dollars"),
            (refusal::<Amount>(r#""4 cores""#), "unknown suffix ` cores`"),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn dollars_keep_their_cents() {
        for (json, micro_usd) in [("10", 10_000_000), ("10.0", 10_000_000), ("0.25", 250_000)] {
            let dollars: Dollars = serde_json::from_str(json).unwrap();
            assert_eq!(dollars.micro_usd(), micro_usd, "{json}");
            let again: Dollars = serde_json::from_str(&serde_json::to_string(&dollars).unwrap()).unwrap();
            assert_eq!(again, dollars, "{json}");
        }
    }
}
