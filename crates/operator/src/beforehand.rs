//! What has to be so before Berth works on a cluster. Whoever starts it is told at once what is not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{Collection, Timestamp};
use futures::{StreamExt, stream};
use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::buy::WRITES_AT_ONCE;
use crate::cluster::{Cluster, Refused};
use crate::desk::Desk;
use crate::objects::{List, Metadata};
use crate::office::Clock;
use crate::operator::Mode;
use crate::rbac::{PERMISSIONS, Part, Permission, Scope};
use crate::served::Served;
use crate::watched::Watched;

/// Why Berth does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{server} has no {}; {INSTALL}", kinds.join(" and no "))]
    Missing { server: String, kinds: Vec<String> },
    #[error("{server} serves {kind} as {served}, and Berth reads {wanted}; {INSTALL}")]
    OtherVersion { server: String, kind: String, served: String, wanted: String },
    #[error(
        "{program} is at work here: {holder} holds the lease {lease} and renewed it {secs} s ago. Two autoscalers would \
         buy and remove nodes against each other. Scale {program} down first; or use --shadow, which only reads, to \
         see beside it what Berth would do"
    )]
    Rival { program: &'static str, lease: String, holder: String, secs: u64 },
    #[error(
        "{server} does not let Berth {}; grant it with the roles of deploy/, or run as somebody who may",
        lacking.join(", ")
    )]
    Forbidden { server: String, lacking: Vec<String> },
    #[error("{server} does not say what it serves: {why}")]
    Silent { server: String, why: Refused },
}

const INSTALL: &str = "install Berth's definitions with `berth crds | kubectl apply --server-side -f -`";

/// What Berth is to do here.
#[derive(Clone, Copy, Debug)]
pub struct Undertaking<'a> {
    pub mode: Mode,
    /// It may buy from VPSie, for NodeGroups too.
    pub has_vpsie: bool,
    /// The lease of its own replicas.
    pub lease: &'a str,
    /// Where that is; `None` where no lease decides who leads.
    pub lease_namespace: Option<&'a str>,
}

impl Undertaking<'_> {
    /// Kinds without which there is nothing to do. Who only looks may be told of pools in another way.
    fn needs(&self) -> &'static [&'static str] {
        match self.mode {
            Mode::Shadow => &[],
            Mode::Act if self.has_vpsie => &VPSIES,
            Mode::Act => &KARPENTERS,
        }
    }

    fn needs_part(&self, part: Part) -> bool {
        match part {
            Part::See => true,
            Part::Act => self.mode == Mode::Act,
            Part::Vpsie => self.mode == Mode::Act && self.has_vpsie,
            Part::Simulate => false,
        }
    }

    /// All that has to be allowed, and where: anywhere, or in one namespace.
    fn deeds(&self) -> Vec<Deed<'_>> {
        let needed = PERMISSIONS.iter().filter(|permission| self.needs_part(permission.part));
        let place = |permission: &Permission| match (permission.scope, permission.resource) {
            (Scope::Cluster, _) => Some(("", permission.names.first().copied().unwrap_or_default())),
            (Scope::OwnNamespace, "leases") if permission.names.is_empty() => {
                Some((self.lease_namespace?, ""))
            }
            (Scope::OwnNamespace, "leases") => Some((self.lease_namespace?, self.lease)),
            // It is not known in which namespace a Secret is allowed.
            (Scope::OwnNamespace, _) => None,
        };
        // Whoever cannot look at others' leases does not know of rivals, and can do all else.
        let is_others =
            |permission: &&Permission| permission.scope == Scope::Cluster && permission.resource == "leases";
        needed
            .filter(|permission| !is_others(permission))
            .filter_map(|permission| Some((permission, place(permission)?)))
            .flat_map(|(permission, (namespace, name))| {
                permission.verbs.iter().map(move |verb| Deed { verb, permission, namespace, name })
            })
            .collect()
    }
}

/// The lease by which Berth's own replicas know who leads. Another program may have one of the same name elsewhere.
#[derive(Clone, Debug)]
struct OwnLease {
    namespace: String,
    name: String,
}

impl OwnLease {
    fn of(wanted: &Undertaking<'_>) -> Option<Self> {
        let namespace = wanted.lease_namespace?.to_owned();
        Some(Self { namespace, name: wanted.lease.to_owned() })
    }

