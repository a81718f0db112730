//! What nodes and pods say about being disrupted: read as it is written, judged at one instant.

use std::time::Duration;

use berth_core::disruption::{Illness, NodeDisruption, PodDisruption, Protection};
use berth_core::names::{self, Text};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::builtin::{Annotations, Metadata, Str, node as wire};
use crate::convert::Converter;
use crate::duration::{GoDuration, NillableDuration};
use crate::pools::vpsie::{self, AllowedHours};
use crate::problem::At;
use crate::resources::karpenter::NodeClaim;
use crate::resources::shared::{Condition, ConditionStatus};
use crate::vpsie::ALLOWED_HOURS;

/// `karpenter.sh/do-not-disrupt` as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DoNotDisrupt {
    #[default]
    Unset,
    Always,
    /// For so long from the start of what carries it.
    For(GoDuration),
    /// Somebody wants something, and nobody knows what. Boxed, because every pod has room for it.
    Unclear(Box<Text>),
}

impl DoNotDisrupt {
    pub(crate) fn read(value: Option<&str>) -> Self {
        match value {
            None | Some("" | "false") => Self::Unset,
            Some("true") => Self::Always,
            Some(text) => match text.parse::<GoDuration>() {
                Ok(GoDuration::ZERO) => Self::Unset,
                Ok(duration) => Self::For(duration),
                Err(_) => Self::Unclear(Box::new(text.into())),
            },
        }
    }

    /// What it comes to. What is unclear protects, and a start that is not known was just now.
    fn judged(&self, start: Option<Timestamp>, now: Timestamp) -> Protection {
        match self {
            Self::Unset => Protection::None,
            Self::Always | Self::Unclear(_) => Protection::Always,
            Self::For(duration) => {
                let passed = start.map_or(Duration::ZERO, |start| elapsed(start, now));
                match duration.as_std().saturating_sub(passed) {
                    Duration::ZERO => Protection::None,
                    left => Protection::For { secs: whole_secs(left) },
                }
            }
        }
    }

    /// What is wrong with it, and what would be right.
    fn problem(&self) -> Option<String> {
        let Self::Unclear(text) = self else { return None };
        Some(format!(
            "`{text}` is neither true nor false nor a duration such as 4h30m; as it stands it counts as true"
        ))
    }
}

/// When VPSie's annotation lets a node go, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hours {
    #[default]
    Unset,
    Of(AllowedHours),
    /// Somebody wants something, and nobody knows what.
    Unclear(Text),
}

impl Hours {
    fn read(value: Option<&str>) -> Self {
        let Some(text) = value else { return Self::Unset };
        AllowedHours::parse(text).map_or_else(|| Self::Unclear(text.into()), Self::Of)
    }

    /// What it comes to. Hours that nobody understands allow nothing: a node that was left out for them would be bought
    /// again, and all others would have to stay for it.
    fn judged(&self, now: Timestamp) -> Protection {
        match self {
            Self::Unset => Protection::None,
            Self::Of(hours) => hours.judged(now),
            Self::Unclear(_) => Protection::Always,
        }
    }

    /// What is wrong with it, and what would be right.
    fn problem(&self) -> Option<String> {
        let Self::Unclear(text) = self else { return None };
        Some(format!("{}; as it stands the node stays", AllowedHours::problem(text)))
    }
}

/// The field of an annotation.
fn annotation_field(name: &str) -> String {
    let metadata = At::ROOT.key("metadata");
    let annotations = metadata.key("annotations");
    annotations.key(name).path().to_string()
}

/// What is unclear of what something says about staying: the fields, and what is wrong with each.
pub(crate) fn unclear<'s>(
    do_not_disrupt: &'s DoNotDisrupt,
    hours: Option<&'s Hours>,
) -> impl Iterator<Item = (String, String)> + 's {
    let marked = do_not_disrupt.problem().map(|problem| (annotation_field(names::DO_NOT_DISRUPT), problem));
    let timed = hours.and_then(Hours::problem).map(|problem| (annotation_field(ALLOWED_HOURS), problem));
    marked.into_iter().chain(timed)
}

