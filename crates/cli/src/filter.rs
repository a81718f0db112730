//! Conditions on instance types and their offerings: `cpu>=8,arch=arm64`.

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

use berth_core::catalog::{Catalog, InstanceType, Offering};
use berth_core::names;
use berth_core::resources::Resources;
use berth_core::units::{Price, Quantity};

/// Conditions that must all hold. None at all let everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    subject: Subject,
    comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// The instance type's name.
    Type(String),
    /// A label of the type or of the offering.
    Label {
        key: String,
        value: String,
    },
    Price(Price),
    Resource {
        name: String,
        quantity: Quantity,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("`{0}` has no comparison; write a condition as name=value, with one of = != < <= > >=")]
    NoComparison(String),
    #[error("`{0}` has nothing to compare; write a condition as name=value")]
    NoName(String),
    #[error("`{0}` compares text by order; text can only be = or !=")]
    TextOrder(String),
    #[error("`{0}` needs a price in dollars an hour, such as price<0.5")]
    NotAPrice(String),
    #[error("`{0}` needs a quantity, such as cpu>=8 or memory<=64Gi")]
    NotAQuantity(String),
}

impl Filter {
    /// What of the catalog passes: types with the offerings that are left to them.
    pub(crate) fn apply(&self, catalog: &Catalog) -> Catalog {
        let types = catalog.types.iter().filter_map(|instance_type| {
            let mut kept = InstanceType::clone(instance_type);
            kept.offerings.retain(|offering| self.0.iter().all(|c| c.holds(instance_type, offering)));
            (!kept.offerings.is_empty()).then(|| Arc::new(kept))
        });
        Catalog { name: catalog.name.clone(), types: types.collect() }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.split(',')
            .map(str::trim)
            .filter(|term| !term.is_empty())
            .map(Condition::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Self, FilterError> {
        let start =
            text.find(['=', '!', '<', '>']).ok_or_else(|| FilterError::NoComparison(text.to_owned()))?;
        let (name, rest) = (text[..start].trim(), &text[start..]);
        let (comparison, value) =
            Comparison::split(rest).ok_or_else(|| FilterError::NoComparison(text.to_owned()))?;
        if name.is_empty() || value.is_empty() {
            return Err(FilterError::NoName(text.to_owned()));
        }
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let subject = match (name, label_key(name)) {
            ("type" | "name", _) => Subject::Type(value.to_owned()),
            ("price", _) => {
                Subject::Price(value.parse().map_err(|_| FilterError::NotAPrice(text.to_owned()))?)
            }
            (_, Some(key)) => Subject::Label { key: key.to_owned(), value: value.to_owned() },
            (_, None) => match value.parse() {
                Ok(quantity) => Subject::Resource { name: name.to_owned(), quantity },
                // A quantity of a resource, unless the name can only be a label's.
                Err(_) if name.contains('/') => {
                    Subject::Label { key: name.to_owned(), value: value.to_owned() }
                }
                Err(_) => return Err(FilterError::NotAQuantity(text.to_owned())),
            },
        };
        if matches!(subject, Subject::Type(_) | Subject::Label { .. }) && !is_equality {
            return Err(FilterError::TextOrder(text.to_owned()));
        }
        Ok(Self { subject, comparison })
    }

    fn holds(&self, instance_type: &InstanceType, offering: &Offering) -> bool {
        let ordering = match &self.subject {
            Subject::Type(name) => (*instance_type.name).cmp(name),
            Subject::Label { key, value } => match label(instance_type, offering, key) {
                Some(actual) => actual.cmp(value),
                None => return self.comparison == Comparison::NotEqual,
            },
            Subject::Price(price) => offering.price.cmp(price),
            Subject::Resource { name, quantity } => match label(instance_type, offering, name) {
                // A label that reads like a number, such as a generation, goes before a resource.
                Some(actual) => match actual.parse::<Quantity>() {
                    Ok(actual) => actual.nanos().cmp(&quantity.nanos()),
                    Err(_) => return self.comparison == Comparison::NotEqual,
                },
                None => instance_type.capacity.get(name).cmp(&Resources::amount_of(name, *quantity)),
            },
        };
        self.comparison.admits(ordering)
    }
}

impl Comparison {
    fn split(text: &str) -> Option<(Self, &str)> {
        [
            ("==", Self::Equal),
            ("!=", Self::NotEqual),
            ("<=", Self::LessOrEqual),
            (">=", Self::GreaterOrEqual),
            ("=", Self::Equal),
            ("<", Self::Less),
            (">", Self::Greater),
        ]
        .into_iter()
        .find_map(|(sign, comparison)| text.strip_prefix(sign).map(|value| (comparison, value.trim())))
    }

    fn admits(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// The labels that have a short name here.
fn label_key(name: &str) -> Option<&'static str> {
    Some(match name {
        "arch" => names::ARCH,
        "os" => names::OS,
        "zone" => names::ZONE,
        "region" => names::REGION,
        "capacity-type" | "capacity" => names::CAPACITY_TYPE,
        _ => return None,
    })
}

fn label<'a>(instance_type: &'a InstanceType, offering: &'a Offering, key: &str) -> Option<&'a str> {
    match key {
        names::ZONE => Some(&offering.zone),
        names::CAPACITY_TYPE => Some(offering.capacity_type.name()),
        _ => offering.labels.get(key).or_else(|| instance_type.labels.get(key)).map(|value| &**value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::catalog;

    #[test]
    fn filters_keep_what_matches() {
        for (filter, expected) in [
            ("", "c-2:2 c-8:2 g-8:2"),
            ("cpu>=8", "c-8:2 g-8:2"),
            ("cpu >= 8 , arch = arm64", "g-8:2"),
            ("cpu<8000m", "c-2:2"),
            ("cpu!=2", "c-8:2 g-8:2"),
            ("memory<=2000Mi", "c-2:2"),
            ("nvidia.com/gpu>=1", "g-8:2"),
            ("nvidia.com/gpu=0", "c-2:2 c-8:2"),
            ("example.com/generation>5", ""),
            ("example.com/generation>4,cpu=2", "c-2:2"),
            ("example.com/family=g", "g-8:2"),
            ("example.com/none!=g", "c-2:2 c-8:2 g-8:2"),
            ("zone=a", "c-2:1 c-8:1 g-8:1"),
            ("capacity-type!=spot,type==c-8", "c-8:1"),
            ("price<0.2", "c-2:1"),
            ("zone=nowhere", ""),
        ] {
            let kept = filter.parse::<Filter>().unwrap().apply(&catalog());
            let actual: Vec<_> =
                kept.types.iter().map(|kept| format!("{}:{}", kept.name, kept.offerings.len())).collect();
            assert_eq!(actual.join(" "), expected, "{filter}");
        }
    }

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        let whole = |text: &str| text.to_owned();
        for (filter, expected) in [
            ("cpu", FilterError::NoComparison(whole("cpu"))),
            ("cpu!8", FilterError::NoComparison(whole("cpu!8"))),
            (">=8", FilterError::NoName(whole(">=8"))),
            ("cpu>=", FilterError::NoName(whole("cpu>="))),
            ("arch>arm64", FilterError::TextOrder(whole("arch>arm64"))),
            ("price<cheap", FilterError::NotAPrice(whole("price<cheap"))),
            ("cpu>=lots", FilterError::NotAQuantity(whole("cpu>=lots"))),
        ] {
            assert_eq!(filter.parse::<Filter>(), Err(expected), "{filter}");
        }
    }
}