    fn is(&self, lease: &Metadata) -> bool {
        self.namespace == lease.namespace && self.name == lease.name
    }
}

/// Autoscalers that would work on the same nodes, and the leases by which their replicas know who leads.
fn rivals(has_vpsie: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    RIVALS.into_iter().filter(move |(program, _)| has_vpsie || *program != VPSIES_AUTOSCALER)
}

const KARPENTERS: [&str; 2] = ["nodepools", "nodeclaims"];
const VPSIES: [&str; 2] = ["nodegroups", "vpsienodes"];

const VPSIES_AUTOSCALER: &str = "VPSie's autoscaler";

const RIVALS: [(&str, &str); 3] = [
    ("Karpenter", "karpenter-leader-election"),
    ("Cluster Autoscaler", "cluster-autoscaler"),
    (VPSIES_AUTOSCALER, "vpsie-autoscaler-leader"),
];

/// A lease that was not renewed for so long is nobody's, whatever it says. Clocks may be that far apart.
const RENEWED_SECS_MAX: u64 = 60;

/// No question takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Looks whether Berth can work here, and whether nobody else does.
pub async fn beforehand(cluster: &Cluster, clock: &Clock, wanted: Undertaking<'_>) -> Result<(), Unfit> {
    definitions(cluster, wanted).await?;
    permissions(cluster, wanted).await?;
    if wanted.mode == Mode::Act {
        let own = OwnLease::of(&wanted);
        for named in rivals(wanted.has_vpsie) {
            // Who is not known of holds nobody up.
            if let Ok(Some(rival)) = rival(cluster, clock.now(), own.as_ref(), named).await {
                return Err(rival);
            }
        }
    }
    Ok(())
}

async fn definitions(cluster: &Cluster, wanted: Undertaking<'_>) -> Result<(), Unfit> {
    let server = || cluster.server().to_owned();
    let silent = |why| Unfit::Silent { server: server(), why };
    let served = timeout(ANSWER_MAX, Served::by(cluster)).await;
    let served =
        served.unwrap_or_else(|_| Err(Refused::unsaid("nothing came".to_owned()))).map_err(silent)?;
    let mut missing = Vec::new();
    let is_known = |known: &Collection| KARPENTERS.contains(&known.plural) || VPSIES.contains(&known.plural);
    for needed in berth_api::collections().filter(is_known) {
        let kind = format!("{}.{}", needed.plural, needed.group);
        match served.versions_of(&needed).as_deref() {
            Some([]) if wanted.needs().contains(&needed.plural) => missing.push(kind),
            Some([]) => {}
            Some(versions) if !versions.contains(&needed.version) => {
                let (served, wanted) = (versions.join(", "), needed.version.to_owned());
                return Err(Unfit::OtherVersion { server: server(), kind, served, wanted });
            }
            _ => {}
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Unfit::Missing { server: server(), kinds: missing }) }
}

/// Asks the API what it would allow. What it does not say is found out later, and then told as something not seen.
async fn permissions(cluster: &Cluster, wanted: Undertaking<'_>) -> Result<(), Unfit> {
    let desk = &Desk::new(cluster.clone());
    let lacking: Vec<String> = stream::iter(wanted.deeds())
        .map(async |deed| is_denied(desk, &deed).await.then(|| deed.to_string()))
        .buffered(WRITES_AT_ONCE)
        .filter_map(async |lacking| lacking)
        .collect()
        .await;
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Unfit::Forbidden { server: cluster.server().to_owned(), lacking })
}

/// Something that has to be allowed.
struct Deed<'a> {
    verb: &'static str,
    permission: &'static Permission,
    /// Anywhere if empty.
    namespace: &'a str,
    /// All if empty.
    name: &'a str,
}

impl fmt::Display for Deed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, permission: Permission { group, resource, .. }, namespace, name } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, " of {group}")?;
        }
        match (*namespace, *name) {
            ("", _) => Ok(()),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " in {namespace} if they are named {name}"),
        }
    }
}

async fn is_denied(desk: &Desk, deed: &Deed<'_>) -> bool {
    let Deed { verb, permission, namespace, name } = deed;
    let (resource, subresource) = permission.resource.split_once('/').unwrap_or((permission.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": {
            "verb": verb, "group": permission.group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name,
        } },
    });
    let answer = desk.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    let answer: Option<Value> = answer.ok().and_then(|text| serde_json::from_str(&text).ok());
    answer.is_some_and(|review| review["status"]["allowed"] == false)
}