/// A time to the second, as kubelets write it, in a quarter of a `Timestamp`: there are very many pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Second(u32);

impl Second {
    /// Rounded up, so that nothing counts as older than it is; what lies outside 1970 to 2106 is at its edge.
    pub(crate) fn new(time: Timestamp) -> Self {
        let whole = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
        Self(u32::try_from(whole.max(0)).unwrap_or(u32::MAX))
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp::constant(i64::from(self.0), 0)
    }
}

/// What a pod says.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodLife {
    pub(crate) do_not_disrupt: DoNotDisrupt,
    pub(crate) deletion_cost: i32,
    pub(crate) created: Option<Second>,
    pub(crate) started: Option<Second>,
    /// Running, and its readiness, if it has one, says so too.
    pub(crate) healthy: bool,
    /// It keeps something on its node.
    pub(crate) has_local_storage: bool,
}

impl PodLife {
    pub(crate) fn judged(&self, controller: Option<&str>, now: Timestamp) -> PodDisruption {
        PodDisruption {
            protection: self.do_not_disrupt.judged(self.started.map(Second::timestamp), now),
            deletion_cost: self.deletion_cost,
            has_controller: controller.is_some(),
            returns_late: controller == Some("StatefulSet"),
            has_local_storage: self.has_local_storage,
        }
    }
}

pub(crate) fn read_deletion_cost(annotations: &Annotations<'_>, to: &mut Converter<'_>) -> i32 {
    const KEY: &str = "controller.kubernetes.io/pod-deletion-cost";
    let Some(text) = &annotations.deletion_cost else { return 0 };
    text.parse().unwrap_or_else(|_| {
        let metadata = At::ROOT.key("metadata");
        let annotations = metadata.key("annotations");
        to.findings.add(
            &annotations.key(KEY),
            format!("`{}` is not a whole number from -2147483648 to 2147483647", &**text),
        );
        0
    })
}

/// What a Node says.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLife {
    pub(crate) do_not_disrupt: DoNotDisrupt,
    pub(crate) created: Option<Timestamp>,
    pub(crate) hours: Hours,
    not_ready: bool,
    /// Conditions that are bad, with since when.
    ailments: Vec<Ailment>,
}

#[derive(Clone, Debug)]
struct Ailment {
    rule: &'static RepairRule,
    status: Text,
    because: Text,
    since: Timestamp,
}

/// How long a condition may have a status before the node counts as broken.
#[derive(Debug)]
struct RepairRule {
    condition: &'static str,
    statuses: &'static [&'static str],
    tolerated_minutes: u64,
}

/// What Karpenter's AWS provider repairs: the kubelet's own condition and those of the node monitoring agent.
const REPAIR_RULES: [RepairRule; 6] = [
    RepairRule { condition: "Ready", statuses: &["False", "Unknown"], tolerated_minutes: 30 },
    RepairRule { condition: "AcceleratedHardwareReady", statuses: &["False"], tolerated_minutes: 10 },
    RepairRule { condition: "ContainerRuntimeReady", statuses: &["False"], tolerated_minutes: 30 },
    RepairRule { condition: "KernelReady", statuses: &["False"], tolerated_minutes: 30 },
    RepairRule { condition: "NetworkingReady", statuses: &["False"], tolerated_minutes: 30 },
    RepairRule { condition: "StorageReady", statuses: &["False"], tolerated_minutes: 30 },
];

