//! The language of `berth catalog list --filter 'cpu>=8,arch=arm64'`: comparisons that must all hold.

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Text};
use berth_core::resources::{CPU, MEMORY, Resources};
use berth_core::units::{Price, PriceError, Quantity, QuantityError};

/// Comparisons, joined by commas; an empty text has none and matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("`{0}` has no operator; write for example cpu>=8; the operators are = != >= <= > <")]
    NoOperator(String),
    #[error(
        "`{0}` is not a key; the keys are cpu, memory, pods, gpu, price, name, arch, os, zone, capacity-type, family, and any label key or resource with a slash"
    )]
    UnknownKey(String),
    #[error("`{0}` has no value; write for example cpu>=8 or arch=arm64")]
    NoValue(String),
    #[error("`{term}` puts {key} in an order; {key} is compared with = and != only")]
    NotOrdered { term: String, key: String },
    #[error("`{term}`: {error}")]
    Quantity { term: String, error: QuantityError },
    #[error("`{term}`: {error}")]
    Price { term: String, error: PriceError },
    #[error("`{term}` compares with `{value}`; a label is put in order by whole numbers only")]
    NotAnInteger { term: String, value: String },
    #[error("`{term}`: the capacity types are {names}", names = CapacityType::NAMES)]
    CapacityType { term: String },
}

impl Filter {
    pub fn matches(&self, instance_type: &InstanceType, offering: &Offering) -> bool {
        self.terms.iter().all(|term| term.matches(instance_type, offering))
    }
}

/// The offerings that match, from the smallest type to the largest by CPU and then memory, by name among
/// equals, and within a type in the catalog's order.
pub fn select<'c>(catalog: &'c Catalog, filter: &Filter) -> Vec<(&'c Arc<InstanceType>, &'c Offering)> {
    let mut types: Vec<&Arc<InstanceType>> = catalog.types.iter().collect();
    types.sort_by_key(|t| (t.capacity.get(CPU), t.capacity.get(MEMORY), &t.name));
    types
        .into_iter()
        .flat_map(|t| t.offerings.iter().map(move |offering| (t, offering)))
        .filter(|(t, offering)| filter.matches(t, offering))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl Operator {
    /// Two characters before one, so that `>=` is not read as `>`.
    const ALL: [(&str, Self); 6] = [
        ("!=", Self::NotEqual),
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        ("=", Self::Equal),
        (">", Self::Above),
        ("<", Self::Below),
    ];

    fn is_ordering(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::AtLeast => ordering.is_ge(),
            Self::AtMost => ordering.is_le(),
            Self::Above => ordering.is_gt(),
            Self::Below => ordering.is_lt(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    operator: Operator,
    comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Comparison {
    Resource(Text, i64),
    Gpu(i64),
    Price(Price),
    Word(Word, Pattern),
    /// A label's value as text.
    Label(Text, Pattern),
    /// A label's value, or the amount of a resource of that name, as a whole number.
    Number(Text, i64),
}

/// What has a short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Name,
    Zone,
    CapacityType,
    Family,
}

/// Text in which each `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Text);

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|start| text.strip_prefix(start)) else {
            return false;
        };
        let Some(end) = parts.next_back() else {
            return rest.is_empty();
        };
        for middle in parts {
            match rest.find(middle) {
                Some(at) => rest = &rest[at + middle.len()..],
                None => return false,
            }
        }
        rest.ends_with(end)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { terms: text.split(',').map(|term| term.trim().parse()).collect::<Result<_, _>>()? })
    }
}

impl FromStr for Term {
    type Err = FilterError;

    fn from_str(term: &str) -> Result<Self, FilterError> {
        let no_operator = || FilterError::NoOperator(term.to_owned());
        let at = term.find(['!', '=', '<', '>']).ok_or_else(no_operator)?;
        let (key, rest) = (term[..at].trim(), &term[at..]);
        let (sign, operator) =
            Operator::ALL.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(no_operator)?;
        let value = rest[sign.len()..].trim();
        let comparison = Comparison::parse(term, key, operator, value)?;
        Ok(Self { operator, comparison })
    }
}

