use berth_core::names;
use serde_json::{Value, json};

use super::*;

const POOL: &str = "default";

fn claim(name: &str, is_up: bool, has_end: bool) -> Arc<Claim> {
    let status = if is_up { "True" } else { "Unknown" };
    let mut object = json!({
        "metadata": { "name": name, "uid": name, "labels": { names::NODEPOOL: POOL } },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        },
        "status": { "conditions": [{
            "type": "Initialized", "status": status, "reason": "Initialized", "message": "",
            "lastTransitionTime": "2026-03-01T09:00:00Z",
        }] },
    });
    if has_end {
        object["spec"]["terminationGracePeriod"] = json!("1m");
    }
    Arc::new(Dialect::Karpenter.claim(&object.to_string()).unwrap())
}

fn node(is_closed: bool) -> Arc<NodeObject> {
    let taint = json!({ "key": names::TAINT_DISRUPTED, "effect": "NoSchedule" });
    let taints: Vec<Value> = Some(taint).filter(|_| is_closed).into_iter().collect();
    let object = json!({ "metadata": { "name": "n" }, "spec": { "taints": taints } });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// What is known of `n`, the node of `old`, in whose place `new` was bought.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
struct Facts {
    reason: DisruptionReason,
    has_end: bool,
    is_closed: bool,
    /// Whether what was bought is up; `None` where nothing was.
    replaced: Option<bool>,
    since_secs: i64,
    drain: Option<DrainCourse>,
    is_cleared: bool,
    is_protected: bool,
    is_kept_by_budget: bool,
}

fn facts() -> Facts {
    Facts {
        reason: DisruptionReason::Underutilized,
        has_end: false,
        is_closed: true,
        replaced: None,
        since_secs: 10,
        drain: None,
        is_cleared: true,
        is_protected: false,
        is_kept_by_budget: false,
    }
}

fn verdict(facts: &Facts) -> Verdict {
    let of = |is: bool| if is { BTreeSet::from([Text::from("n")]) } else { BTreeSet::new() };
    let replacements: Vec<Text> = facts.replaced.iter().map(|_| "new".into()).collect();
    let leaver = Leaver {
        pool: PoolId { dialect: Dialect::Karpenter, namespace: "".into(), name: POOL.into() },
        claim: claim("old", true, facts.has_end),
        node: Some(node(facts.is_closed)),
        departure: Departure { reason: facts.reason, replacements, since_secs: 0 },
        together: 1,
        drain: facts.drain,
    };
    let claims = facts.replaced.map(|is_up| ("new".into(), claim("new", is_up, false)));
    let cleared = if facts.is_cleared { Ok(()) } else { Err("no place".to_owned()) };
    let kept = of(facts.is_kept_by_budget).into_iter().map(|name| (name, "the budget".to_owned()));
    judge(
        &leaver,
        &Outlook {
            claims: &claims.into_iter().collect(),
            committed: &BTreeSet::new(),
            now_secs: facts.since_secs,
            cleared: &BTreeMap::from([("n".into(), cleared)]),
            protected: &of(facts.is_protected),
            kept_by_budgets: &kept.collect(),
        },
    )
}

#[test]
fn a_node_goes_once_nothing_keeps_it() {
    let late = REPLACED_SECS_MAX + 1;
    let undone = |why: &str| Verdict::Undo(why.to_owned());
    let abandoned = |why: &str| Verdict::Abandon(why.to_owned());
    let drained = |course: DrainCourse| Facts { drain: Some(course), is_kept_by_budget: true, ..facts() };
    let cases = [
        ("it takes pods", Facts { is_closed: false, ..facts() }, Verdict::Close),
        ("nothing keeps it", facts(), Verdict::Go),
        ("a pod has no place", Facts { is_cleared: false, ..facts() }, undone("no place")),
        (
            "somebody protects it",
            Facts { is_protected: true, ..facts() },
            undone("the node is protected by now"),
        ),
        ("what was bought is coming", Facts { replaced: Some(false), ..facts() }, Verdict::Wait),
        (
            "and does not come",
            Facts { replaced: Some(false), since_secs: late, ..facts() },
            abandoned("what was bought for it did not come up in time"),
        ),
        ("and is up", Facts { replaced: Some(true), since_secs: late, ..facts() }, Verdict::Go),
        ("a budget is spent", Facts { is_kept_by_budget: true, ..facts() }, undone("the budget")),
        (
            "and something was bought",
            Facts { replaced: Some(true), is_kept_by_budget: true, ..facts() },
            Verdict::Wait,
        ),
        (
            "and it stays so",
            Facts { replaced: Some(true), is_kept_by_budget: true, since_secs: late, ..facts() },
            abandoned("the budget"),
        ),
        (
            "whatever has to go in time",
            Facts { reason: DisruptionReason::Drifted, has_end: true, is_kept_by_budget: true, ..facts() },
            Verdict::Go,
        ),
        (
            "and may not have to",
            Facts { reason: DisruptionReason::Drifted, is_kept_by_budget: true, ..facts() },
            undone("the budget"),
        ),
        (
            "broken",
            Facts { reason: DisruptionReason::Unhealthy, is_kept_by_budget: true, ..facts() },
            Verdict::Go,
        ),
        ("its pods would be asked to leave", drained(DrainCourse::Begin), undone("the budget")),
        ("they are leaving", drained(DrainCourse::GoOn), Verdict::Drain),
        ("they have left", drained(DrainCourse::Done), Verdict::Go),
    ];
    for (what, facts, expected) in cases {
        assert_eq!(verdict(&facts), expected, "{what}");
    }
}