pub(crate) fn read_node_life(node: &wire::Node<'_>, to: &mut Converter<'_>) -> NodeLife {
    let status = At::ROOT.key("status");
    let list = status.key("conditions");
    let mut ailments = Vec::new();
    for rule in &REPAIR_RULES {
        for (i, condition) in node.status.conditions.iter().enumerate() {
            let bad = &*condition.kind == rule.condition && rule.statuses.contains(&&*condition.status);
            let at = list.index(i);
            let since = condition.last_transition_time.as_ref();
            if bad && let Some(since) = read_time(since, &at.key("lastTransitionTime"), to) {
                let status = to.text(&condition.status);
                let because = worded(condition.reason.as_deref(), condition.message.as_deref());
                ailments.push(Ailment { rule, status, because: because.into(), since });
            }
        }
    }
    let do_not_disrupt = if vpsie::is_protected(&node.metadata) {
        DoNotDisrupt::Always
    } else {
        DoNotDisrupt::read(node.metadata.annotations.do_not_disrupt.as_deref())
    };
    NodeLife {
        do_not_disrupt,
        created: read_creation(&node.metadata, to),
        hours: Hours::read(node.metadata.annotations.vpsie_hours.as_deref()),
        not_ready: node
            .status
            .conditions
            .iter()
            .any(|said| &*said.kind == "Ready" && &*said.status != "True"),
        ailments,
    }
}

/// A node that has joined and is not up after so long never comes up by itself.
const COMES_UP_MINUTES: u64 = 30;

impl NodeLife {
    fn protection(&self, created: Option<Timestamp>, now: Timestamp) -> Protection {
        stronger(self.do_not_disrupt.judged(self.created.or(created), now), self.hours.judged(now))
    }

    /// The first of its conditions that has been bad for too long.
    fn unhealthy(&self, now: Timestamp) -> Option<Illness> {
        let broken =
            |ailment: &&Ailment| elapsed(ailment.since, now).as_secs() >= ailment.rule.tolerated_minutes * 60;
        self.ailments.iter().find(broken).map(|Ailment { rule, status, because, .. }| {
            let RepairRule { condition, tolerated_minutes, .. } = rule;
            let colon = if because.is_empty() { "" } else { ": " };
            let message = format!(
                "{condition} has been {status} for {tolerated_minutes} minutes or more{colon}{because}"
            );
            Illness { condition: (*condition).into(), message: message.into() }
        })
    }
}

/// What a claim says.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimLife {
    pub(crate) do_not_disrupt: DoNotDisrupt,
    pub(crate) created: Option<Timestamp>,
    initialized: Option<Timestamp>,
    /// Its node has joined and is not up: since when, and what is missing.
    coming_up: Option<(Timestamp, Text)>,
    last_pod_event: Option<Timestamp>,
    drifted: Option<Text>,
    pub(crate) hours: Hours,
    expire_after: Option<GoDuration>,
    termination_grace: Option<GoDuration>,
}

pub(crate) fn read_claim_life(claim: &NodeClaim) -> ClaimLife {
    let annotations = claim.metadata.annotations.as_ref();
    let do_not_disrupt = annotations.and_then(|map| map.get(names::DO_NOT_DISRUPT)).map(String::as_str);
    let status = claim.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let holding = |name: &str| {
        let holds = |c: &&Condition| c.type_ == name && c.status == ConditionStatus::True;
        conditions.iter().find(holds)
    };
    let since = |name: &str| holding(name)?.last_transition_time.as_ref().map(|time| time.0);
    let initialized = since("Initialized");
    let awaited = || {
        let condition = conditions.iter().find(|condition| condition.type_ == "Initialized");
        condition.map(|condition| worded(condition.reason.as_deref(), condition.message.as_deref()))
    };
    ClaimLife {
        do_not_disrupt: DoNotDisrupt::read(do_not_disrupt),
        created: claim.metadata.creation_timestamp.as_ref().map(|time| time.0),
        initialized,
        coming_up: since("Registered")
            .filter(|_| initialized.is_none())
            .map(|since| (since, awaited().unwrap_or_default().into())),
        last_pod_event: status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0),
        drifted: holding("Drifted").map(|condition| {
            let words = worded(condition.reason.as_deref(), condition.message.as_deref());
            if words.is_empty() { "Drifted".into() } else { words.into() }
        }),
        hours: Hours::Unset,
        expire_after: NillableDuration::duration(claim.spec.expire_after),
        termination_grace: claim.spec.termination_grace_period,
    }
}

