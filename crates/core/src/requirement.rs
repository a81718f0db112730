//! The set algebra of node requirements: what values a label may have.
//!
//! Two readings of the same operators live here, and they differ on a missing label:
//! [`Expression::matches`] is Kubernetes' own reading against a node's labels, and [`ValueSet`] is
//! the algebra in which a pool's constraints are intersected before any node exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{Labels, Text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    pub const NAMES: &'static str = "In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte";

    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    #[error("operator {op} needs at least one value", op = .0.name())]
    NoValues(Operator),
    #[error("operator {op} takes no values", op = .0.name())]
    UnwantedValues(Operator),
    #[error("operator {op} takes exactly one whole number, not {1:?}", op = .0.name())]
    NotOneInteger(Operator, Vec<String>),
}

/// One line of a selector: a key, an operator, values. Legal by construction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    key: Text,
    operator: Operator,
    values: Vec<Text>,
    /// The operand of Gt, Lt, Gte, Lte.
    bound: i64,
}

impl Expression {
    pub fn new(
        key: impl Into<Text>,
        operator: Operator,
        mut values: Vec<Text>,
    ) -> Result<Self, RequirementError> {
        let bound = match operator {
            Operator::In | Operator::NotIn => {
                if values.is_empty() {
                    return Err(RequirementError::NoValues(operator));
                }
                values.sort();
                values.dedup();
                0
            }
            Operator::Exists | Operator::DoesNotExist => {
                if !values.is_empty() {
                    return Err(RequirementError::UnwantedValues(operator));
                }
                0
            }
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => match values.as_slice() {
                [value] => value.parse().ok(),
                _ => None,
            }
            .ok_or_else(|| {
                RequirementError::NotOneInteger(operator, values.iter().map(ToString::to_string).collect())
            })?,
        };
        Ok(Self { key: key.into(), operator, values, bound })
    }

    /// `key In [value]`.
    pub fn equals(key: impl Into<Text>, value: impl Into<Text>) -> Self {
        Self { key: key.into(), operator: Operator::In, values: vec![value.into()], bound: 0 }
    }

    pub fn key(&self) -> &Text {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Text] {
        &self.values
    }

    /// Kubernetes' reading: a missing label satisfies NotIn and DoesNotExist and nothing else.
    pub fn matches(&self, label: Option<&str>) -> bool {
        match (self.operator, label) {
            (Operator::In, Some(value)) => self.values.iter().any(|v| **v == *value),
            (Operator::NotIn, Some(value)) => !self.values.iter().any(|v| **v == *value),
            (Operator::Exists, Some(_)) | (Operator::NotIn | Operator::DoesNotExist, None) => true,
            (Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte, Some(value)) => {
                value.parse::<i64>().is_ok_and(|value| match self.operator {
                    Operator::Gt => value > self.bound,
                    Operator::Lt => value < self.bound,
                    Operator::Gte => value >= self.bound,
                    _ => value <= self.bound,
                })
            }
            (Operator::DoesNotExist, Some(_)) | (_, None) => false,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.operator.name())?;
        match self.operator {
            Operator::Exists | Operator::DoesNotExist => Ok(()),
            Operator::In | Operator::NotIn => write!(f, " [{}]", self.values.join(", ")),
            _ => write!(f, " {}", self.bound),
        }
    }
}

/// Expressions that must all hold, and expressions on the node's own fields (only `metadata.name`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    pub expressions: Vec<Expression>,
    pub fields: Vec<Expression>,
}

impl NodeTerm {
    pub fn new(expressions: Vec<Expression>) -> Self {
        Self { expressions, fields: Vec::new() }
    }

    pub fn matches(&self, labels: &Labels, node_name: &str) -> bool {
        self.matches_node(|key| labels.get(key).map(|value| &**value), node_name)
    }