/// Other autoscalers, looked for while Berth works: somebody may start one later. Clones are the same.
#[derive(Clone, Debug)]
pub struct Rivals {
    has_vpsie: bool,
    own: Option<OwnLease>,
    /// By program: what is not known of one leaves what was known last.
    at_work: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

/// Much sooner than two autoscalers do much harm to each other's work.
const RIVALS_EVERY: Duration = Duration::from_mins(1);

impl Rivals {
    pub fn of(wanted: Undertaking<'_>) -> Self {
        Self { has_vpsie: wanted.has_vpsie, own: OwnLease::of(&wanted), at_work: Arc::default() }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is at work, if anybody is: then nothing is done.
    pub(crate) fn at_work(&self) -> Option<String> {
        self.found().values().next().cloned()
    }

    /// Looks for as long as this lives.
    pub(crate) async fn attend(self, cluster: Cluster, clock: Clock, watched: Watched) {
        loop {
            sleep(RIVALS_EVERY).await;
            for named @ (program, _) in rivals(self.has_vpsie) {
                let found = rival(&cluster, clock.now(), self.own.as_ref(), named).await;
                let Ok(found) = found else { continue };
                let found = found.map(|unfit| unfit.to_string());
                if self.found().get(program) == found.as_ref() {
                    continue;
                }
                self.found().remove(program);
                self.found().extend(found.map(|found| (program, found)));
                watched.wake();
            }
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Lease {
    metadata: Metadata,
    spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    renew_time: Option<Timestamp>,
}

/// Who of this program is at work, if anybody is. An error: nobody knows.
async fn rival(
    cluster: &Cluster,
    now: Timestamp,
    own: Option<&OwnLease>,
    (program, name): (&'static str, &str),
) -> Result<Option<Unfit>, Refused> {
    let path = format!("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3D{name}");
    let question = cluster.ask(Request::get(&path).body(Vec::new()));
    let answer = timeout(ANSWER_MAX, question).await;
    let answer = answer.unwrap_or_else(|_| Err(Refused::unsaid("nothing came".to_owned())));
    let list = answer.and_then(|text| {
        serde_json::from_str::<List<Lease>>(&text).map_err(|error| Refused::unsaid(error.to_string()))
    });
    if let Err(why) = &list {
        tracing::warn!(
            "cannot tell whether {program} is at work here: the leases {name} cannot be listed: {why}"
        );
    }
    let is_others = |lease: &&Lease| own.is_none_or(|own| !own.is(&lease.metadata));
    Ok(list?.items.iter().filter(is_others).find_map(|lease| renewed_by(program, lease, now)))
}

fn renewed_by(program: &'static str, lease: &Lease, now: Timestamp) -> Option<Unfit> {
    let holder = lease.spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    // A clock that is ahead of ours is as good as one that is behind.
    let secs = now.duration_since(lease.spec.renew_time?).as_secs().unsigned_abs();
    let lease = format!("{}/{}", lease.metadata.namespace, lease.metadata.name);
    (secs <= RENEWED_SECS_MAX).then_some(Unfit::Rival { program, lease, holder, secs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_that_is_held_and_renewed_is_a_rivals() {
        let now: Timestamp = "2026-03-01T09:00:00Z".parse().unwrap();
        for (holder, renewed, expected) in [
            (Some("karpenter-7d_1"), Some("2026-03-01T08:59:55Z"), Some(5)),
            (Some("karpenter-7d_1"), Some("2026-03-01T09:00:30Z"), Some(30)),
            (Some("karpenter-7d_1"), Some("2026-03-01T08:58:00Z"), None),
            (Some("karpenter-7d_1"), None, None),
            (Some(""), Some("2026-03-01T08:59:55Z"), None),
            (None, Some("2026-03-01T08:59:55Z"), None),
        ] {
            let spec = LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                renew_time: renewed.map(|time| time.parse().unwrap()),
            };
            let found = renewed_by("Karpenter", &Lease { spec, ..Lease::default() }, now);
            let secs = found.map(|unfit| match unfit {
                Unfit::Rival { secs, .. } => secs,
                other => panic!("{other}"),
            });
            assert_eq!(secs, expected, "{holder:?} {renewed:?}");
        }
    }
}
