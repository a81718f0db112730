//! One machine for a launch, on an API that knows no tokens (docs/decisions/0014-launches-without-tokens.md).

use std::time::Duration;

use berth_core::catalog::{Catalog, OfferingPattern};
use berth_core::plan::Alternative;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::VpsieCloud;
use super::sight::Seen;
use crate::machine::{Machine, MachineState, Note, Order, Requested};
use crate::provider::{Lack, Launched, Refusal, Unavailable};
use crate::vpsie::api::{Ordered, Server};
use crate::vpsie::assign::{Assigned, Waiting, assigned};
use crate::vpsie::client::Departure;
use crate::vpsie::error::{ApiError, Breadth, Fault};
use crate::vpsie::launches::Turn;
use crate::vpsie::limiter::Lane;
use crate::vpsie::managed::Group;
use crate::vpsie::note::{Aim, Memo, SOMEBODY_ELSE, Target, number_of};
use crate::vpsie::offers::size_of;
use crate::vpsie::servers::Wanted;
use crate::vpsie::settings::{Paths, ServerPaths};

/// A note is sent within this, or another is made. So whoever reads one knows when the launch went out at the latest.
const SENT_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// How long a server may be missing from a list.
const LISTED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// How long VPSie takes to add a node to a cluster. Its own autoscaler gives up after as long.
const ADDED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// VPSie's clock and the cluster's may be so far apart.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

impl VpsieCloud {
    pub(super) async fn note(&self, order: &Order) -> Result<Note, Refusal> {
        order.check()?;
        let aim = match (self.settings.family.paths(), &order.requested) {
            (Paths::OfServers(_), None) => Aim::Tagged,
            (Paths::OfServers(_), Some(_)) => Aim::Named,
            (Paths::OfClusters, _) => self.aim(order).await?,
        };
        if let Some(requested) = &order.requested {
            // As one that may have been sent, and not by this process: so it is looked for, and never sent.
            return Ok(Memo { noted_at: requested.at, maker: SOMEBODY_ELSE, aim }.write());
        }
        let memo = Memo { noted_at: self.now(), maker: self.client.maker(), aim };
        let note = memo.write();
        self.launches().prepared(&order.token, &note, memo);
        Ok(note)
    }

    /// A node of the first alternative that was not refused before: each launch is about one group, so that it is
    /// known where to look for what came of it.
    async fn aim(&self, order: &Order) -> Result<Aim, Refusal> {
        if order.requested.as_ref().is_some_and(|requested| requested.has_joined) {
            return Ok(Aim::Named);
        }
        let catalog = self.offers.catalog(&self.client, &self.settings).await?;
        let passed_over = self.launches().passed_over(&order.token).to_vec();
        let was_refused =
            |wanted: &Alternative| passed_over.iter().any(|lack| lack.offerings == exactly(wanted));
        let mut left = order.offerings.iter().filter(|wanted| !was_refused(wanted));
        let Some((wanted, size)) = left.find_map(|wanted| Some((wanted, size_of(&catalog, wanted)?))) else {
            // What another autoscaler asked for is there, whether that is still sold or not.
            return Ok(if order.requested.is_some() { Aim::Named } else { Aim::Nothing });
        };
        let seen = self.look(Lane::Acting).await?;
        let group = seen.group(&size, &wanted.zone);
        // Of a request that was made before this look, only what says that it is younger can have come.
        let may_be_it = |node: &Server| order.requested.as_ref().is_some_and(|asked| is_since(node, asked));
        let is_known = |node: &&Server| node.is_bare() || group.is_some_and(|group| group.has(node));
        let known = seen.servers.iter().filter(is_known);
        let known = known.filter(|node| !may_be_it(node)).map(|node| number_of(&node.id)).collect();
        Ok(Aim::Node(Target { size, datacenter: wanted.zone.clone(), known }))
    }

