//! What the input says about disruption, at noon on Monday, 2026-01-05.

use berth_core::disruption::{NodeDisruption, PodDisruption, Protection};
use berth_core::units::Price;

use super::{assembled, assembled_at, node_pool};

fn protection(protection: Protection) -> String {
    match protection {
        Protection::None => String::new(),
        Protection::Always => " protected".to_owned(),
        Protection::For { secs } => format!(" protected {secs}s"),
    }
}

fn of_node(disruption: &NodeDisruption) -> String {
    let NodeDisruption { drifted, expired, unhealthy, quiet_secs, termination_grace_secs, .. } = disruption;
    [
        Some(protection(disruption.protection)),
        drifted.as_ref().map(|why| format!(" drifted ({why})")),
        expired.then(|| " expired".to_owned()),
        unhealthy.as_ref().map(|illness| format!(" unhealthy ({})", illness.message)),
        quiet_secs.map(|secs| format!(" quiet {secs}s")),
        termination_grace_secs.map(|secs| format!(" grace {secs}s")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_pod(disruption: PodDisruption) -> String {
    let cost = match disruption.deletion_cost {
        0 => String::new(),
        cost => format!(" cost {cost}"),
    };
    let owned = if disruption.has_controller { " owned" } else { "" };
    format!("{}{cost}{owned}", protection(disruption.protection))
}

/// A line for each node, pod and budget of which something is said, and for each problem and remark.
fn facts(text: &str) -> Vec<String> {
    let assembled = assembled(text);
    let snapshot = &assembled.snapshot;
    let nodes = snapshot.nodes.iter().map(|n| format!("{}{}", n.name, of_node(&n.disruption)));
    let pods = snapshot.pods.iter().map(|p| format!("{}{}", p.id(), of_pod(p.disruption)));
    let budgets = snapshot.pod_budgets.iter().map(|budget| {
        let selector = budget.selector.as_ref().map_or("nothing".to_owned(), ToString::to_string);
        format!("{}/{} {selector}: {}", budget.namespace, budget.name, budget.disruptions_allowed)
    });
    let problems = assembled.problems.iter().map(|problem| format!("problem {problem}"));
    let remarks = assembled.remarks.iter().map(|remark| format!("remark {remark}"));
    let partial = assembled.is_partial.then(|| "partial".to_owned());
    nodes.chain(pods).chain(budgets).chain(problems).chain(remarks).chain(partial).collect()
}

fn check(manifests: &str, expected: &[&str]) {
    assert_eq!(facts(manifests), expected, "{manifests}");
}

fn node(metadata: &str, conditions: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: n1, {metadata}}}\nstatus: {{conditions: [{conditions}]}}\n---\n"
    )
}

fn claim(metadata: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: c, {metadata}}}\nspec: {{requirements: [], nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}, {spec}}}\nstatus: {{nodeName: n1, {status}}}\n---\n"
    )
}

fn pod(metadata: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{containers: [{{}}], {spec}}}\nstatus: {{{status}}}\n---\n"
    )
}

