//! Kubernetes' own kinds, reduced to the fields that Berth uses. Unknown fields are skipped.
//!
//! Texts borrow from the document where they can: a pod is read, converted and forgotten.

pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod storage;
pub(crate) mod workload;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use berth_core::units::Quantity;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

/// A text that borrows from the document unless it had escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Str<'a>(Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

/// A mapping as a list, in the document's order.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a, V>(pub(crate) Vec<(Str<'a>, V)>);

impl<V> Default for Entries<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Labels and what looks like them.
pub(crate) type StrMap<'a> = Entries<'a, Str<'a>>;

/// Amounts of resources by name.
pub(crate) type Amounts<'a> = Entries<'a, Quantity>;

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Entries<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
            type Value = Entries<'de, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(access.size_hint().unwrap_or(0).min(64));
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor(std::marker::PhantomData))
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Str<'a>>,
    pub(crate) namespace: Option<Str<'a>>,
    pub(crate) labels: StrMap<'a>,
    pub(crate) annotations: Annotations<'a>,
    pub(crate) creation_timestamp: Option<Str<'a>>,
    pub(crate) generation: Option<i64>,
    pub(crate) deletion_timestamp: Option<IgnoredAny>,
    pub(crate) owner_references: Vec<OwnerReference<'a>>,
}

/// The only annotations of built-in kinds that mean something here; others can be long.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Annotations<'a> {
    #[serde(rename = "kubernetes.io/config.mirror")]
    pub(crate) mirror: Option<IgnoredAny>,
    #[serde(rename = "storageclass.kubernetes.io/is-default-class", borrow)]
    pub(crate) default_class: Option<Str<'a>>,
    #[serde(rename = "storageclass.beta.kubernetes.io/is-default-class")]
    pub(crate) default_class_beta: Option<Str<'a>>,
    #[serde(rename = "karpenter.sh/do-not-disrupt")]
    pub(crate) do_not_disrupt: Option<Str<'a>>,
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    pub(crate) deletion_cost: Option<Str<'a>>,
    #[serde(rename = "autoscaler.vpsie.com/protected")]
    pub(crate) vpsie_protected: Option<Str<'a>>,
    #[serde(rename = "autoscaler.vpsie.com/do-not-delete")]
    pub(crate) vpsie_do_not_delete: Option<Str<'a>>,
    #[serde(rename = "autoscaler.vpsie.com/scale-down")]
    pub(crate) vpsie_scale_down: Option<Str<'a>>,
    #[serde(rename = "autoscaler.vpsie.com/scale-down-allowed-hours")]
    pub(crate) vpsie_hours: Option<Str<'a>>,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub(crate) kind: Str<'a>,
    pub(crate) name: Str<'a>,
    #[serde(default)]
    pub(crate) controller: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LabelSelector<'a> {
    #[serde(borrow)]
    pub(crate) match_labels: StrMap<'a>,
    pub(crate) match_expressions: Vec<MatchExpression<'a>>,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct MatchExpression<'a> {
    #[serde(borrow)]
    pub(crate) key: Str<'a>,
    pub(crate) operator: Str<'a>,
    #[serde(default)]
    pub(crate) values: Vec<Str<'a>>,
}

/// A whole number or a percentage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CountOrPercent {
    Count(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for CountOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl Visitor<'_> for CountVisitor {
            type Value = CountOrPercent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a percentage such as 50%")
            }
            fn visit_i64<E>(self, count: i64) -> Result<CountOrPercent, E> {
                Ok(CountOrPercent::Count(count))
            }
            fn visit_u64<E>(self, count: u64) -> Result<CountOrPercent, E> {
                Ok(CountOrPercent::Count(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            fn visit_str<E>(self, text: &str) -> Result<CountOrPercent, E> {
                Ok(CountOrPercent::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}