impl Comparison {
    fn parse(term: &str, key: &str, operator: Operator, value: &str) -> Result<Self, FilterError> {
        let quantity = |resource: &str| {
            let parsed = value.parse::<Quantity>().and_then(|quantity| {
                if quantity.is_negative() {
                    Err(QuantityError::Negative(value.to_owned()))
                } else {
                    Ok(Resources::amount_of(resource, quantity))
                }
            });
            parsed.map_err(|error| FilterError::Quantity { term: term.to_owned(), error })
        };
        let label_key = match key {
            "arch" => names::ARCH,
            "os" => names::OS,
            _ => names::normalized_key(key),
        };
        if value.is_empty() {
            return Err(FilterError::NoValue(term.to_owned()));
        }
        let pattern = || Pattern(value.into());
        let comparison = match key {
            "cpu" | "memory" | "pods" => Self::Resource(key.into(), quantity(key)?),
            "gpu" => Self::Gpu(quantity(key)?),
            "price" => Self::Price(
                value.parse().map_err(|error| FilterError::Price { term: term.to_owned(), error })?,
            ),
            "name" => Self::Word(Word::Name, pattern()),
            "zone" => Self::Word(Word::Zone, pattern()),
            "family" => Self::Word(Word::Family, pattern()),
            "capacity-type" if CapacityType::parse(value).is_none() => {
                return Err(FilterError::CapacityType { term: term.to_owned() });
            }
            "capacity-type" => Self::Word(Word::CapacityType, pattern()),
            _ if !label_key.contains('/') => return Err(FilterError::UnknownKey(key.to_owned())),
            _ if operator.is_ordering() && label_key == key => {
                let bound = value.parse().map_err(|_| FilterError::NotAnInteger {
                    term: term.to_owned(),
                    value: value.to_owned(),
                })?;
                return Ok(Self::Number(key.into(), bound));
            }
            _ => Self::Label(label_key.into(), pattern()),
        };
        if operator.is_ordering() && matches!(comparison, Self::Word(..) | Self::Label(..)) {
            return Err(FilterError::NotOrdered { term: term.to_owned(), key: key.to_owned() });
        }
        Ok(comparison)
    }
}

impl Term {
    fn matches(&self, instance_type: &InstanceType, offering: &Offering) -> bool {
        let number = |amount: i64, bound: i64| self.operator.holds(amount.cmp(&bound));
        // A missing label is unequal to everything and in no order.
        let text = |value: Option<&str>, pattern: &Pattern| {
            value.is_some_and(|value| pattern.matches(value)) == (self.operator == Operator::Equal)
        };
        match &self.comparison {
            Comparison::Resource(name, bound) => number(instance_type.capacity.get(name), *bound),
            Comparison::Gpu(bound) => number(gpus(instance_type), *bound),
            Comparison::Price(bound) => self.operator.holds(offering.price.cmp(bound)),
            Comparison::Word(word, pattern) => text(word.of(instance_type, offering), pattern),
            Comparison::Label(key, pattern) => match label(instance_type, offering, key) {
                None if instance_type.capacity.names(key) => {
                    text(Some(&instance_type.capacity.get(key).to_string()), pattern)
                }
                value => text(value, pattern),
            },
            Comparison::Number(key, bound) => match label(instance_type, offering, key) {
                Some(value) => value.parse().is_ok_and(|value| number(value, *bound)),
                None => instance_type.capacity.names(key) && number(instance_type.capacity.get(key), *bound),
            },
        }
    }
}

impl Word {
    fn of<'a>(self, instance_type: &'a InstanceType, offering: &'a Offering) -> Option<&'a str> {
        match self {
            Self::Name => Some(&instance_type.name),
            Self::Zone => Some(&offering.zone),
            Self::CapacityType => Some(offering.capacity_type.name()),
            Self::Family => instance_type
                .labels
                .iter()
                .find(|(key, _)| key.ends_with("/instance-family"))
                .map(|(_, family)| &**family),
        }
    }
}

fn label<'a>(instance_type: &'a InstanceType, offering: &'a Offering, key: &str) -> Option<&'a str> {
    match key {
        names::ZONE => Some(&offering.zone),
        names::CAPACITY_TYPE => Some(offering.capacity_type.name()),
        names::INSTANCE_TYPE => Some(&instance_type.name),
        _ => offering.labels.get(key).or_else(|| instance_type.labels.get(key)).map(|value| &**value),
    }
}