#[test]
fn nodes() {
    let drifted = "conditions: [{type: Drifted, status: 'True', reason: AMIDrift, message: ami-1 is old}]";
    for (manifests, expected) in [
        (node("", ""), "n1"),
        (node("creationTimestamp: 2026-01-05T11:00:00Z", ""), "n1 quiet 3600s"),
        (node("creationTimestamp: 2026-01-05T13:00:00Z", ""), "n1 quiet 0s"),
        (node("annotations: {karpenter.sh/do-not-disrupt: 'true'}", ""), "n1 protected"),
        (node("annotations: {karpenter.sh/do-not-disrupt: 'false'}", ""), "n1"),
        (
            node(
                "creationTimestamp: 2026-01-05T11:00:00Z, annotations: {karpenter.sh/do-not-disrupt: 3h}",
                "",
            ),
            "n1 protected 7200s quiet 3600s",
        ),
        // VPSie's ways to say so.
        (node("annotations: {autoscaler.vpsie.com/protected: 'true'}", ""), "n1 protected"),
        (node("annotations: {autoscaler.vpsie.com/protected: 'false'}", ""), "n1"),
        (node("annotations: {autoscaler.vpsie.com/scale-down: disabled}", ""), "n1 protected"),
        (node("labels: {autoscaler.vpsie.com/scale-down-disabled: 'true'}", ""), "n1 protected"),
        (node("annotations: {autoscaler.vpsie.com/scale-down-allowed-hours: '11:00-13:00'}", ""), "n1"),
        (
            node("annotations: {autoscaler.vpsie.com/scale-down-allowed-hours: '22:00-06:00'}", ""),
            "n1 protected 36000s",
        ),
        // Claims.
        (
            node("", "") + &claim("creationTimestamp: 2026-01-05T11:00:00Z", "", drifted),
            "n1 drifted (AMIDrift: ami-1 is old) quiet 3600s",
        ),
        (node("", "") + &claim("", "", "conditions: [{type: Drifted, status: 'False'}]"), "n1"),
        (
            node("", "") + &claim("", "", "conditions: [{type: Drifted, status: 'True'}]"),
            "n1 drifted (Drifted)",
        ),
        (node("", "") + &claim("annotations: {karpenter.sh/do-not-disrupt: 'true'}", "", ""), "n1 protected"),
        (node("", "") + &claim("", "terminationGracePeriod: 1h30m", ""), "n1 grace 5400s"),
        // Thirty days where the claim says nothing.
        (node("", "") + &claim("creationTimestamp: 2025-12-06T12:00:01Z", "", ""), "n1 quiet 2591999s"),
        (
            node("", "") + &claim("creationTimestamp: 2025-12-06T12:00:00Z", "", ""),
            "n1 expired quiet 2592000s",
        ),
        (
            node("", "") + &claim("creationTimestamp: 2026-01-05T11:00:00Z", "expireAfter: 1h", ""),
            "n1 expired quiet 3600s",
        ),
        (
            node("", "") + &claim("creationTimestamp: 2020-01-05T12:00:00Z", "expireAfter: Never", ""),
            "n1 quiet 189388800s",
        ),
        // A node's own age is not its claim's.
        (
            node("creationTimestamp: 2025-11-05T12:00:00Z", "") + &claim("", "expireAfter: 1h", ""),
            "n1 quiet 5270400s",
        ),
        // Quiet since the last event; else since it was up, since it was made, since its newest pod started.
        (
            node("", "")
                + &claim(
                    "creationTimestamp: 2026-01-05T11:00:00Z",
                    "",
                    "lastPodEventTime: 2026-01-05T11:59:50Z",
                ),
            "n1 quiet 10s",
        ),
        (
            node("", "")
                + &claim(
                    "creationTimestamp: 2026-01-05T11:00:00Z",
                    "",
                    "conditions: [{type: Initialized, status: 'True', lastTransitionTime: 2026-01-05T11:02:00Z}]",
                ),
            "n1 quiet 3480s",
        ),
    ] {
        check(&manifests, &[expected]);
    }
}

#[test]
fn the_newest_pod_tells_how_long_a_node_has_been_quiet() {
    let made = node("creationTimestamp: 2026-01-05T11:00:00Z", "");
    let started = |name: &str, owner: &str, time: &str| {
        pod(
            &format!("name: {name}, ownerReferences: [{owner}]"),
            "nodeName: n1",
            &format!("startTime: {time}"),
        )
    };
    let daemon = "{kind: DaemonSet, name: d, controller: true}";
    for (pods, expected) in [
        (started("a", "", "2026-01-05T11:30:00Z"), "n1 quiet 1800s"),
        (started("a", "", "2026-01-05T10:30:00Z"), "n1 quiet 3600s"),
        (started("a", daemon, "2026-01-05T11:30:00Z"), "n1 quiet 3600s"),
        (
            started("a", "", "2026-01-05T11:30:00Z") + &started("b", "", "2026-01-05T11:20:00Z"),
            "n1 quiet 1800s",
        ),
    ] {
        assert_eq!(facts(&[&*made, &*pods].concat())[0], expected, "{pods}");
    }
}