    /// An empty term matches nothing, as in Kubernetes.
    pub fn matches_node<'a>(&self, label: impl Fn(&str) -> Option<&'a str>, node_name: &str) -> bool {
        (!self.expressions.is_empty() || !self.fields.is_empty())
            && self.expressions.iter().all(|e| e.matches(label(e.key())))
            && self.fields.iter().all(|f| &**f.key() == "metadata.name" && f.matches(Some(node_name)))
    }
}

impl fmt::Display for NodeTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, expression) in self.expressions.iter().chain(&self.fields).enumerate() {
            let separator = if i == 0 { "" } else { " and " };
            write!(f, "{separator}{expression}")?;
        }
        Ok(())
    }
}

/// The values that a label may have: a finite set or the complement of one, within integer bounds.
///
/// Whether the label may also be missing is kept beside it: `Exists` and `NotIn []` allow the same values
/// and differ only there, and `DoesNotExist` allows no value but absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    may_be_absent: bool,
    complement: bool,
    values: BTreeSet<Text>,
    at_least: Option<i64>,
    at_most: Option<i64>,
}

impl ValueSet {
    pub fn any() -> Self {
        Self { may_be_absent: true, complement: true, values: BTreeSet::new(), at_least: None, at_most: None }
    }

    pub fn only(value: Text) -> Self {
        let values = BTreeSet::from([value]);
        Self { may_be_absent: false, complement: false, values, at_least: None, at_most: None }
    }

    pub fn of(expression: &Expression) -> Self {
        let listed = || expression.values.iter().cloned().collect();
        let (complement, values) = match expression.operator {
            Operator::In => (false, listed()),
            Operator::NotIn => (true, listed()),
            Operator::DoesNotExist => (false, BTreeSet::new()),
            _ => (true, BTreeSet::new()),
        };
        let bound = expression.bound;
        let (at_least, at_most) = match expression.operator {
            // A bound beyond the integers leaves nothing above (below) it.
            Operator::Gt => (Some(bound.saturating_add(1)), (bound == i64::MAX).then_some(i64::MIN)),
            Operator::Lt => ((bound == i64::MIN).then_some(i64::MAX), Some(bound.saturating_sub(1))),
            Operator::Gte => (Some(bound), None),
            Operator::Lte => (None, Some(bound)),
            _ => (None, None),
        };
        let may_be_absent = matches!(expression.operator, Operator::NotIn | Operator::DoesNotExist);
        Self { may_be_absent, complement, values, at_least, at_most }
    }

    pub fn may_be_absent(&self) -> bool {
        self.may_be_absent
    }

    /// Whether a label in this state is allowed.
    pub fn admits(&self, label: Option<&str>) -> bool {
        label.map_or(self.may_be_absent, |value| self.has(value))
    }

    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|value| {
            self.at_least.is_none_or(|bound| value >= bound)
                && self.at_most.is_none_or(|bound| value <= bound)
        })
    }

    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let (complement, values) = match (self.complement, other.complement) {
            (true, true) => (true, &self.values | &other.values),
            (true, false) => (false, &other.values - &self.values),
            (false, true) => (false, &self.values - &other.values),
            (false, false) => (false, &self.values & &other.values),
        };
        let may_be_absent = self.may_be_absent && other.may_be_absent;
        let mut result = Self { may_be_absent, complement, values, at_least, at_most };
        let out_of_bounds = matches!((at_least, at_most), (Some(low), Some(high)) if low > high);
        if out_of_bounds {
            result.complement = false;
            result.values.clear();
        }
        if !result.complement {
            result.values = result.values.iter().filter(|v| result.within_bounds(v)).cloned().collect();
            (result.at_least, result.at_most) = (None, None);
        }
        result
    }

    /// No value is allowed: the label must be missing, or nothing satisfies it.
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// The values, where they are finitely many.
    pub fn finite(&self) -> Option<&BTreeSet<Text>> {
        (!self.complement).then_some(&self.values)
    }

    /// Some value of the set that is not among the excluded ones, for a label whose value nobody cares
    /// about: the smallest listed one, the lower bound, or a made-up word.
    pub fn any_value(&self) -> Option<Text> {
        if !self.complement {
            return self.values.first().cloned();
        }
        match (self.at_least, self.at_most) {
            (None, None) => (0..=self.values.len())
                .map(|i| Text::from(if i == 0 { "any".to_owned() } else { format!("any-{i}") }))
                .find(|candidate| self.has(candidate)),
            (Some(low), high) => (low..=high.unwrap_or(i64::MAX))
                .take(self.values.len() + 1)
                .map(|n| Text::from(n.to_string()))
                .find(|candidate| self.has(candidate)),
            (None, Some(high)) => (0..=i64::try_from(self.values.len()).unwrap_or(i64::MAX))
                .map(|step| Text::from(high.saturating_sub(step).to_string()))
                .find(|candidate| self.has(candidate)),
        }
    }
}