    pub(super) async fn buy(&self, order: &Order) -> Result<Launched, Refusal> {
        order.check()?;
        let Some(note) = &order.note else {
            return Err(Refusal::Invalid("VPSie knows no tokens, so the order needs a note".to_owned()));
        };
        let memo = Memo::read(note)?;
        match (&memo.aim, self.settings.family.paths()) {
            (Aim::Tagged | Aim::Named, Paths::OfServers(paths)) => {
                self.buy_server(paths, order, note, &memo).await
            }
            (Aim::Node(target), Paths::OfClusters) => self.buy_node(order, note, &memo, Some(target)).await,
            (Aim::Nothing, Paths::OfClusters) if order.requested.is_none() => Err(self.none_left(order)),
            (Aim::Named | Aim::Nothing, Paths::OfClusters) => self.buy_node(order, note, &memo, None).await,
            _ => Err(Refusal::Invalid("the order's note is of the other kind of paths".to_owned())),
        }
    }

    async fn buy_server(
        &self,
        paths: ServerPaths,
        order: &Order,
        note: &Note,
        memo: &Memo,
    ) -> Result<Launched, Refusal> {
        let catalog = self.offers.catalog_or_last(&self.client, &self.settings).await?;
        let turn = self.launches().begin(&order.token, note, memo, &order.taken);
        match turn {
            Turn::Found(machine) => return Ok(launched(*machine)),
            Turn::Void => return Ok(Launched::Nothing),
            Turn::Send if order.is_given_up => return Ok(self.nothing(order)),
            Turn::Send => return self.send_server(paths, order, memo, &catalog).await,
            Turn::Look => {}
        }
        let seen = self.look(Lane::Acting).await?;
        let tagged = seen.servers.iter().filter(|server| server.token().as_ref() == Some(&order.token));
        let tagged = tagged.min_by_key(|server| (server.created_at, &server.id));
        let Some(server) = tagged.or_else(|| self.named(order, &seen)) else {
            if seen.servers.iter().any(|server| may_be_of(server, order)) {
                return Ok(Launched::Underway);
            }
            return Ok(self.missing(order, memo, &seen, LISTED_WITHIN));
        };
        let server =
            Server { ordered: server.ordered.clone().or_else(|| only(order, &catalog)), ..server.clone() };
        let machine = ours(order, self.describe(&server, &catalog, None));
        self.launches().found(&order.token, &machine, self.now());
        Ok(launched(machine))
    }