#[test]
fn health() {
    let long_ago = "lastTransitionTime: 2026-01-05T11:30:00Z";
    let lately = "lastTransitionTime: 2026-01-05T11:30:01Z";
    let minutes = |condition: &str, status: &str, minutes: u32| {
        format!("n1 unhealthy ({condition} has been {status} for {minutes} minutes or more)")
    };
    for (condition, expected) in [
        (format!("{{type: Ready, status: 'True', {long_ago}}}"), "n1".to_owned()),
        (format!("{{type: Ready, status: 'False', {long_ago}}}"), minutes("Ready", "False", 30)),
        (format!("{{type: Ready, status: Unknown, {long_ago}}}"), minutes("Ready", "Unknown", 30)),
        (format!("{{type: Ready, status: 'False', {lately}}}"), "n1".to_owned()),
        ("{type: Ready, status: 'False'}".to_owned(), "n1".to_owned()),
        (format!("{{type: DiskPressure, status: 'True', {long_ago}}}"), "n1".to_owned()),
        (format!("{{type: StorageReady, status: 'False', {long_ago}}}"), minutes("StorageReady", "False", 30)),
        (format!("{{type: StorageReady, status: Unknown, {long_ago}}}"), "n1".to_owned()),
        (format!("{{type: NetworkingReady, status: 'False', {long_ago}}}"), minutes("NetworkingReady", "False", 30)),
        (format!("{{type: KernelReady, status: 'False', {long_ago}}}"), minutes("KernelReady", "False", 30)),
        (format!("{{type: ContainerRuntimeReady, status: 'False', {lately}}}"), "n1".to_owned()),
        (
            format!("{{type: AcceleratedHardwareReady, status: 'False', {lately}}}"),
            minutes("AcceleratedHardwareReady", "False", 10),
        ),
        (
            format!("{{type: Ready, status: Unknown, reason: NodeStatusUnknown, message: Kubelet is silent., {long_ago}}}"),
            "n1 unhealthy (Ready has been Unknown for 30 minutes or more: NodeStatusUnknown: Kubelet is silent.)"
                .to_owned(),
        ),
    ] {
        check(&node("", &condition), &[&expected]);
    }
}

#[test]
fn pods() {
    let annotated = |annotations: &str, status: &str| {
        pod(&format!("name: p, annotations: {{{annotations}}}"), "", status)
    };
    for (manifest, expected) in [
        (pod("name: p", "", ""), "default/p"),
        (annotated("karpenter.sh/do-not-disrupt: 'true'", ""), "default/p protected"),
        (annotated("karpenter.sh/do-not-disrupt: 'false'", ""), "default/p"),
        (annotated("karpenter.sh/do-not-disrupt: 2h", "startTime: 2026-01-05T11:00:00Z"), "default/p protected 3600s"),
        (annotated("karpenter.sh/do-not-disrupt: 2h", "startTime: 2026-01-05T10:00:00Z"), "default/p"),
        (annotated("karpenter.sh/do-not-disrupt: 2h", ""), "default/p protected 7200s"),
        (annotated("controller.kubernetes.io/pod-deletion-cost: '-100'", ""), "default/p cost -100"),
        (pod("name: p, ownerReferences: [{kind: ReplicaSet, name: r, controller: true}]", "", ""), "default/p owned"),
        (pod("name: p, ownerReferences: [{kind: ReplicaSet, name: r}]", "", ""), "default/p"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 1, template: {spec: {containers: [{}]}}}"
                .to_owned(),
            "default/d-0 owned",
        ),
    ] {
        check(&manifest, &[expected]);
    }
}

#[test]
fn what_is_unclear_protects_and_is_reported() {
    let problem =
        "`soon` is neither true nor false nor a duration such as 4h30m; as it stands it counts as true";
    let annotation = "karpenter.sh/do-not-disrupt: soon";
    check(
        &pod(&format!("name: p, annotations: {{{annotation}}}"), "", ""),
        &[
            "default/p protected",
            &format!(
                "problem in.yaml:3: Pod/p: metadata.annotations[karpenter.sh/do-not-disrupt]: {problem}"
            ),
        ],
    );
    check(
        &node(&format!("\n  annotations:\n    {annotation}\n"), "")
            .replace("{name: n1, ", "\n  name: n1")
            .replace("\n}", ""),
        &[
            "n1 protected",
            &format!(
                "problem in.yaml:6: Node/n1: metadata.annotations[karpenter.sh/do-not-disrupt]: {problem}"
            ),
        ],
    );
    check(
        &node("annotations: {autoscaler.vpsie.com/scale-down-allowed-hours: night}", ""),
        &[
            "n1 protected",
            "problem in.yaml:3: Node/n1: metadata.annotations[autoscaler.vpsie.com/scale-down-allowed-hours]: `night` are no hours of the day; write them like 22:00-06:00; as it stands the node stays",
        ],
    );
    check(
        &claim(&format!("annotations: {{{annotation}}}"), "", ""),
        &[
            "c protected",
            &format!(
                "problem in.yaml:3: NodeClaim/c: metadata.annotations[karpenter.sh/do-not-disrupt]: {problem}"
            ),
        ],
    );
}

