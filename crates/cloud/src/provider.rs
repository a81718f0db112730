//! What Berth asks of a cloud, whichever it is, and how a cloud refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use berth_core::catalog::{Catalog, OfferingPattern};
use berth_core::names::Text;

use crate::machine::{Machine, MachineId, Note, Notice, Order};

/// An answer that is on its way.
///
/// Boxed, so that a `Cloud` can be a trait object: which cloud a pool buys from is known only once its node
/// class has been read, and pools of several clouds can stand side by side. A call costs a round trip to the
/// cloud; beside that a box is nothing.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// A cloud that sells machines.
///
/// Nothing here waits for a machine, retries or remembers: whoever calls asks again later. A future that is
/// dropped may have had its effect.
pub trait Cloud: Send + Sync + fmt::Debug {
    /// What has to be written down before a launch is sent, by clouds that would not know one again by its token.
    /// An order that comes with a note may have been launched before; one that needs a note is not launched
    /// without it.
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>>;

    /// Buys a machine, at most one for each token for ever: the same token gives the same machine, whatever
    /// else the order says, and also when that machine is gone. Hence it can be repeated until it answers.
    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched>;

    /// Clouds are eventually consistent: for some minutes a new machine may be `NotFound`, and one that is
    /// gone may still be there.
    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine>;

    /// One page of the machines: from the beginning, or from where another page ended. As eventual as `get`;
    /// may name machines that are not Berth's, and machines twice. `list_all` puts the pages together.
    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page>;

    /// Ends a machine. Done is accepted, not ended: repeat until it is `NotFound`, which means that there is
    /// no such machine any more.
    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()>;

    /// All that is offered, at the prices of now.
    fn catalog(&self) -> Answer<'_, Arc<Catalog>>;

    /// All notices that stand now. Some may never be told, and some more than once.
    fn notices(&self) -> Answer<'_, Vec<Notice>>;

    /// Pools want machines in these zones: what is offered there is to be in the catalog.
    fn serve(&self, _zones: &BTreeSet<Text>) {}

    /// Whether its machines are set up as orders say. Where they are not, they are what the cloud makes them.
    fn sets_up(&self) -> bool {
        true
    }

    /// What it goes on without, as of its last answers.
    fn troubles(&self) -> BTreeSet<Trouble> {
        BTreeSet::new()
    }
}

/// Something is wrong with what a cloud is given, and it goes on without that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Trouble {
    /// A part of an answer cannot be read.
    #[error("left out, because it cannot be read: {0}")]
    Unreadable(String),
    /// Other credentials cannot be used, and the last ones are.
    #[error("{0}")]
    Credentials(String),
}

/// What became of an order that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launched {
    Machine {
        machine: Machine,
        /// Offerings that came before the one bought, and could not be had.
        passed_over: Vec<Unavailable>,
    },
    /// The cloud took the order and has no name for the machine yet: ask again with the same token.
    Underway,
    /// It is certain that no machine came of the launch that the order's note is about. Another is prepared first.
    Nothing,
}

/// Why the cloud did not do, or may not have done, what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None of the order's offerings can be had now: one entry for each.
    #[error("none of the offerings can be had: {}", listed(.0))]
    Unavailable(Vec<Unavailable>),
    #[error("the cloud is asked too often")]
    Throttled { retry_after: Option<Duration> },
    #[error("there is no machine {0}")]
    NotFound(MachineId),
    #[error("the order is not valid: {0}")]
    Invalid(String),
    #[error("the cloud does not allow it: {0}")]
    Denied(String),
    /// No answer came. It may have been done, and it may yet be done.
    #[error("whether the cloud did it is not known: {0}")]
    Unknown(String),
}

impl Refusal {
    /// Whether it is certain that the call changed nothing.
    pub fn changed_nothing(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

fn listed(offerings: &[Unavailable]) -> String {
    offerings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Offerings that cannot be had now, in the terms in which the planner takes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unavailable {
    pub offerings: OfferingPattern,
    pub lack: Lack,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// The cloud has none left.
    Stock,
    /// The account may have no more; the name is the cloud's for the quota.
    Quota(Text),
    /// The cloud does not sell it, or no longer.
    NotOffered,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OfferingPattern { instance_type, zone, capacity_type } = &self.offerings;
        f.write_str(instance_type.as_deref().unwrap_or("any type"))?;
        if let Some(zone) = zone {
            write!(f, " in {zone}")?;
        }
        if let Some(capacity_type) = capacity_type {
            write!(f, " as {capacity_type}")?;
        }
        match &self.lack {
            Lack::Stock => f.write_str(" is out of stock"),
            Lack::Quota(name) => write!(f, " is beyond the quota {name}"),
            Lack::NotOffered => f.write_str(" is not offered"),
        }
    }
}

/// Where a page ends and the next begins; only the cloud that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageMark(pub Text);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub machines: Vec<Machine>,
    /// `None`: this was the last.
    pub next: Option<PageMark>,
}

/// All machines of a cloud, as far as it told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub machines: BTreeMap<MachineId, Machine>,
    /// What stopped it before the last page. A listing that was stopped proves no machine's absence.
    pub stopped_by: Option<Refusal>,
}

/// A cloud that never comes to an end is not listened to for ever: at a hundred machines a page this is
/// ten times the largest cluster.
const PAGES_MAX: usize = 1000;