impl fmt::Display for ValueSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = || self.values.iter().map(|v| &**v).collect::<Vec<_>>().join(", ");
        match (self.complement, self.values.is_empty()) {
            (false, true) => return f.write_str("nothing"),
            (false, false) => return write!(f, "[{}]", listed()),
            (true, true) => f.write_str("any value")?,
            (true, false) => write!(f, "any value but [{}]", listed())?,
        }
        match (self.at_least, self.at_most) {
            (None, None) => Ok(()),
            (Some(low), None) => write!(f, " from {low}"),
            (None, Some(high)) => write!(f, " up to {high}"),
            (Some(low), Some(high)) => write!(f, " from {low} to {high}"),
        }
    }
}

/// A pool's constraints by key, each the intersection of all that was said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    sets: BTreeMap<Text, ValueSet>,
    /// How many different values of a key the node's alternatives must offer.
    min_values: BTreeMap<Text, u32>,
}

impl Requirements {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, expression: &Expression) {
        self.add_set(expression.key().clone(), &ValueSet::of(expression));
    }

    pub fn add_set(&mut self, key: Text, set: &ValueSet) {
        let slot = self.sets.entry(key).or_insert_with(ValueSet::any);
        *slot = slot.intersect(set);
    }

    /// Several demands on one key: the largest counts.
    pub fn set_min_values(&mut self, key: Text, count: u32) {
        let slot = self.min_values.entry(key).or_insert(0);
        *slot = (*slot).max(count);
    }

    pub fn get(&self, key: &str) -> Option<&ValueSet> {
        self.sets.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Text, &ValueSet)> {
        self.sets.iter()
    }

    pub fn min_values(&self) -> impl Iterator<Item = (&Text, u32)> {
        self.min_values.iter().map(|(key, count)| (key, *count))
    }

    pub fn has_min_values(&self) -> bool {
        !self.min_values.is_empty()
    }
}