#[test]
fn what_cannot_be_read_leaves_the_view_partial() {
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    for (manifest, expected) in [
        (
            pod(&format!("name: p, annotations: {{{cost}: lots}}"), "", ""),
            "problem in.yaml:3: Pod/p: metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: `lots` is not a whole number from -2147483648 to 2147483647",
        ),
        (
            pod("name: p", "", "startTime: yesterday"),
            "problem in.yaml:5: Pod/p: status.startTime: `yesterday` is not a time; write it like 2026-01-31T08:00:00Z",
        ),
        (
            node("creationTimestamp: 5", ""),
            "problem in.yaml:3: Node/n1: metadata.creationTimestamp: is integer `5`, but must be a string; put it in quotes",
        ),
        (
            pod("name: p", "priorityClassName: none", ""),
            "problem in.yaml:4: Pod/p: spec.priorityClassName: the PriorityClass `none` is not in the input; add it, or use one of system-cluster-critical, system-node-critical",
        ),
    ] {
        check(&manifest, &[expected, "partial"]);
    }
}

#[test]
fn pod_budgets() {
    let web = |name: &str, status: &str| {
        pod(&format!("name: {name}, labels: {{app: web}}"), "nodeName: n1", status)
    };
    let pods = [
        web("a", "phase: Running"),
        web("b", "phase: Running, conditions: [{type: Ready, status: 'True'}]"),
        web("c", "phase: Running, conditions: [{type: Ready, status: 'False'}]"),
        web("d", "phase: Pending"),
        web("e", "phase: Succeeded"),
        web("f, deletionTimestamp: 2026-01-05T11:00:00Z", "phase: Running"),
        pod("name: other", "nodeName: n1", "phase: Running"),
        pod("name: far, namespace: far, labels: {app: web}", "nodeName: n1", "phase: Running"),
    ]
    .concat();
    let budget = |metadata: &str, spec: &str, status: &str| {
        format!(
            "{pods}apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b, {metadata}}}\nspec: {{{spec}}}\nstatus: {{{status}}}\n"
        )
    };
    let select = "selector: {matchLabels: {app: web}}";
    // Four are expected, two are up.
    for (manifests, expected) in [
        (budget("", &format!("{select}, minAvailable: 1"), ""), "default/b app In [web]: 1"),
        (budget("", &format!("{select}, minAvailable: 30%"), ""), "default/b app In [web]: 0"),
        (budget("", &format!("{select}, minAvailable: 25%"), ""), "default/b app In [web]: 1"),
        (budget("", &format!("{select}, maxUnavailable: 3"), ""), "default/b app In [web]: 1"),
        (budget("", &format!("{select}, maxUnavailable: 51%"), ""), "default/b app In [web]: 1"),
        (budget("", &format!("{select}, maxUnavailable: 50%"), ""), "default/b app In [web]: 0"),
        // The cluster's own count, as far as it is of this budget.
        (
            budget("", &format!("{select}, minAvailable: 1"), "disruptionsAllowed: 7"),
            "default/b app In [web]: 7",
        ),
        (
            budget("", &format!("{select}, minAvailable: 1"), "disruptionsAllowed: -1"),
            "default/b app In [web]: 0",
        ),
        (
            budget(
                "generation: 2",
                &format!("{select}, minAvailable: 1"),
                "disruptionsAllowed: 7, observedGeneration: 2",
            ),
            "default/b app In [web]: 7",
        ),
        (
            budget(
                "generation: 3",
                &format!("{select}, minAvailable: 1"),
                "disruptionsAllowed: 7, observedGeneration: 2",
            ),
            "default/b app In [web]: 1",
        ),
        (budget("namespace: far", &format!("{select}, minAvailable: 0"), ""), "far/b app In [web]: 1"),
    ] {
        let found: Vec<String> = facts(&manifests).into_iter().filter(|fact| fact.contains("/b ")).collect();
        assert_eq!(found, [expected], "{manifests}");
    }
}

#[test]
fn pods_of_workloads_are_expected_before_they_exist() {
    let manifests = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 4, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web}}
spec: {nodeName: n1, containers: [{}]}
status: {phase: Running}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 3}
";
    assert!(facts(manifests).contains(&"default/b app In [web]: 0".to_owned()));
}

