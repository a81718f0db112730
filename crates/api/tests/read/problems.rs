//! Bad input.

use super::*;

/// What is wrong must be found at its line and field, in YAML and in JSON alike.
#[test]
fn problems_have_a_line_and_a_field() {
    let pod = |spec: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n{spec}")
    };
    let pool = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: p\nspec:\n  template:\n    spec:\n      requirements: []\n{spec}"
        )
    };
    let class = format!("      nodeClassRef: {KWOK_REF}\n");
    for (manifest, expected) in [
        (
            pod("    resources:\n      requests:\n        memory: 1Gi\n        cpu: -500m\n"),
            "in.yaml:11: Pod/p: spec.containers[0].resources.requests.cpu: -500m is negative; a resource cannot be",
        ),
        (
            pod("    resources:\n      requests:\n        cpu: 2Gi\n"),
            "in.yaml:10: Pod/p: spec.containers[0].resources.requests.cpu: 2147483648 is absurd; the most is 1000000 cores, so check the suffix",
        ),
        (
            pod("    resources:\n      requests:\n        cpu: 1 core\n"),
            "in.yaml:10: Pod/p: spec.containers[0].resources.requests.cpu: `1 core` has the unknown suffix ` core`; the suffixes are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, and e3 for an exponent",
        ),
        (
            pod("  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions:\n          - key: a\n            operator: Like\n            values: [b]\n"),
            "in.yaml:14: Pod/p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: `Like` is not known here; it is one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (
            pod("  topologySpreadConstraints:\n  - maxSkew: 0\n    topologyKey: zone\n    whenUnsatisfiable: DoNotSchedule\n"),
            "in.yaml:9: Pod/p: spec.topologySpreadConstraints[0].maxSkew: 0 is out of range; it is 1 or more",
        ),
        (
            pod("  topologySpreadConstraints:\n  - maxSkew: 1\n    topologyKey: zone\n    whenUnsatisfiable: DoNotSchedule\n    matchLabelKeys: [a]\n"),
            "in.yaml:12: Pod/p: spec.topologySpreadConstraints[0].matchLabelKeys: needs a labelSelector beside it",
        ),
        (
            pod("    ports:\n    - hostPort: 70000\n"),
            "in.yaml:9: Pod/p: spec.containers[0].ports[0].hostPort: 70000 is out of range; a port is from 1 to 65535",
        ),
        (
            pod("  tolerations:\n  - key: a\n    operator: Exists\n    value: b\n"),
            "in.yaml:11: Pod/p: spec.tolerations[0].value: must be empty with the operator Exists",
        ),
        (
            pod("  priorityClassName: gold\n"),
            "in.yaml:8: Pod/p: spec.priorityClassName: the PriorityClass `gold` is not in the input; add it, or use one of system-cluster-critical, system-node-critical",
        ),
        (
            pod("  runtimeClassName: kata\n"),
            "in.yaml:8: Pod/p: spec.runtimeClassName: the RuntimeClass `kata` is not in the input; add it",
        ),
        (
            pod("  nodeSelector: [a]\n"),
            "in.yaml:8: Pod/p: spec.nodeSelector: is sequence, but must be a mapping",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n".to_owned(),
            "in.yaml:1: Pod/p: spec: is missing",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{}]}\n".to_owned(),
            "in.yaml:3: Pod: metadata.name: is missing; a plan calls each object by its name",
        ),
        (
            pod("") + "---\n" + &pod(""),
            "in.yaml:12: Pod/p: metadata.name: there is another pod of this name at in.yaml:1; remove one",
        ),
        (
            "kind: Pod\nmetadata: {name: p}\n".to_owned(),
            "in.yaml:1: Pod: apiVersion: is missing; for a Pod it is v1",
        ),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n".to_owned(),
            "in.yaml:1: NodePool: apiVersion: `karpenter.sh/v1beta1` is not read; write the NodePool as karpenter.sh/v1",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: shop}\nspec:\n  replicas: -1\n  template: {spec: {containers: [{}]}}\n".to_owned(),
            "in.yaml:5: Deployment/shop/d: spec.replicas: -1 is out of range; it is from 0 to 500000",
        ),
        (
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec:\n  minAvailable: 1\n  maxUnavailable: 50%\n".to_owned(),
            "in.yaml:6: PodDisruptionBudget/b: spec.maxUnavailable: stands beside minAvailable; keep one of the two",
        ),
        (
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec:\n  minAvailable: 120%\n".to_owned(),
            "in.yaml:5: PodDisruptionBudget/b: spec.minAvailable: must be a whole number, 0 or more, or a percentage from 0% to 100%",
        ),
        (
            pool(""),
            "in.yaml:7: NodePool/p: spec.template.spec.nodeClassRef: is missing; name the class that the nodes are made from (group, kind, name)",
        ),
        (
            pool(&format!("{class}  limits:\n    memory: 1Gi\n    cpu: -5\n")),
            "in.yaml:12: NodePool/p: spec.limits.cpu: -5 is negative; a limit cannot be",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - key: a\n        operator: Like\n"),
            "in.yaml:10: NodePool/p: spec.template.spec.requirements[0].operator: `Like` is not known; it is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - {key: kubernetes.io/hostname, operator: In, values: [a]}\n"),
            "in.yaml:9: NodePool/p: spec.template.spec.requirements[0].key: `kubernetes.io/hostname` cannot be required by a pool: each node has its own hostname, set by its kubelet; remove it",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - {key: a, operator: In, values: [b], minValues: 2}\n"),
            "in.yaml:9: NodePool/p: spec.template.spec.requirements[0].minValues: 2 is more than the 1 values that are listed",
        ),
        (
            pool(&class).replace("  template:", "  template:\n    metadata: {labels: {karpenter.sh/nodepool: x}}"),
            "in.yaml:7: NodePool/p: spec.template.metadata.labels[karpenter.sh/nodepool]: cannot be set by a pool: each node carries its own pool's name; remove it",
        ),
        ("a: [1\n".to_owned(), "not valid YAML"),
        ("a:\n\t- b\n".to_owned(), "in.yaml:2: a tab is not allowed here; indent with spaces"),
        ("{\"kind\": \"Pod\"\n".to_owned(), "in.yaml:2: not valid JSON: EOF while parsing an object"),
    ] {
        let problems: Vec<String> = assembled(&manifest).problems.iter().map(ToString::to_string).collect();
        assert!(problems.len() == 1 && problems[0].contains(expected), "{manifest}\n{problems:#?}\n{expected}");
        if expected.starts_with("in.yaml") {
            assert_eq!(problems[0], expected);
        }
    }
}