impl ClaimLife {
    fn protection(&self, created: Option<Timestamp>, now: Timestamp) -> Protection {
        stronger(self.do_not_disrupt.judged(created, now), self.hours.judged(now))
    }

    /// Its node has joined, and has not come up since.
    fn stuck(&self, now: Timestamp) -> Option<Illness> {
        let (since, awaited) = self.coming_up.as_ref()?;
        (elapsed(*since, now).as_secs() >= COMES_UP_MINUTES * 60).then(|| {
            let colon = if awaited.is_empty() { "" } else { ": " };
            let message = format!(
                "it has not come up in the {COMES_UP_MINUTES} minutes since it joined{colon}{awaited}"
            );
            Illness { condition: "Initialized".into(), message: message.into() }
        })
    }
}

/// The same, of a VPSieNode.
pub(crate) fn read_machine_life(metadata: &ObjectMeta, ready: Option<&Time>) -> ClaimLife {
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let do_not_disrupt = match annotation(names::DO_NOT_DISRUPT) {
        _ if crate::vpsie::is_kept(metadata) => DoNotDisrupt::Always,
        said => DoNotDisrupt::read(said),
    };
    ClaimLife {
        do_not_disrupt,
        hours: Hours::read(annotation(ALLOWED_HOURS)),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        initialized: ready.map(|time| time.0),
        ..ClaimLife::default()
    }
}

/// What node and claim, as far as there are any, come to. `newest_pod` is when the last of the pods that
/// are on the node came, where nothing better is known.
pub(crate) fn judged_node(
    node: Option<&NodeLife>,
    claim: Option<&ClaimLife>,
    newest_pod: Option<Timestamp>,
    now: Timestamp,
) -> NodeDisruption {
    let created = claim.and_then(|claim| claim.created).or_else(|| node.and_then(|node| node.created));
    let of_node = node.map(|node| node.protection(created, now));
    let of_claim = claim.map(|claim| claim.protection(created, now));
    let age_limit = claim.and_then(|claim| Some((claim.created?, claim.expire_after?)));
    let last_event = claim.and_then(|claim| claim.last_pod_event);
    let up = claim.and_then(|claim| claim.initialized).or(created);
    // Without a record of pods coming and going, those that are there tell when the last came.
    let quiet_since = last_event.or_else(|| up.map(|up| newest_pod.map_or(up, |pod| pod.max(up))));
    NodeDisruption {
        protection: stronger(of_node.unwrap_or_default(), of_claim.unwrap_or_default()),
        drifted: claim.and_then(|claim| claim.drifted.clone()),
        // What has not joined ends by itself.
        expired: node.is_some()
            && age_limit.is_some_and(|(created, limit)| elapsed(created, now) >= limit.as_std()),
        not_ready: node.is_some_and(|node| node.not_ready),
        unhealthy: node.and_then(|node| node.unhealthy(now).or_else(|| claim?.stuck(now))),
        // Told once all nodes and pods are known.
        surplus: false,
        // As its claim says, once that is known.
        unidentified: false,
        quiet_secs: quiet_since.map(|since| elapsed(since, now).as_secs()),
        termination_grace_secs: claim.and_then(|claim| claim.termination_grace).map(GoDuration::whole_secs),
        usage: None,
        others_asked_percent: None,
    }
}

pub(crate) fn stronger(a: Protection, b: Protection) -> Protection {
    match (a, b) {
        (Protection::Always, _) | (_, Protection::Always) => Protection::Always,
        (Protection::None, other) | (other, Protection::None) => other,
        (Protection::For { secs: a }, Protection::For { secs: b }) => Protection::For { secs: a.max(b) },
    }
}