#[test]
fn budgets_of_nothing_and_of_everything_are_remarked_on() {
    let given = pod("name: p, labels: {app: web}", "nodeName: n1", "phase: Running");
    let budget = |spec: &str| {
        format!(
            "{given}apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\nspec: {{maxUnavailable: 1{spec}}}\n"
        )
    };
    for (manifests, expected) in [
        (budget(", selector: {matchLabels: {app: web}}"), &["default/b app In [web]: 1"][..]),
        (
            budget(""),
            &[
                "default/b nothing: 0",
                "remark in.yaml:10: PodDisruptionBudget/b: spec.selector: is missing, so the budget protects no pod; select the pods it is for",
            ],
        ),
        (
            budget(", selector: {}"),
            &[
                "default/b every pod: 1",
                "remark in.yaml:10: PodDisruptionBudget/b: spec.selector: is empty, so the budget is for every pod of the namespace default; select the pods it is for",
            ],
        ),
        (
            budget(", selector: {matchLabels: {app: db}}"),
            &[
                "default/b app In [db]: 0",
                "remark in.yaml:10: PodDisruptionBudget/b: spec.selector: selects none of the pods in the namespace default",
            ],
        ),
    ] {
        assert_eq!(facts(&manifests)[1..], *expected, "{manifests}");
    }
}

fn pool_facts(text: &str, now: &str, node_cost: i64) -> Vec<String> {
    let assembled = assembled_at(text, now, Price::from_micro_usd(node_cost));
    let pools = assembled.snapshot.pools.iter().map(|pool| {
        let after = pool.disruption.consolidate_after_secs;
        let after = after.map_or("never".to_owned(), |secs| format!("after {secs}s"));
        let budgets = pool.disruption.budgets.iter().map(|budget| {
            let reasons: Vec<_> = budget.reasons.iter().map(|reason| reason.name()).collect();
            let reasons = if reasons.is_empty() { "all".to_owned() } else { reasons.join("+") };
            format!(" {reasons} {:?}", budget.nodes)
        });
        let budgets = budgets.collect::<String>();
        let keeps = pool.disruption.checks.is_some_and(|checks| !checks.shrinks);
        let after = if keeps { format!("{after}, replaced only,") } else { after };
        format!("{} {:?} {after}{budgets} cost {}", pool.name, pool.disruption.consolidation, pool.node_cost)
    });
    let problems = assembled.problems.iter().map(|problem| format!("problem {problem}"));
    let partial = assembled.is_partial.then(|| "partial".to_owned());
    pools.chain(problems).chain(partial).collect()
}

#[test]
fn node_pools() {
    const NOON: &str = "2026-01-05T12:00:00Z";
    let pool =
        |disruption: &str| node_pool("p", "requirements: []", &format!("disruption: {{{disruption}}}"));
    let office =
        "budgets: [{nodes: '0', schedule: 'TZ=Europe/Berlin 0 9 * * mon-fri', duration: 8h}, {nodes: 20%}]";
    for (manifests, now, expected) in [
        (
            node_pool("p", "requirements: []", ""),
            NOON,
            &["p WhenEmptyOrUnderutilized after 0s all Percent(10) cost 0.000000"][..],
        ),
        (
            pool(
                "consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: '2', reasons: [Drifted]}]",
            ),
            NOON,
            &["p WhenEmpty never Drifted Count(2) cost 0.000000"],
        ),
        // Until 16:00 in UTC.
        (
            pool(office),
            "2026-01-05T15:59:59Z",
            &["p WhenEmptyOrUnderutilized after 0s all Count(0) all Percent(20) cost 0.000000"],
        ),
        (
            pool(office),
            "2026-01-05T16:00:00Z",
            &["p WhenEmptyOrUnderutilized after 0s all Percent(20) cost 0.000000"],
        ),
        // It fails closed, stays a pool, and the view is whole.
        (
            pool("budgets: [{nodes: 100%}, {nodes: 50%, schedule: '0 9 * * mon-foo', duration: 8h}]"),
            NOON,
            &[
                "p WhenEmptyOrUnderutilized after 0s all Percent(100) all Count(0) cost 0.000000",
                "problem in.yaml:7: NodePool/p: spec.disruption.budgets[1].schedule: `0 9 * * mon-foo` is not a schedule: CronPattern contains illegal character 'F' in part '1-FOO'; write minute, hour, day, month and weekday, for example 0 9 * * mon-fri",
            ],
        ),
        (
            pool("budgets: [{schedule: '@daily'}]"),
            NOON,
            &[
                "p WhenEmptyOrUnderutilized after 0s all Count(0) cost 0.000000",
                "problem in.yaml:7: NodePool/p: spec.disruption.budgets[0].schedule: has no duration beside it; say for how long, for example 8h",
            ],
        ),
        (
            pool("budgets: [{nodes: 110%}]"),
            NOON,
            &[
                "problem in.yaml:7: NodePool/p: spec.disruption.budgets[0].nodes: `110%` is neither a number nor a percentage; write a whole number such as 3, or 0% to 100%",
                "partial",
            ],
        ),
    ] {
        assert_eq!(pool_facts(&manifests, now, 0), expected, "{manifests} at {now}");
    }
}

