//! Whether a node still is what its pool asks for, and what was sold.

use std::fmt;

use crate::names::{self, Labels, Text};
use crate::requirement::{Requirements, ValueSet};
use crate::resources::{CPU, MEMORY, Resources, format_amount};

/// Why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The pool's template has changed in something that nodes are made with.
    NodePool,
    /// The class that its pool names says otherwise by now how machines are made.
    NodeClass,
    /// The pool no longer asks for a label that the node has.
    Requirements { key: Text },
    /// The cloud has the type no more.
    InstanceType,
}

impl Drift {
    pub fn name(&self) -> &'static str {
        match self {
            Self::NodePool => "NodePoolDrifted",
            Self::NodeClass => "NodeClassDrift",
            Self::Requirements { .. } => "RequirementsDrifted",
            Self::InstanceType => "InstanceTypeNotFound",
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodePool => f.write_str("the pool's template has changed"),
            Self::NodeClass => f.write_str("the pool's class has changed"),
            Self::Requirements { key } => write!(f, "the pool's requirements no longer allow its {key}"),
            Self::InstanceType => f.write_str("its type is offered no more"),
        }
    }
}

/// What was written down of a pool's template: its digest, and how that was made; and of how its class makes machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub hash: Option<Text>,
    pub version: Option<Text>,
    pub class: Option<Text>,
}

/// A node has clearly less of a resource than its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub resource: Text,
    pub sold: i64,
    pub found: i64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, sold, found } = self;
        let amount = |amount| format_amount(resource, amount);
        write!(f, "its type has {} of {resource}, and it has {}", amount(*sold), amount(*found))
    }
}

/// What a node has less of than nine tenths of what its type has; Karpenter's measure. Resources that it does not report
/// at all may never have been asked for: of those that were, it was not up before it had them.
pub fn shortfall(sold: &Resources, found: &Resources) -> Option<Shortfall> {
    sold.iter().find_map(|(resource, sold)| {
        let is_asked = [CPU, MEMORY].contains(&&**resource) || found.names(resource);
        let found = found.get(resource);
        let is_short = i128::from(found) * 10 < i128::from(sold) * 9;
        (is_asked && is_short).then(|| Shortfall { resource: resource.clone(), sold, found })
    })
}

/// A type that is missing for a moment is no reason to replace a node.
pub const TYPE_MISSING_SECS_MIN: u64 = 3600;

/// What a pool asks for, and whether its cloud offers a type.
pub type Asked<'a> = (&'a Requirements, &'a dyn Fn(&str) -> bool);

/// Why a node with these labels, made for a pool as it was then, is not what the pool asks for now.
pub fn drift(
    then: &Stamp,
    now: &Stamp,
    labels: &Labels,
    age_secs: u64,
    (requirements, offers): Asked<'_>,
) -> Option<Drift> {
    let is_comparable = then.hash.is_some() && then.version.is_some() && then.version == now.version;
    if is_comparable && then.hash != now.hash {
        return Some(Drift::NodePool);
    }
    if then.class.is_some() && now.class.is_some() && then.class != now.class {
        return Some(Drift::NodeClass);
    }
    if let Some(key) = refused(requirements, labels) {
        return Some(Drift::Requirements { key: key.clone() });
    }
    let instance_type = labels.get(names::INSTANCE_TYPE)?;
    (!offers(instance_type) && age_secs >= TYPE_MISSING_SECS_MIN).then_some(Drift::InstanceType)
}

/// What is to be written down instead of a stamp that was made another way, and so says nothing about drift any more.
/// What had drifted by what its pool said then, or was said to have, keeps its digest: that is none of the pool's now.
pub fn restamped(then: &Stamp, said: &Stamp, now: &Stamp, has_drifted: bool) -> Option<Stamp> {
    if now.hash.is_none() || then.version == now.version {
        return None;
    }
    let had_drifted = has_drifted || (then.version == said.version && then.hash != said.hash);
    let kept = then.hash.as_ref().filter(|_| had_drifted);
    Some(Stamp {
        hash: kept.or(now.hash.as_ref()).cloned(),
        version: now.version.clone(),
        class: then.class.clone(),
    })
}