    /// The one machine that its node says it is, or that has a name which the request gave it and is no older than the
    /// request; and that is nobody else's. Strangers' machines have names too.
    fn named<'s>(&self, order: &Order, seen: &'s Seen) -> Option<&'s Server> {
        let requested = order.requested.as_ref()?;
        let claimed = self.launches().claimed(self.now());
        let is_called =
            |server: &Server| requested.machine.as_ref().is_some_and(|name| server.is_called(name));
        let is_named = |server: &Server| {
            requested.names.iter().any(|name| server.is_named(name)) && is_since(server, requested)
        };
        let is_free = |server: &Server| !order.taken.contains(&server.id) && !claimed.contains(&server.id);
        let is_it = |server: &&Server| {
            (is_called(server) || is_named(server)) && server.token().is_none() && is_free(server)
        };
        let mut found = seen.servers.iter().filter(is_it);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    async fn send_server(
        &self,
        paths: ServerPaths,
        order: &Order,
        memo: &Memo,
        catalog: &Catalog,
    ) -> Result<Launched, Refusal> {
        let Some(departure) = self.departure(memo) else { return Ok(self.nothing(order)) };
        let _unsent = Unsent { cloud: self, order, departure: &departure };
        let group = match paths.groups {
            Some(groups) => self.group_of_servers(groups, &order.pool).await,
            None => None,
        };
        let mut passed_over = Vec::new();
        for wanted in &order.offerings {
            let Some(size) = size_of(catalog, wanted) else {
                passed_over.push(not_offered(wanted));
                continue;
            };
            let server = Wanted { size: &size, datacenter: &wanted.zone, group };
            match self.client.create_server(paths, order, &server, &self.settings, &departure).await {
                Ok(Some(server)) => {
                    let ordered = Ordered { size, datacenter: wanted.zone.clone() };
                    let server = Server { ordered: Some(ordered), ..server };
                    let machine = ours(order, self.describe(&server, catalog, None));
                    self.launches().found(&order.token, &machine, self.now());
                    return Ok(Launched::Machine { machine, passed_over });
                }
                Ok(None) => return Ok(Launched::Underway),
                Err(error) => {
                    let (lacking, breadth) = self.lack(order, wanted, error)?;
                    passed_over.push(lacking);
                    if breadth == Breadth::Account {
                        break;
                    }
                }
            }
        }
        self.launches().void(&order.token);
        Err(Refusal::Unavailable(passed_over))
    }

    /// Without a target it is not known what was asked for, by whoever did: it is found by name, or not at all.
    async fn buy_node(
        &self,
        order: &Order,
        note: &Note,
        memo: &Memo,
        target: Option<&Target>,
    ) -> Result<Launched, Refusal> {
        let catalog = self.offers.catalog_or_last(&self.client, &self.settings).await?;
        let is_unsent = !order.is_given_up && self.launches().is_unsent(&order.token, note);
        let group = match target.filter(|_| is_unsent) {
            None => None,
            Some(target) => match self.group(target).await? {
                Found::Group(group) => Some((target, group)),
                Found::Elsewhere => return self.pass_over_datacenter(order, target, &catalog),
                Found::Refused(error) => return self.refused(order, target, &catalog, error),
            },
        };
        let turn = self.launches().begin(&order.token, note, memo, &order.taken);
        match (turn, group) {
            (Turn::Found(machine), _) => return Ok(launched(*machine)),
            (Turn::Void, _) => return Ok(Launched::Nothing),
            (Turn::Send, _) if order.is_given_up => return Ok(self.nothing(order)),
            (Turn::Send, Some((target, group))) => {
                return self.send_node(order, memo, target, &group, &catalog).await;
            }
            (Turn::Send, None) => {
                // It was prepared in just this moment, by somebody else.
                self.launches().unsent(&order.token);
                return Ok(Launched::Underway);
            }
            (Turn::Look, _) => {}
        }
        let seen = self.look(Lane::Acting).await?;
        if order.is_given_up && !self.launches().given_up(&order.token, seen.began_at) {
            return Ok(Launched::Underway);
        }
        if let Some(node) = self.named(order, &seen) {
            let group = seen.groups.iter().find(|group| group.has(node));
            let machine = ours(order, self.describe(node, &catalog, group));
            self.launches().found(&order.token, &machine, self.now());
            return Ok(launched(machine));
        }
        let Some(target) = target else { return Ok(self.missing(order, memo, &seen, ADDED_WITHIN)) };
        match self.assign(order, target, &seen, &catalog) {
            Claim::Machine(machine) => {
                let passed_over = self.launches().take_passed_over(&order.token);
                Ok(Launched::Machine { machine: *machine, passed_over })
            }
            Claim::None => Ok(self.missing(order, memo, &seen, ADDED_WITHIN)),
            Claim::Crowd { .. } if !self.is_settled(memo, &seen, ADDED_WITHIN) => Ok(Launched::Underway),
            // Which of them another autoscaler asked for, nobody will ever know.
            Claim::Crowd { .. } if order.is_given_up && order.requested.is_some() => Ok(self.nothing(order)),
            Claim::Crowd { nodes, launches } => Err(Refusal::Denied(format!(
                "the group of size {} has {nodes} new nodes where Berth launched {launches}: somebody else adds nodes to \
                 it, and which of them are Berth's cannot be known",
                target.size
            ))),
        }
    }

    async fn send_node(
        &self,
        order: &Order,
        memo: &Memo,
        target: &Target,
        group: &Group,
        catalog: &Catalog,
    ) -> Result<Launched, Refusal> {
        let Some(departure) = self.departure(memo) else { return Ok(self.nothing(order)) };
        let _unsent = Unsent { cloud: self, order, departure: &departure };
        let error = match self.client.add_node(&self.settings.cluster, group.number, &departure).await {
            Ok(Some(node)) => {
                let machine = ours(order, self.describe(&node, catalog, Some(group)));
                let mut launches = self.launches();
                let passed_over = launches.take_passed_over(&order.token);
                launches.found(&order.token, &machine, self.now());
                return Ok(Launched::Machine { machine, passed_over });
            }
            Ok(None) => return Ok(Launched::Underway),
            Err(error) => error,
        };
        self.refused(order, target, catalog, error)
    }

    /// Something that the launch needs was refused.
    fn refused(
        &self,
        order: &Order,
        target: &Target,
        catalog: &Catalog,
        error: ApiError,
    ) -> Result<Launched, Refusal> {
        let Some(wanted) = wanted_by(order, target, catalog) else {
            // The order has changed since it was noted. What was noted could not be had.
            let changed_nothing = error.fault.changed_nothing();
            return if changed_nothing { Ok(self.nothing(order)) } else { Err(error.refusal()) };
        };
        let (lacking, breadth) = self.lack(order, wanted, error)?;
        self.pass_over(order, lacking, breadth)
    }

    /// What the launch of a note is about cannot be had. Another alternative is another launch, with a note of its own.
    fn pass_over(&self, order: &Order, lacking: Unavailable, breadth: Breadth) -> Result<Launched, Refusal> {
        let is_last = {
            let mut launches = self.launches();
            launches.pass_over(&order.token, lacking);
            launches.void(&order.token);
            breadth == Breadth::Account || launches.passed_over(&order.token).len() >= order.offerings.len()
        };
        if is_last { Err(self.none_left(order)) } else { Ok(Launched::Nothing) }
    }

    /// The cluster is not where the launch would be.
    fn pass_over_datacenter(
        &self,
        order: &Order,
        target: &Target,
        catalog: &Catalog,
    ) -> Result<Launched, Refusal> {
        match wanted_by(order, target, catalog) {
            Some(wanted) => self.pass_over(order, not_offered(wanted), Breadth::Size),
            None => Ok(self.nothing(order)),
        }
    }

    /// The group of a size, made if there is none. Another may make it at the same time: there can be only one. It is
    /// made where the cluster is: VPSie does not ask where.
    async fn group(&self, target: &Target) -> Result<Found, Refusal> {
        let Target { size, datacenter, .. } = target;
        let seen = self.look(Lane::Acting).await?;
        if let Some(group) = seen.group(size, datacenter) {
            return Ok(Found::Group(group.clone()));
        }
        if seen.is_elsewhere(datacenter) {
            return Ok(Found::Elsewhere);
        }
        match self.client.create_group(&self.settings.cluster, &format!("berth-{size}"), size).await {
            Err(error) if matches!(error.fault, Fault::Quota { .. } | Fault::SoldOut { .. }) => {
                return Ok(Found::Refused(error));
            }
            made => made?,
        }
        let seen = self.look_anew().await?;
        match seen.group(size, datacenter) {
            Some(group) => Ok(Found::Group(group.clone())),
            None if seen.is_elsewhere(datacenter) => Ok(Found::Elsewhere),
            None => Err(Refusal::Unknown(format!(
                "the cluster does not show the group of size {size} in {datacenter} that it has"
            ))),
        }
    }

    /// Finds the node of a launch and claims it, so that no other launch of this process can.
    fn assign(&self, order: &Order, target: &Target, seen: &Seen, catalog: &Catalog) -> Claim {
        let mut launches = self.launches();
        let claimed = launches.claimed(self.now());
        let group = seen.group(&target.size, &target.datacenter);
        let is_free = |node: &Server| !order.taken.contains(&node.id) && !claimed.contains(&node.id);
        let takes_bare = launches.waits_alone(&order.token, target, seen.began_at);
        let fresh = fresh_nodes(seen, group, takes_bare);
        let fresh: Vec<&Server> = fresh.into_iter().filter(|node| is_free(node)).collect();
        let waiting: Vec<Waiting> = launches
            .waiting()
            .filter_map(|(token, memo, is_given_up)| match &memo.aim {
                Aim::Node(other) if other.size == target.size && other.datacenter == target.datacenter => {
                    let candidates = fresh.iter().map(|node| &node.id).filter(|id| !other.knew(id));
                    let candidates = candidates.cloned().collect();
                    let noted_at = memo.noted_at;
                    Some(Waiting { token: token.clone(), noted_at, is_given_up, candidates })
                }
                _ => None,
            })
            .collect();
        // What does not say where it is may be another's, and may be this one's: neither is it taken, nor is there nothing.
        let may_be_it = |node: &&Server| node.is_bare() && is_free(node) && !target.knew(&node.id);
        let unclear = seen.servers.iter().filter(may_be_it).count();
        if !takes_bare && fresh.is_empty() && unclear > 0 {
            return Claim::Crowd { nodes: unclear, launches: waiting.len() };
        }
        let id = match assigned(&order.token, &waiting) {
            Assigned::Node(id) => id,
            Assigned::None => return Claim::None,
            Assigned::Crowd { nodes, launches } => return Claim::Crowd { nodes, launches },
        };
        let Some(node) = fresh.into_iter().find(|node| node.id == id) else { return Claim::None };
        let machine = ours(order, self.describe(node, catalog, group));
        launches.found(&order.token, &machine, self.now());
        Claim::Machine(Box::new(machine))
    }

    /// No machine is seen. Whether there is certainly none depends on how long ago it would have been bought.
    fn missing(&self, order: &Order, memo: &Memo, seen: &Seen, shown_within: SignedDuration) -> Launched {
        let is_missing =
            self.is_settled(memo, seen, shown_within) && self.launches().missed(&order.token, seen.began_at);
        if is_missing { self.nothing(order) } else { Launched::Underway }
    }

    /// Whether whatever came of a launch had to be seen by this look.
    fn is_settled(&self, memo: &Memo, seen: &Seen, shown_within: SignedDuration) -> bool {
        let answered_within = SignedDuration::try_from(self.client.timeout()).unwrap_or(SignedDuration::MAX);
        let elapsed = seen.began_at.duration_since(memo.noted_at);
        let needed = SENT_WITHIN.saturating_add(answered_within).saturating_add(shown_within);
        elapsed >= needed
    }

    fn nothing(&self, order: &Order) -> Launched {
        self.launches().void(&order.token);
        Launched::Nothing
    }

    /// Of the launch of a note, if it may still be sent.
    fn departure(&self, memo: &Memo) -> Option<Departure> {
        let left = SENT_WITHIN.checked_sub(self.now().duration_since(memo.noted_at))?.min(SENT_WITHIN);
        let left = Duration::try_from(left).ok().filter(|left| !left.is_zero())?;
        Some(Departure::new(Instant::now() + left))
    }

    /// What cannot be had, if that is what an error says; else the error, and whether the launch can still be sent.
    fn lack(
        &self,
        order: &Order,
        wanted: &Alternative,
        error: ApiError,
    ) -> Result<(Unavailable, Breadth), Refusal> {
        match error.fault {
            Fault::Quota { message, breadth: Breadth::Account } => {
                let offerings = OfferingPattern::default();
                Ok((Unavailable { offerings, lack: Lack::Quota(message.into()) }, Breadth::Account))
            }
            Fault::Quota { message, breadth: Breadth::Size } => {
                let lack = Lack::Quota(message.into());
                Ok((Unavailable { offerings: exactly(wanted), lack }, Breadth::Size))
            }
            Fault::SoldOut { .. } => {
                Ok((Unavailable { offerings: exactly(wanted), lack: Lack::Stock }, Breadth::Size))
            }
            _ => {
                if error.fault.changed_nothing() {
                    self.launches().unsent(&order.token);
                }
                Err(error.refusal())
            }
        }
    }

    /// All alternatives have been tried.
    fn none_left(&self, order: &Order) -> Refusal {
        let mut launches = self.launches();
        launches.void(&order.token);
        let mut lacking = launches.take_passed_over(&order.token);
        let covers = |lack: &Unavailable, wanted: &Alternative| {
            lack.offerings == exactly(wanted) || lack.offerings == OfferingPattern::default()
        };
        let untold = order.offerings.iter().filter(|wanted| !lacking.iter().any(|lack| covers(lack, wanted)));
        let untold: Vec<Unavailable> = untold.map(not_offered).collect();
        lacking.extend(untold);
        Refusal::Unavailable(lacking)
    }
}