impl FromIterator<Expression> for Requirements {
    fn from_iter<I: IntoIterator<Item = Expression>>(expressions: I) -> Self {
        let mut requirements = Self::new();
        for expression in expressions {
            requirements.add(&expression);
        }
        requirements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> Expression {
        let mut words = text.split(' ').filter(|w| !w.is_empty());
        let operator = Operator::parse(words.next().unwrap()).unwrap();
        Expression::new("k", operator, words.map(Text::from).collect()).unwrap()
    }

    #[test]
    fn expressions_match_as_kubernetes_does() {
        for (text, label, expected) in [
            ("In a b", Some("a"), true),
            ("In a b", Some("c"), false),
            ("In a", None, false),
            ("NotIn a", Some("b"), true),
            ("NotIn a", Some("a"), false),
            ("NotIn a", None, true),
            ("Exists", Some(""), true),
            ("Exists", None, false),
            ("DoesNotExist", None, true),
            ("DoesNotExist", Some("x"), false),
            ("Gt 3", Some("4"), true),
            ("Gt 3", Some("3"), false),
            ("Gt 3", Some("x"), false),
            ("Gt 3", None, false),
            ("Lt 3", Some("2"), true),
            ("Lt 3", Some("3"), false),
            ("Gte 3", Some("3"), true),
            ("Lte 3", Some("3"), true),
            ("Lte 3", Some("4"), false),
        ] {
            assert_eq!(expression(text).matches(label), expected, "{text} on {label:?}");
        }
    }

    #[test]
    fn illegal_expressions_cannot_be_built() {
        let values = |words: &[&str]| words.iter().map(|w| Text::from(*w)).collect::<Vec<_>>();
        for (operator, words) in [
            (Operator::In, &[][..]),
            (Operator::NotIn, &[]),
            (Operator::Exists, &["a"]),
            (Operator::DoesNotExist, &["a"]),
            (Operator::Gt, &[]),
            (Operator::Gt, &["a"]),
            (Operator::Lt, &["1", "2"]),
            (Operator::Gte, &["1.5"]),
        ] {
            assert!(Expression::new("k", operator, values(words)).is_err(), "{operator:?} {words:?}");
        }
    }

    #[test]
    fn intersections() {
        for (left, right, expected) in [
            ("In a b", "In b c", "[b]"),
            ("In a", "In b", "nothing"),
            ("In a b", "NotIn a", "[b]"),
            ("NotIn a", "NotIn b", "any value but [a, b]"),
            ("In 1 2 3 x", "Gt 1", "[2, 3]"),
            ("Gt 1", "Lt 5", "any value from 2 to 4"),
            ("Gt 5", "Lt 5", "nothing"),
            ("Gte 5", "Lte 5", "any value from 5 to 5"),
            ("Exists", "In a", "[a]"),
            ("DoesNotExist", "In a", "nothing"),
            ("DoesNotExist", "NotIn a", "nothing"),
            ("NotIn a", "NotIn a", "any value but [a]"),
        ] {
            let (a, b) = (ValueSet::of(&expression(left)), ValueSet::of(&expression(right)));
            assert_eq!(a.intersect(&b).to_string(), expected, "{left} ∩ {right}");
            assert_eq!(b.intersect(&a), a.intersect(&b), "{left} ∩ {right} must commute");
        }
    }

    #[test]
    fn absence_is_allowed_only_where_all_allow_it() {
        for (left, right, expected) in [
            ("NotIn a", "DoesNotExist", true),
            ("NotIn a", "NotIn b", true),
            ("NotIn a", "Exists", false),
            ("DoesNotExist", "In a", false),
            ("Gt 1", "NotIn 2", false),
        ] {
            let both = ValueSet::of(&expression(left)).intersect(&ValueSet::of(&expression(right)));
            assert_eq!(both.admits(None), expected, "{left} ∩ {right}");
        }
        assert!(ValueSet::any().admits(None));
    }

    #[test]
    fn a_set_knows_some_value_of_its_own() {
        for text in ["In b a", "NotIn any", "Exists", "Gt 3", "Lt 3", "Gte 9223372036854775807"] {
            let set = ValueSet::of(&expression(text));
            let value = set.any_value().unwrap_or_else(|| panic!("{text} has a value"));
            assert!(set.has(&value), "{text}: {value}");
        }
        assert_eq!(ValueSet::of(&expression("DoesNotExist")).any_value(), None);
    }

    #[test]
    fn an_empty_term_matches_nothing() {
        assert!(!NodeTerm::default().matches(&Labels::new(), "n"));
    }

    #[test]
    fn fields_match_the_nodes_name() {
        let field = Expression::equals("metadata.name", "n");
        let term = NodeTerm { expressions: vec![], fields: vec![field] };
        assert!(term.matches(&Labels::new(), "n"));
        assert!(!term.matches(&Labels::new(), "m"));
    }
}