#[test]
fn node_costs() {
    let annotated = |value: &str| {
        node_pool("p", "requirements: []", "").replace(
            "{name: p}",
            &format!("{{name: p, annotations: {{berth.dev/node-cost-per-hour: '{value}'}}}}"),
        )
    };
    let pool = "p WhenEmptyOrUnderutilized after 0s all Percent(10) cost";
    for (manifests, of_flag, expected) in [
        (node_pool("p", "requirements: []", ""), 0, vec![format!("{pool} 0.000000")]),
        (node_pool("p", "requirements: []", ""), 70_000, vec![format!("{pool} 0.070000")]),
        (annotated("0.05"), 70_000, vec![format!("{pool} 0.050000")]),
        (annotated("0"), 70_000, vec![format!("{pool} 0.000000")]),
        (
            annotated("five cents"),
            0,
            vec![
                "problem in.yaml:3: NodePool/p: metadata.annotations[berth.dev/node-cost-per-hour]: `five cents` is not a price; write US dollars an hour as a decimal number, for example 0.0416".to_owned(),
                "partial".to_owned(),
            ],
        ),
        (
            annotated("-1"),
            0,
            vec![
                "problem in.yaml:3: NodePool/p: metadata.annotations[berth.dev/node-cost-per-hour]: `-1` is negative; a price cannot be".to_owned(),
                "partial".to_owned(),
            ],
        ),
    ] {
        assert_eq!(pool_facts(&manifests, "2026-01-05T12:00:00Z", of_flag), expected, "{manifests}");
    }
}

#[test]
fn node_groups() {
    let group = |metadata: &str, policy: &str, status: &str| {
        format!(
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: NodeGroup\nmetadata: {{name: g, {metadata}}}\nspec: {{minNodes: 1, maxNodes: 5, datacenterID: a, offeringIDs: [large], resourceIdentifier: r, project: p, kubernetesVersion: v1.34.0, scaleDownPolicy: {{{policy}}}}}\nstatus: {{currentNodes: 1, desiredNodes: 1, readyNodes: 1, {status}}}\n---\n"
        )
    };
    let config = "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: AutoscalerConfig\nmetadata: {name: default}\nspec: {globalSettings: {maxConcurrentScaleDowns: 3}}\n";
    let shrank = "lastScaleDownTime: 2026-01-05T11:55:00Z";
    for (manifests, now, expected) in [
        (group("", "", ""), "2026-01-05T12:00:00Z", "after 600s all Count(1) cost 0.000000"),
        (
            group("", "enabled: false", ""),
            "2026-01-05T12:00:00Z",
            "after 600s, replaced only, all Count(1) cost 0.000000",
        ),
        (
            group("annotations: {autoscaler.vpsie.com/pause: 'true'}", "", ""),
            "2026-01-05T12:00:00Z",
            "never all Count(1) cost 0.000000",
        ),
        (
            group("", "stabilizationWindowSeconds: 60", ""),
            "2026-01-05T12:00:00Z",
            "after 60s all Count(1) cost 0.000000",
        ),
        (group("", "", "") + config, "2026-01-05T12:00:00Z", "after 600s all Count(3) cost 0.000000"),
        (
            group("annotations: {berth.dev/node-cost-per-hour: '0.01'}", "", ""),
            "2026-01-05T12:00:00Z",
            "after 600s all Count(1) cost 0.010000",
        ),
        (
            group("", "cooldownSeconds: 600", shrank),
            "2026-01-05T12:04:59Z",
            "after 600s Empty+Underutilized Count(0) all Count(1) cost 0.000000",
        ),
        (
            group("", "cooldownSeconds: 600", shrank),
            "2026-01-05T12:05:00Z",
            "after 600s all Count(1) cost 0.000000",
        ),
        (
            group("", "", "lastScaleTime: 2026-01-05T11:55:00Z"),
            "2026-01-05T12:00:00Z",
            "after 600s Empty+Underutilized Count(0) all Count(1) cost 0.000000",
        ),
    ] {
        let expected = format!("g WhenEmptyOrUnderutilized {expected}");
        assert_eq!(pool_facts(&manifests, now, 0), [expected], "{manifests} at {now}");
    }
}