enum Found {
    Group(Group),
    /// The cluster is in another datacenter.
    Elsewhere,
    /// There can be none, for now.
    Refused(ApiError),
}

/// While a launch waits for its turn. Whoever stops waiting has not sent it.
struct Unsent<'a> {
    cloud: &'a VpsieCloud,
    order: &'a Order,
    departure: &'a Departure,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.departure.has_left() {
            self.cloud.launches().unsent(&self.order.token);
        }
    }
}

enum Claim {
    Machine(Box<Machine>),
    None,
    Crowd { nodes: usize, launches: usize },
}

/// The alternative of an order that a note is about.
fn wanted_by<'o>(order: &'o Order, target: &Target, catalog: &Catalog) -> Option<&'o Alternative> {
    order.offerings.iter().find(|wanted| {
        wanted.zone == target.datacenter && size_of(catalog, wanted).as_ref() == Some(&target.size)
    })
}

/// The nodes of a group that are not on their way out, the oldest first; with those that do not say where they are, if
/// they can be of no other.
fn fresh_nodes<'s>(seen: &'s Seen, group: Option<&Group>, takes_bare: bool) -> Vec<&'s Server> {
    let is_staying = |node: &&Server| node.state < MachineState::Stopping;
    let in_group =
        |node: &&Server| group.is_some_and(|group| group.has(node)) || (takes_bare && node.is_bare());
    let mut nodes: Vec<&Server> = seen.servers.iter().filter(in_group).filter(is_staying).collect();
    nodes.sort_by_key(|node| (node.created_at.unwrap_or(Timestamp::MAX), &node.id));
    nodes
}