/// How long ago `since` was; what is still to come was just now.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// Rounded up: nothing that is to be waited for ends early.
fn whole_secs(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

fn worded(reason: Option<&str>, message: Option<&str>) -> String {
    let parts = [reason, message].into_iter().flatten().map(str::trim).filter(|part| !part.is_empty());
    let mut parts: Vec<&str> = parts.collect();
    // Some say the same twice.
    parts.dedup();
    parts.join(": ")
}

pub(crate) fn read_creation(metadata: &Metadata<'_>, to: &mut Converter<'_>) -> Option<Timestamp> {
    let at = At::ROOT.key("metadata");
    read_time(metadata.creation_timestamp.as_ref(), &at.key("creationTimestamp"), to)
}

pub(crate) fn read_time(text: Option<&Str<'_>>, at: &At<'_>, to: &mut Converter<'_>) -> Option<Timestamp> {
    let text = text?;
    let time = text.parse().ok();
    if time.is_none() {
        let message = format!("`{}` is not a time; write it like 2026-01-31T08:00:00Z", &**text);
        to.findings.add(at, message);
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-05T12:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn do_not_disrupt() {
        for (value, start, expected) in [
            (None, None, Protection::None),
            (Some(""), None, Protection::None),
            (Some("false"), None, Protection::None),
            (Some("true"), None, Protection::Always),
            (Some("0s"), None, Protection::None),
            // Not started, and started at several times.
            (Some("4h"), None, Protection::For { secs: 14_400 }),
            (Some("4h"), Some("2026-01-05T12:00:00Z"), Protection::For { secs: 14_400 }),
            (Some("4h"), Some("2026-01-05T11:00:00Z"), Protection::For { secs: 10_800 }),
            (Some("4h"), Some("2026-01-05T08:00:01Z"), Protection::For { secs: 1 }),
            (Some("4h"), Some("2026-01-05T08:00:00.5Z"), Protection::For { secs: 1 }),
            (Some("4h"), Some("2026-01-05T08:00:00Z"), Protection::None),
            (Some("4h"), Some("2026-01-04T12:00:00Z"), Protection::None),
            // A clock that runs ahead.
            (Some("4h"), Some("2026-01-05T12:05:00Z"), Protection::For { secs: 14_400 }),
            // Whoever writes this wants to be left alone.
            (Some("True"), None, Protection::Always),
            (Some("yes"), None, Protection::Always),
            (Some("-4h"), None, Protection::Always),
            (Some("4 hours"), None, Protection::Always),
        ] {
            let read = DoNotDisrupt::read(value);
            assert_eq!(read.judged(start.map(at), at(NOW)), expected, "{value:?} since {start:?}");
        }
    }

    #[test]
    fn only_what_is_unclear_is_a_problem() {
        for (value, expected) in [
            ("true", None),
            ("4h", None),
            ("yes", Some("`yes` is neither true nor false nor a duration such as 4h30m")),
            ("5", Some("`5` is neither true nor false")),
        ] {
            let problem = DoNotDisrupt::read(Some(value)).problem();
            assert_eq!(problem.is_some(), expected.is_some(), "{value}: {problem:?}");
            assert!(problem.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{value}");
        }
        assert_eq!(
            annotation_field(names::DO_NOT_DISRUPT),
            "metadata.annotations[karpenter.sh/do-not-disrupt]"
        );
    }

    #[test]
    fn the_stronger_protection_counts() {
        let lasting = |secs| Protection::For { secs };
        for (a, b, expected) in [
            (Protection::None, Protection::None, Protection::None),
            (Protection::None, lasting(5), lasting(5)),
            (lasting(7), lasting(5), lasting(7)),
            (lasting(7), Protection::Always, Protection::Always),
        ] {
            assert_eq!(stronger(a, b), expected);
            assert_eq!(stronger(b, a), expected);
        }
    }

    #[test]
    fn words_are_not_repeated() {
        for (reason, message, expected) in [
            (None, None, ""),
            (Some("NodePoolDrifted"), Some("NodePoolDrifted"), "NodePoolDrifted"),
            (Some("AMIDrift"), Some("ami-1 is gone"), "AMIDrift: ami-1 is gone"),
            (Some(""), Some(" late "), "late"),
        ] {
            assert_eq!(worded(reason, message), expected);
        }
    }
}