/// Asks for page after page. A machine that is named twice is taken as it is later in its life.
pub async fn list_all(cloud: &dyn Cloud) -> Listing {
    let mut listing = Listing::default();
    let mut seen: BTreeSet<PageMark> = BTreeSet::new();
    let mut mark: Option<PageMark> = None;
    for _ in 0..PAGES_MAX {
        let page = match cloud.list(mark.as_ref()).await {
            Ok(page) => page,
            Err(refusal) => return Listing { stopped_by: Some(refusal), ..listing },
        };
        for machine in page.machines {
            let known = listing.machines.get(&machine.id);
            if known.is_none_or(|known| known.state < machine.state) {
                listing.machines.insert(machine.id.clone(), machine);
            }
        }
        let Some(next) = page.next else { return listing };
        if !seen.insert(next.clone()) {
            break;
        }
        mark = Some(next);
    }
    listing.stopped_by = Some(Refusal::Unknown("the cloud's list does not end".to_owned()));
    listing
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use berth_core::catalog::CapacityType;
    use berth_core::names::Labels;
    use berth_core::units::Price;
    use jiff::Timestamp;

    use super::*;
    use crate::machine::MachineState;

    /// Pages by their number; the mark of a page is its number.
    #[derive(Debug)]
    struct Pages(Vec<Result<Told, Refusal>>);

    /// Machines, and the mark of the next page.
    type Told = (Vec<&'static str>, Option<&'static str>);

    impl Cloud for Pages {
        fn prepare<'a>(&'a self, _: &'a Order) -> Answer<'a, Option<Note>> {
            Box::pin(async { Ok(None) })
        }
        fn launch<'a>(&'a self, _: &'a Order) -> Answer<'a, Launched> {
            Box::pin(async { Ok(Launched::Underway) })
        }
        fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
            Box::pin(async { Err(Refusal::NotFound(id.clone())) })
        }
        fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
            let number = from.map_or(0, |mark| mark.0.parse().unwrap());
            let page = self.0[number].clone().map(|(machines, next)| Page {
                machines: machines.into_iter().map(machine).collect(),
                next: next.map(|mark| PageMark(mark.into())),
            });
            Box::pin(async { page })
        }
        fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
            Box::pin(async { Err(Refusal::NotFound(id.clone())) })
        }
        fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
            Box::pin(async { Err(Refusal::Denied("no".to_owned())) })
        }
        fn notices(&self) -> Answer<'_, Vec<Notice>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    /// `a` is pending, `a!` is the same machine, running.
    fn machine(text: &str) -> Machine {
        let state = if text.ends_with('!') { MachineState::Running } else { MachineState::Pending };
        Machine {
            id: text.trim_end_matches('!').into(),
            provider_id: "".into(),
            token: None,
            name: "".into(),
            address: None,
            instance_type: "".into(),
            zone: "".into(),
            capacity_type: CapacityType::Spot,
            price: Price::ZERO,
            state,
            tags: Labels::new(),
            launched_at: Timestamp::UNIX_EPOCH,
            extras: Box::default(),
        }
    }

    fn answer<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a cloud without delays must answer at once"),
        }
    }

    #[test]
    fn pages_become_a_listing() {
        let throttled = Refusal::Throttled { retry_after: None };
        let endless = Refusal::Unknown("the cloud's list does not end".to_owned());
        for (pages, machines, stopped_by) in [
            (vec![Ok((vec![], None))], "", None),
            (vec![Ok((vec!["b", "a"], Some("1"))), Ok((vec!["c"], None))], "a b c", None),
            (vec![Ok((vec!["a!", "a"], Some("1"))), Ok((vec!["a", "b"], None))], "a! b", None),
            (vec![Err(throttled.clone())], "", Some(throttled.clone())),
            (vec![Ok((vec!["a"], Some("1"))), Err(throttled.clone())], "a", Some(throttled.clone())),
            (vec![Ok((vec!["a"], Some("1"))), Ok((vec!["b"], Some("1")))], "a b", Some(endless)),
        ] {
            let listing = answer(list_all(&Pages(pages)));
            let found: Vec<String> = listing
                .machines
                .values()
                .map(|m| format!("{}{}", m.id, if m.state == MachineState::Running { "!" } else { "" }))
                .collect();
            assert_eq!((found.join(" "), listing.stopped_by), (machines.to_owned(), stopped_by));
        }
    }

    #[test]
    fn refusals_say_what_is_certain() {
        let spot = OfferingPattern { capacity_type: Some(CapacityType::Spot), ..OfferingPattern::default() };
        let exact =
            OfferingPattern { instance_type: Some("s-4x".into()), zone: Some("a".into()), ..spot.clone() };
        let lacks = vec![
            Unavailable { offerings: exact, lack: Lack::Stock },
            Unavailable { offerings: spot, lack: Lack::Quota("L-34B43A08".into()) },
            Unavailable { offerings: OfferingPattern::default(), lack: Lack::NotOffered },
        ];
        for (refusal, certain, text) in [
            (
                Refusal::Unavailable(lacks),
                true,
                "none of the offerings can be had: s-4x in a as spot is out of stock; \
                 any type as spot is beyond the quota L-34B43A08; any type is not offered",
            ),
            (Refusal::NotFound("i-1".into()), true, "there is no machine i-1"),
            (Refusal::Unknown("reset".to_owned()), false, "whether the cloud did it is not known: reset"),
        ] {
            assert_eq!((refusal.changed_nothing(), refusal.to_string()), (certain, text.to_owned()));
        }
    }
}