/// What the order has bought, if it could have bought one thing only.
fn only(order: &Order, catalog: &Catalog) -> Option<Ordered> {
    let [wanted] = &*order.offerings else { return None };
    Some(Ordered { size: size_of(catalog, wanted)?, datacenter: wanted.zone.clone() })
}

/// Whether it may be what an order bought, though it cannot be read: all that is known of it is its names.
fn may_be_of(server: &Server, order: &Order) -> bool {
    let requested = order.requested.iter().flat_map(|requested| &requested.names);
    let mut names = requested.chain([&order.name]);
    let says_none = server.name.is_empty() && server.hostname.is_empty();
    server.unread.is_some()
        && !order.taken.contains(&server.id)
        && (says_none || names.any(|name| server.is_named(name)))
}

fn is_since(server: &Server, requested: &Requested) -> bool {
    let is_younger = |created_at: Timestamp| requested.at.duration_since(created_at) <= CLOCKS_DIFFER;
    server.created_at.is_some_and(is_younger)
}

/// What VPSie does not keep is known from the order.
fn ours(order: &Order, machine: Machine) -> Machine {
    let tags = if machine.tags.is_empty() { order.machine_tags() } else { machine.tags };
    Machine { token: Some(order.token.clone()), tags, ..machine }
}

fn launched(machine: Machine) -> Launched {
    Launched::Machine { machine, passed_over: Vec::new() }
}

fn exactly(wanted: &Alternative) -> OfferingPattern {
    OfferingPattern {
        instance_type: Some(wanted.instance_type.clone()),
        zone: Some(wanted.zone.clone()),
        capacity_type: Some(wanted.capacity_type),
    }
}

fn not_offered(wanted: &Alternative) -> Unavailable {
    Unavailable { offerings: exactly(wanted), lack: Lack::NotOffered }
}