/// The first key of which the labels have a value that is not asked for.
fn refused<'r>(requirements: &'r Requirements, labels: &Labels) -> Option<&'r Text> {
    let is_refused = |(key, set): &(&Text, &ValueSet)| match labels.get(*key) {
        Some(value) => !set.has(value),
        // What a node does not say is not held against it, unless it is a label of somebody's own.
        None => !names::WELL_KNOWN.contains(&&***key) && !set.may_be_absent(),
    };
    requirements.iter().find(is_refused).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::{Expression, Operator};

    #[test]
    fn what_is_short() {
        let sold = Resources::of(&[(CPU, 4000), (MEMORY, 1000), ("example.com/gpu", 2), ("pods", 110)]);
        let found = |cpu, memory, gpus: Option<i64>| {
            let gpus = gpus.map(|gpus| ("example.com/gpu", gpus));
            let amounts = [(CPU, cpu), (MEMORY, memory)].into_iter().chain(gpus);
            Resources::of(&amounts.collect::<Vec<_>>())
        };
        let cases = [
            ("all of it", found(4000, 1000, Some(2)), None),
            ("nearly all of it", found(3600, 900, Some(2)), None),
            ("too little CPU", found(3599, 1000, Some(2)), Some(CPU)),
            ("too little memory", found(4000, 899, Some(2)), Some(MEMORY)),
            ("one of two", found(4000, 1000, Some(1)), Some("example.com/gpu")),
            ("what nobody installed", found(4000, 1000, None), None),
        ];
        for (what, found, expected) in cases {
            let short = shortfall(&sold, &found);
            assert_eq!(short.as_ref().map(|short| &*short.resource), expected, "{what}");
        }
    }

    fn stamp(hash: &str, version: &str) -> Stamp {
        Stamp { hash: Some(hash.into()), version: Some(version.into()), class: Some("c".into()) }
    }

    #[test]
    fn what_is_stamped_anew() {
        let (now, old) = (stamp("now", "berth"), |hash| stamp(hash, "v3"));
        let cases = [
            ("as its pool was", old("a"), old("a"), false, Some("now")),
            ("not as its pool was", old("a"), old("b"), false, Some("a")),
            ("said to have drifted", old("a"), old("a"), true, Some("a")),
            ("of a pool that is stamped by now", old("a"), stamp("now", "berth"), false, Some("now")),
            ("never stamped", Stamp::default(), old("a"), true, Some("now")),
            ("stamped in the same way", stamp("other", "berth"), old("a"), true, None),
        ];
        for (what, then, said, has_drifted, expected) in cases {
            let stamp = restamped(&then, &said, &now, has_drifted);
            let hash = stamp.as_ref().and_then(|stamp| stamp.hash.as_deref());
            assert_eq!(hash, expected, "{what}");
            assert!(stamp.is_none_or(|stamp| stamp.version == now.version && stamp.class == then.class));
        }
        assert_eq!(restamped(&old("a"), &Stamp::default(), &Stamp::default(), false), None, "a group");
    }

    #[test]
    fn what_has_drifted() {
        let one = || stamp("1", "v1");
        let of_class = |class: Option<&str>| Stamp { class: class.map(Text::from), ..one() };
        let expression = |key: &str, values: &[&str]| {
            Expression::new(key, Operator::In, values.iter().map(|v| Text::from(*v)).collect()).unwrap()
        };
        let mut requirements = Requirements::new();
        requirements.add(&expression(names::ZONE, &["a", "b"]));
        requirements.add(&expression("team", &["red"]));
        let asked: Asked<'_> = (&requirements, &|instance_type| instance_type == "s");
        let labels = |zone: &str, team: &str, of: &str| {
            [(names::ZONE, zone), ("team", team), (names::INSTANCE_TYPE, of)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| (Text::from(key), Text::from(value)))
                .collect::<Labels>()
        };
        let requirement = |key: &str| Some(Drift::Requirements { key: key.into() });
        let fits = || labels("a", "red", "s");
        let cases = [
            ("as it was", one(), fits(), 0, None),
            ("another template", stamp("2", "v1"), fits(), 0, Some(Drift::NodePool)),
            ("another way of hashing", stamp("2", "v0"), fits(), 0, None),
            ("no hash", Stamp::default(), fits(), 0, None),
            ("another class", of_class(Some("d")), fits(), 0, Some(Drift::NodeClass)),
            ("no class then", of_class(None), fits(), 0, None),
            (
                "a zone that is no longer asked for",
                one(),
                labels("c", "red", "s"),
                0,
                requirement(names::ZONE),
            ),
            ("a zone that is not known", one(), labels("", "red", "s"), 0, None),
            ("a label that is not there", one(), labels("a", "", "s"), 0, requirement("team")),
            ("a type that is gone", one(), labels("a", "red", "t"), 3600, Some(Drift::InstanceType)),
            ("a type that is gone for a moment", one(), labels("a", "red", "t"), 60, None),
        ];
        for (what, then, labels, age, expected) in cases {
            assert_eq!(drift(&then, &one(), &labels, age, asked), expected, "{what}");
        }
    }
}