/// GPUs of whichever maker.
fn gpus(instance_type: &InstanceType) -> i64 {
    instance_type.capacity.iter().filter(|(name, _)| name.ends_with("/gpu")).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CatalogOptions, builtin};

    fn count(catalog: &str, filter: &str) -> (usize, usize) {
        let catalog = builtin(catalog, &CatalogOptions::default()).unwrap();
        let filter = filter.parse().unwrap_or_else(|error: FilterError| panic!("{filter}: {error}"));
        let found = select(&catalog, &filter);
        let mut types: Vec<&str> = found.iter().map(|(t, _)| &*t.name).collect();
        types.dedup();
        (types.len(), found.len())
    }

    #[test]
    fn filters_select() {
        for (catalog, filter, types, offerings) in [
            ("kwok", "", 144, 1152),
            ("kwok", "cpu>=8,arch=arm64", 54, 432),
            ("kwok", "cpu=4", 12, 96),
            ("kwok", "cpu=4000m", 12, 96),
            ("kwok", "cpu<4", 24, 192),
            ("kwok", "cpu<=4, os != windows", 18, 144),
            ("kwok", "memory>1Ti", 8, 64),
            ("kwok", "pods=16", 12, 96),
            ("kwok", "gpu>0", 0, 0),
            ("kwok", "zone=test-zone-a,capacity-type=spot", 144, 144),
            ("kwok", "zone=*-a,capacity-type!=spot", 144, 144),
            ("kwok", "price<0.02", 4, 16),
            ("kwok", "name=s-4x-*-linux", 2, 16),
            ("kwok", "name=*4x*", 24, 192),
            ("kwok", "family=m", 48, 384),
            ("kwok", "karpenter.kwok.sh/instance-cpu>128", 24, 192),
            ("kwok", "karpenter.kwok.sh/instance-memory=1Ti", 8, 64),
            ("kwok", "no.such/label!=x", 144, 1152),
            ("kwok", "no.such/label=x", 0, 0),
            ("kwok", "no.such/label>0", 0, 0),
            ("kwok", "beta.kubernetes.io/arch=amd64", 72, 576),
            ("kwok", "topology.kubernetes.io/zone=test-zone-b", 144, 288),
            ("aws-us-east-1", "gpu>=8", 13, 78),
            ("aws-us-east-1", "amd.com/gpu>=1", 5, 30),
            ("aws-us-east-1", "amd.com/gpu=4", 1, 6),
            ("aws-us-east-1", "name=m5.large,capacity-type=on-demand,price<=0.096", 1, 3),
        ] {
            assert_eq!(count(catalog, filter), (types, offerings), "{catalog} {filter}");
        }
    }

    #[test]
    fn the_order_is_by_size() {
        let catalog = builtin("kwok", &CatalogOptions::default()).unwrap();
        let filter = "arch=amd64,os=linux,zone=test-zone-a,capacity-type=spot,cpu<4".parse().unwrap();
        let found: Vec<&str> = select(&catalog, &filter).iter().map(|(t, _)| &*t.name).collect();
        let expected = ["c-1x", "s-1x", "m-1x", "c-2x", "s-2x", "m-2x"].map(|n| format!("{n}-amd64-linux"));
        assert_eq!(found, expected);
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(Pattern(pattern.into()).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn errors_say_what_exists() {
        for (filter, expected) in [
            ("cpu", "`cpu` has no operator; write for example cpu>=8; the operators are = != >= <= > <"),
            ("cpu>=8,", "`` has no operator"),
            ("cpu!8", "`cpu!8` has no operator"),
            ("colour=red", "`colour` is not a key; the keys are cpu, memory, "),
            ("=8", "`` is not a key"),
            ("cpu=", "`cpu=` has no value"),
            ("arch>arm64", "`arch>arm64` puts arch in an order; arch is compared with = and != only"),
            ("zone<=b", "`zone<=b` puts zone in an order"),
            ("cpu>=eight", "`cpu>=eight`: `eight` is not a quantity"),
            ("memory>-1Gi", "`memory>-1Gi`: `-1Gi` is negative"),
            ("cpu>==8", "`cpu>==8`: `=8` is not a quantity"),
            ("price<cheap", "`price<cheap`: `cheap` is not a price"),
            ("a/b>x", "`a/b>x` compares with `x`; a label is put in order by whole numbers only"),
            (
                "capacity-type=cheap",
                "`capacity-type=cheap`: the capacity types are on-demand, spot, reserved",
            ),
        ] {
            let error = filter.parse::<Filter>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  not {expected}");
        }
    }
}