#[test]
fn json_problems_have_a_line_and_a_field_too() {
    let list = r#"{
  "apiVersion": "v1",
  "kind": "List",
  "items": [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "good"}, "spec": {"containers": [{}]}},
    {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"name": "bad"},
      "spec": {
        "containers": [
          {"resources": {"requests": {
            "cpu": "-1"}}}]
      }
    },
    {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"name": "worse"},
      "spec": {
        "containers": "none"
      }
    }
  ]
}"#;
    check(&[(
        "a list",
        list,
        "pod default/good Object pods 1
         problem in.yaml:13: Pod/bad: spec.containers[0].resources.requests.cpu: -1 is negative; a resource cannot be
         problem in.yaml:21: Pod/worse: spec.containers: is string \"none\", but must be a sequence",
    )]);
}

#[test]
fn one_bad_document_leaves_the_others() {
    let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{}]}\n";
    let deep = "[".repeat(200_000);
    for bad in ["a: [", "a: \t\n\tb", "{\"a\":", deep.as_str(), "x: \"\0\"", "%BAD\n"] {
        let Assembled { snapshot, problems, .. } = assembled(&format!("{bad}\n---\n{good}"));
        assert_eq!(snapshot.pods.len(), 1, "{problems:?}");
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}

#[test]
fn bombs_and_giants_are_refused_with_advice() {
    let bomb = (0..9)
        .map(|i| format!("a{}: &a{} [{}]\n", i + 1, i + 1, vec![format!("*a{i}"); 10].join(", ")))
        .collect::<Vec<_>>()
        .concat();
    let giant = "a: b # and so on\n".repeat(5 << 20);
    for (text, line, part) in [
        (
            format!("a0: &a0 x\n{bomb}"),
            7,
            "aliases make this document too large; write the values out instead",
        ),
        (giant, 1, "a YAML document of 85 MiB is too large (at most 64); give it as JSON"),
    ] {
        let problems = assembled(&text).problems;
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, Some(line), "{}", problems[0]);
        assert!(problems[0].message.starts_with(part), "{}", problems[0]);
    }
}

