//! Machines, as a cloud tells of them, and what is ordered of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use berth_core::catalog::CapacityType;
use berth_core::names::{self, Labels, Text};
use berth_core::plan::Alternative;
use berth_core::pod::Taint;
use berth_core::units::Price;
use jiff::Timestamp;

use crate::provider::Refusal;

/// The tag that says for which claim a machine was bought. Its value is the claim's uid.
pub const CLAIM_TAG: &str = "berth.dev/claim-uid";
/// The tag that says for which pool.
pub const POOL_TAG: &str = "berth.dev/pool";

/// What the cloud calls a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(Text);

impl MachineId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MachineId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What makes a launch happen once: the uid of the claim that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Text);

impl Token {
    /// EC2 takes no longer ones, and a uid has 36.
    const LENGTH_MAX: usize = 64;

    /// `None` unless it is 1 to 64 visible ASCII characters.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= Self::LENGTH_MAX;
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// The token that a machine's tags name.
    pub fn of_tags(tags: &Labels) -> Option<Self> {
        tags.get(CLAIM_TAG).and_then(|text| Self::parse(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    /// What its node has as `spec.providerID`.
    pub provider_id: Text,
    /// From its tags. `None`: it is not Berth's, or its tags cannot be seen yet.
    pub token: Option<Token>,
    /// The name that its node was meant to have.
    pub name: Text,
    /// Its address in the cluster's network, where the cloud says so.
    pub address: Option<Text>,
    pub instance_type: Text,
    pub zone: Text,
    pub capacity_type: CapacityType,
    /// What it cost an hour when it was launched.
    pub price: Price,
    pub state: MachineState,
    pub tags: Labels,
    pub launched_at: Timestamp,
    pub extras: Box<Extras>,
}

/// What only some clouds tell of a machine, and nothing depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its number, where it has one besides its id.
    pub number: Option<i64>,
    pub address_v6: Option<Text>,
    /// The number of the cloud's own group of nodes that it is in.
    pub group: Option<u64>,
    /// How much it may send and receive in a month.
    pub traffic_gb: Option<i64>,
    /// How it is, in the cloud's own word.
    pub status: Option<Text>,
}

/// In the order of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineState {
    Pending,
    Running,
    /// It is there and costs, and its cloud does not say that it runs.
    Halted,
    Stopping,
    /// It never comes back, and costs nothing.
    Gone,
}

/// What a cloud wants to know again if it is asked to launch for the same claim later; only it can read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note(pub Text);

/// One machine to buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub token: Token,
    /// The name that its node is to have.
    pub name: Text,
    pub pool: Text,
    /// Any of these will do; the first that can be had is bought. The prices are those of the plan: the
    /// machine says what it costs in fact.
    pub offerings: Vec<Alternative>,
    /// What the node registers with.
    pub labels: Arc<Labels>,
    pub taints: Arc<[Taint]>,
    /// The machine's tags, besides the claim's and the pool's.
    pub tags: Labels,
    pub setup: Arc<Setup>,
    /// What the cloud asked to be written down before it was first launched.
    pub note: Option<Note>,
    /// Machines that other claims have: none of them is this one's, however much it looks like it.
    pub taken: Arc<BTreeSet<MachineId>>,
    /// Nobody wants its machine any more: it is asked for only so that it can be ended, should there be one.
    pub is_given_up: bool,
    /// Somebody else has asked the cloud for its machine, which is looked for then and never bought.
    pub requested: Option<Requested>,
}

/// What is known of a machine that another autoscaler asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Not before this.
    pub at: Timestamp,
    /// Names that it may have.
    pub names: Vec<Text>,
    /// It has become a node: no machine that comes from now on can be it.
    pub has_joined: bool,
    /// What that node calls it.
    pub machine: Option<Text>,
}

/// How a machine is set up, where its cloud lets one choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub project: Option<Text>,
    pub image: Option<Text>,
    pub ssh_keys: Vec<Text>,
    pub kubernetes_version: Option<Text>,
    /// Words by which people find it.
    pub marks: Vec<Text>,
    pub notes: Option<Text>,
}

impl Order {
    /// For such a machine, and nothing more.
    pub fn new(
        token: Token,
        name: impl Into<Text>,
        pool: impl Into<Text>,
        offerings: Vec<Alternative>,
    ) -> Self {
        Self {
            token,
            name: name.into(),
            pool: pool.into(),
            offerings,
            labels: Arc::default(),
            taints: [].into(),
            tags: Labels::new(),
            setup: Arc::default(),
            note: None,
            taken: Arc::default(),
            is_given_up: false,
            requested: None,
        }
    }

    /// What every cloud would refuse.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |problem: String| Err(Refusal::Invalid(problem));
        if !names::is_dns_subdomain(&self.name) {
            return refuse(format!("`{}` cannot be the name of a node", self.name));
        }
        if self.offerings.is_empty() {
            return refuse("it names no offering".to_owned());
        }
        if let Some(tag) = [CLAIM_TAG, POOL_TAG].into_iter().find(|tag| self.tags.contains_key(*tag)) {
            return refuse(format!("the tag {tag} is not for it to give"));
        }
        Ok(())
    }

    /// All tags of its machine.
    pub fn machine_tags(&self) -> Labels {
        let mut tags = self.tags.clone();
        tags.insert(CLAIM_TAG.into(), self.token.0.clone());
        tags.insert(POOL_TAG.into(), self.pool.clone());
        tags
    }
}

/// What the cloud is going to do to a machine, without being asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    pub machine: MachineId,
    pub kind: NoticeKind,
    pub given_at: Timestamp,
    /// When it happens, if it does.
    pub deadline: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// Spot capacity is taken back: the machine ends at the deadline.
    Reclaim,
    /// A reclaim has become likely; there may be none.
    Rebalance,
    /// The host is going to be repaired: the machine ends at the deadline.
    Maintenance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let uid = "6f1f8e2a-0000-4000-8000-000000000001";
        for (text, legal) in
            [(uid, true), ("", false), ("a b", false), ("é", false), (&"x".repeat(65), false)]
        {
            assert_eq!(Token::parse(text).is_some(), legal, "{text}");
        }
    }

    type Change = fn(&mut Order);

    #[test]
    fn orders() {
        let good = Order {
            tags: Labels::from([("team".into(), "quay".into())]),
            ..Order::new(
                Token::parse("uid-1").unwrap(),
                "default-1",
                "default",
                vec![Alternative {
                    instance_type: "s-4x".into(),
                    zone: "a".into(),
                    capacity_type: CapacityType::Spot,
                    price_per_hour: Price::ZERO,
                }],
            )
        };
        let cases: [(Change, Option<&str>); 4] = [
            (|_| (), None),
            (|order| order.name = "Not A Name".into(), Some("cannot be the name of a node")),
            (|order| order.offerings.clear(), Some("names no offering")),
            (|order| drop(order.tags.insert(CLAIM_TAG.into(), "mine".into())), Some("is not for it to give")),
        ];
        for (change, problem) in cases {
            let mut order = good.clone();
            change(&mut order);
            match (order.check(), problem) {
                (Ok(()), None) => {}
                (Err(refusal), Some(problem)) => assert!(refusal.to_string().contains(problem), "{refusal}"),
                (found, expected) => panic!("{found:?} where {expected:?} was expected"),
            }
        }
        assert_eq!(Token::of_tags(&good.machine_tags()), Some(good.token.clone()));
        assert_eq!(good.machine_tags().len(), 3);
    }
}