/// The rules of VPSie's webhook, which hold for files as well.
#[test]
fn node_groups_keep_to_their_rules() {
    let group = |change: &[(&str, &str)]| {
        let mut fields = BTreeMap::from([
            ("minNodes", "1"),
            ("maxNodes", "5"),
            ("datacenterID", "a"),
            ("offeringIDs", "[large]"),
            ("resourceIdentifier", "r"),
            ("project", "p"),
            ("kubernetesVersion", "v1.34.1"),
        ]);
        fields.extend(change.iter().copied());
        let fields =
            fields.iter().map(|(name, value)| format!("  {name}: {value}\n")).collect::<Vec<_>>().concat();
        format!(
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: NodeGroup\nmetadata: {{name: web, namespace: shop}}\nspec:\n{fields}"
        )
    };
    let regions = |more: &str| format!("{{enabled: true, datacenterIDs: [b], {more}}}");
    for (field, value, expected) in [
        ("minNodes", "6", "spec.minNodes: 6 is more than maxNodes (5)"),
        ("maxNodes", "1001", "spec.maxNodes: 1001 is out of range; write a whole number from 1 to 1000"),
        ("datacenterID", "''", "spec.datacenterID: is empty; name a datacenter"),
        ("offeringIDs", "[]", "spec.offeringIDs: is empty; name at least one offering"),
        ("offeringIDs", "[large, '']", "spec.offeringIDs[1]: is empty; name one"),
        (
            "offeringIDs",
            "[large, small, large]",
            "spec.offeringIDs[2]: `large` is named twice; name each offering once",
        ),
        (
            "kubernetesVersion",
            "1.34.1",
            "spec.kubernetesVersion: `1.34.1` is no version; write it with its `v` and three numbers, such as v1.34.0",
        ),
        (
            "labels",
            "{kubernetes.io/arch: amd64}",
            "spec.labels[kubernetes.io/arch]: belongs to Kubernetes; remove it",
        ),
        (
            "taints",
            "[{key: k8s.io/x, effect: NoSchedule}]",
            "spec.taints[0].key: belongs to Kubernetes; remove it",
        ),
        (
            "taints",
            "[{key: gpu, effect: NoSchedule}, {key: gpu, value: a, effect: NoSchedule}]",
            "spec.taints[1].key: a node has `gpu` with this effect only once; remove one of them",
        ),
        (
            "scaleUpPolicy",
            "{stabilizationWindowSeconds: 1801}",
            "spec.scaleUpPolicy.stabilizationWindowSeconds: 1801 is out of range; write a whole number from 0 to 1800",
        ),
        (
            "scaleDownPolicy",
            "{cooldownSeconds: 3601}",
            "spec.scaleDownPolicy.cooldownSeconds: 3601 is out of range; write a whole number from 0 to 3600",
        ),
        (
            "multiRegion",
            &regions("weightedDistribution: {a: 1, c: 2}"),
            "spec.multiRegion.weightedDistribution.c: `c` is none of the group's datacenters (a, b); add it to datacenterIDs, or remove its weight",
        ),
        (
            "multiRegion",
            &regions("weightedDistribution: {a: 0, b: 0}"),
            "spec.multiRegion.weightedDistribution: has no weight above 0; give one to at least one datacenter",
        ),
        (
            "multiRegion",
            &regions("primaryDatacenter: c"),
            "spec.multiRegion.primaryDatacenter: `c` is none of the group's datacenters (a, b); add it to datacenterIDs, or name one of them",
        ),
        (
            "multiRegion",
            "{enabled: true, datacenterIDs: [b, b]}",
            "spec.multiRegion.datacenterIDs[1]: `b` is named twice; name each datacenter once",
        ),
    ] {
        let found = problems_in(&group(&[(field, value)]));
        let [problem] = &found[..] else { panic!("{field} {value}: {found:?}") };
        assert_eq!(problem.object.as_deref(), Some("NodeGroup/shop/web"));
        assert_eq!(problem.words(), expected, "{field} {value}");
    }
    for (field, value) in [
        ("labels", "{node.kubernetes.io/x: z}"),
        ("taints", "[{key: gpu, effect: NoSchedule}, {key: gpu, effect: NoExecute}]"),
        ("multiRegion", &*regions("weightedDistribution: {a: 0, b: 1}, primaryDatacenter: a")),
        ("multiRegion", "{enabled: false, weightedDistribution: {z: 1}}"),
    ] {
        assert_eq!(problems_in(&group(&[(field, value)])), [], "{field} {value}");
    }
}

fn problems_in(text: &str) -> Vec<berth_api::Problem> {
    let source = Source::Text { name: "in.yaml".to_owned(), text: text.to_owned() };
    berth_api::read([source], &mut |_, _| {}).problems
}
