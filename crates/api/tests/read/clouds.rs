//! Nodes and pools of every dialect.

use super::*;

#[test]
fn nodes() {
    let pool = node_pool("default", "requirements: []", "");
    let pool_fact =
        "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types large*4 small*4";
    let node = |labels: &str, spec: &str, status: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: node, labels: {{{labels}}}}}\nspec: {{{spec}}}\nstatus: {{{status}}}\n---\n"
        )
    };
    let ours = "karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true', node.kubernetes.io/instance-type: large, topology.kubernetes.io/zone: a, karpenter.sh/capacity-type: spot";
    let room = "allocatable: {cpu: 3900m}";
    let claim = |metadata: &str, status: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: c, labels: {{karpenter.sh/nodepool: default}}{metadata}}}\nspec: {{requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [small]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [b]}}], nodeClassRef: {KWOK_REF}}}\nstatus: {{{status}}}\n---\n"
        )
    };
    let cases = [
        ("a foreign node", node("", "", "capacity: {cpu: 2}"), "node node Running pool - price - cpu 2".to_owned()),
        (
            "cordoned",
            node("", "unschedulable: true", room),
            "node node Running pool - price - cpu 3900m node.kubernetes.io/unschedulable:NoSchedule".to_owned(),
        ),
        (
            "of a pool, with its price",
            pool.clone() + &node(ours, "", room),
            format!("node node Running pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "under the labels of old",
            pool.clone()
                + &node(
                    "karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true', beta.kubernetes.io/instance-type: small, failure-domain.beta.kubernetes.io/zone: b",
                    "",
                    room,
                ),
            format!("node node Running pool default price 0.100000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "not initialized yet",
            pool.clone() + &node(&ours.replace("'true'", "'false'"), "taints: [{key: cni, effect: NoSchedule}]", room),
            format!("node node Starting pool default price 0.080000 cpu 3900m cni:NoSchedule\n{pool_fact}"),
        ),
        (
            "on its way out",
            node("", "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]", room),
            "node node Deleting pool - price - cpu 3900m karpenter.sh/disrupted:NoSchedule".to_owned(),
        ),
        (
            "a claim without a node",
            pool.clone() + &claim("", ""),
            format!("node c Starting pool default price 0.100000 cpu 1900m, memory 8Gi, pods 110\n{pool_fact}"),
        ),
        (
            "a claim that says what it has",
            pool.clone() + &claim("", "nodeName: gone, capacity: {cpu: 2}, allocatable: {cpu: 1500m}"),
            format!("node c Starting pool default price 0.100000 cpu 1500m\n{pool_fact}"),
        ),
        (
            "a claim with its node",
            pool.clone() + &claim("", "nodeName: node") + &node(ours, "", room),
            format!("node node Running pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "a node that is coming up has what its claim promises, and loses its claim's startup taints",
            pool.clone()
                + &claim("", "nodeName: node, allocatable: {cpu: 1, example.com/gpu: 1}")
                    .replace("spec: {", "spec: {startupTaints: [{key: cni, effect: NoSchedule}], ")
                + &node(
                    &ours.replace("'true'", "'false'"),
                    "taints: [{key: cni, effect: NoSchedule}, {key: team, effect: NoSchedule}]",
                    room,
                ),
            format!(
                "node node Starting pool default price 0.080000 cpu 3900m, example.com/gpu 1 team:NoSchedule\n{pool_fact}"
            ),
        ),
        (
            "a node that is up has what it says",
            pool.clone() + &claim("", "nodeName: node, allocatable: {cpu: 1, example.com/gpu: 1}") + &node(ours, "", room),
            format!("node node Running pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "a claim that is being deleted takes its node along",
            pool.clone()
                + &claim(", deletionTimestamp: '2026-01-01T00:00:00Z'", "nodeName: node")
                + &node(ours, "", room),
            format!("node node Deleting pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "a machine of VPSie on its way",
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: VPSieNode\nmetadata: {name: v}\nspec: {vpsieInstanceID: 1, instanceType: small, nodeGroupName: default, datacenterID: b, resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1}\nstatus: {phase: Provisioning}\n---\n"
                .to_owned()
                + &pool,
            format!("node v Starting pool default price 0.100000 cpu 1900m, memory 8Gi, pods 110\n{pool_fact}"),
        ),
        (
            "a machine of VPSie that failed",
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: VPSieNode\nmetadata: {name: v}\nspec: {vpsieInstanceID: 1, instanceType: small, nodeGroupName: default, datacenterID: b, resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1}\nstatus: {phase: Failed}\n"
                .to_owned(),
            String::new(),
        ),
        (
            "twice",
            node("", "", room) + &node("", "", room),
            "node node Running pool - price - cpu 3900m\nproblem in.yaml:9: Node/node: metadata.name: there is another Node of this name; remove one".to_owned(),
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn pools_of_all_dialects() {
    let kwok_class = |name: &str| {
        format!(
            "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {{name: {name}}}\nspec: {{}}\n---\n"
        )
    };
    let group = |name: &str, offerings: &str, more: &str| {
        format!(
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: NodeGroup\nmetadata: {{name: {name}}}\nspec: {{minNodes: 1, maxNodes: 5, datacenterID: a, offeringIDs: [{offerings}], resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1{more}}}\n---\n"
        )
    };
    let constraint = |instance_type: &str| {
        format!(
            "apiVersion: sa.gardener.cloud/v1alpha1\nkind: ScalingConstraint\nmetadata: {{name: sc}}\nspec: {{nodePools: [{{name: worker, region: r, priority: 2, availabilityZones: [a, b], quota: {{cpu: 100}}, labels: {{team: a}}, nodeTemplates: [{{name: t, architecture: amd64, instanceType: {instance_type}, priority: 0, maxVolumes: 20, capacity: {{cpu: 4, memory: 16Gi}}, kubeReservedCapacity: {{cpu: 80m}}, systemReservedCapacity: {{cpu: 20m}}}}]}}]}}\n---\n"
        )
    };
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: o}\nspec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [large]}], capacity: {example.com/gpu: 1}}\n---\n";
    let cases = [
        (
            "a NodePool",
            node_pool(
                "default",
                "requirements: [{key: beta.kubernetes.io/arch, operator: In, values: [amd64]}, {key: cpu, operator: Gt, values: ['3']}], taints: [{key: a, effect: NoSchedule}]",
                "limits: {cpu: 10, nodes: 3}\n  weight: 7",
            ) + &kwok_class("default"),
            "pool default weight 7 min 0 [cpu 10] nodes<=3 requires cpu any value from 4 and kubernetes.io/arch [amd64] labels karpenter.sh/nodepool=default types large*4 small*4",
        ),
        (
            "a class without a spec",
            node_pool("default", "requirements: []", "")
                + "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\n",
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types large*4 small*4",
        ),
        (
            "a static one",
            node_pool("default", "requirements: []", "replicas: 2"),
            "pool default weight 0 min 0 [] replicas 2 requires  labels karpenter.sh/nodepool=default types large*4 small*4",
        ),
        (
            "an overlay, seen in the pool's types by its conflict alone",
            node_pool("default", "requirements: []", "") + overlay + &overlay.replace("name: o", "name: p").replace("gpu: 1", "gpu: 2"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types large*4 small*4
             problem in.yaml:17: NodeOverlay/p: spec: overlays o and p both have weight 0 and differ on example.com/gpu of large; give one of them a higher weight, or requirements that do not overlap",
        ),
        (
            "a NodeGroup and the cluster's limit",
            group("web", "large", ", labels: {team: a}")
                + &group("db", "id-a", "")
                + "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: AutoscalerConfig\nmetadata: {name: default}\nspec: {globalSettings: {maxClusterWorkers: 7}}\n",
            "pool db weight 0 min 1 [] nodes<=5 requires karpenter.sh/capacity-type any value but [spot] and topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=db types large*2 small*2
             pool web weight 0 min 1 [] nodes<=5 requires karpenter.sh/capacity-type any value but [spot] and team [a] and topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=web,team=a types large*4
             shared db,web nodes<=7",
        ),
        (
            "a NodeGroup with an unknown offering",
            group("web", "huge", ""),
            "pool web weight 0 min 1 [] nodes<=5 requires karpenter.sh/capacity-type any value but [spot] and topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=web types  blocked UnknownOffering: spec.offeringIDs: `huge` is neither an offering nor a type of the catalog
             problem in.yaml:4: NodeGroup/web: spec.offeringIDs: `huge` is neither an offering nor a type of the catalog",
        ),
        (
            "a ScalingConstraint and its feedback",
            constraint("large")
                + "apiVersion: sa.gardener.cloud/v1alpha1\nkind: ScalingFeedback\nmetadata: {name: f}\nspec: {constraintRef: {name: sc}, scaleOutErrorInfos: [{availabilityZone: a, instanceType: large, errorType: ResourceExhaustedError, failCount: 1}]}\n",
            "pool worker weight -2 min 0 [cpu 100] requires team [a] labels sa.gardener.cloud/node-pool-name=worker,team=a types large*2
             unavailable large a",
        ),
        (
            "a template without a price",
            constraint("huge"),
            "pool worker weight -2 min 0 [cpu 100] requires team [a] labels sa.gardener.cloud/node-pool-name=worker,team=a types  blocked PoolNotReady: spec.nodePools[0].nodeTemplates[0].instanceType: the catalog has no price for `huge` in the pool's zones; add it to the catalog
             problem in.yaml:4: ScalingConstraint/sc: spec.nodePools[0].nodeTemplates[0].instanceType: the catalog has no price for `huge` in the pool's zones; add it to the catalog",
        ),
        (
            "one name for two pools",
            node_pool("web", "requirements: []", "") + &group("web", "large", ""),
            "pool web weight 0 min 0 [] requires  labels karpenter.sh/nodepool=web types large*4 small*4
             problem in.yaml:11: NodeGroup/web: metadata.name: there is another pool `web`; pools of all kinds and namespaces share their names",
        ),
        (
            "a class that is not there beside one that is",
            node_pool("default", "requirements: []", "") + &kwok_class("other"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types  blocked NodeClassNotFound: spec.template.spec.nodeClassRef.name: there is no KWOKNodeClass `default`; the input has other
             problem in.yaml:6: NodePool/default: spec.template.spec.nodeClassRef.name: there is no KWOKNodeClass `default`; the input has other",
        ),
        (
            "a class without a catalog",
            node_pool("default", "requirements: []", "").replace("KWOKNodeClass", "GCENodeClass"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types  blocked PoolNotReady: spec.template.spec.nodeClassRef: karpenter.kwok.sh/GCENodeClass is a class without a catalog; Berth knows karpenter.kwok.sh/KWOKNodeClass, karpenter.k8s.aws/EC2NodeClass and berth.dev/VPSieNodeClass
             problem in.yaml:6: NodePool/default: spec.template.spec.nodeClassRef: karpenter.kwok.sh/GCENodeClass is a class without a catalog; Berth knows karpenter.kwok.sh/KWOKNodeClass, karpenter.k8s.aws/EC2NodeClass and berth.dev/VPSieNodeClass",
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn classes_and_overlays_change_what_a_pool_can_buy() {
    let pool = node_pool("default", "requirements: []", "")
        .replace("karpenter.kwok.sh", "karpenter.k8s.aws")
        .replace("KWOKNodeClass", "EC2NodeClass");
    let class = |kubelet: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: default}}\nspec: {{subnetSelectorTerms: [{{id: subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}], amiSelectorTerms: [{{alias: al2023@latest}}], role: r, kubelet: {{{kubelet}}}}}\n---\n"
        )
    };
    let overlay = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: o}}\nspec: {{requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [small]}}], {spec}}}\n---\n"
        )
    };
    for (more, expected) in [
        (String::new(), "cpu 1900m, memory 8Gi, pods 110 at 0.100000"),
        (class("maxPods: 20, systemReserved: {cpu: 100m}"), "cpu 1800m, memory 8Gi, pods 20 at 0.100000"),
        (overlay("priceAdjustment: '-50%'"), "cpu 1900m, memory 8Gi, pods 110 at 0.050000"),
        (
            overlay("capacity: {example.com/gpu: 1}"),
            "cpu 1900m, example.com/gpu 1, memory 8Gi, pods 110 at 0.100000",
        ),
    ] {
        let assembled = assembled(&(pool.clone() + &more));
        assert_eq!(assembled.problems, [], "{more}");
        let small = &assembled.snapshot.pools[0].types[1];
        assert_eq!(format!("{} at {}", small.allocatable(), small.offerings[0].price), expected, "{more}");
    }
}

/// A NodePool on VPSie, and the class that it names.
#[test]
fn pools_on_vpsie() {
    let pool = node_pool("web", "requirements: []", "")
        .replace("karpenter.kwok.sh", "berth.dev")
        .replace("KWOKNodeClass", "VPSieNodeClass");
    let class = |name: &str, spec: &str, more: &str| {
        format!(
            "apiVersion: berth.dev/v1alpha1\nkind: VPSieNodeClass\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n{more}\n---\n"
        )
    };
    let plain = "pool web weight 0 min 0 [] requires  labels karpenter.sh/nodepool=web";
    let refused = |reason: &str, words: &str| {
        let words = format!("spec.template.spec.nodeClassRef.name: {words}");
        format!("{plain} types  blocked {reason}: {words}\nproblem in.yaml:6: NodePool/web: {words}")
    };
    let ready = |status: &str| {
        format!("status: {{conditions: [{{type: Ready, status: '{status}', message: out of order}}]}}")
    };
    let cases = [
        ("all that is offered", class("default", "", ""), format!("{plain} types large*4 small*4")),
        ("the pool alone", String::new(), format!("{plain} types large*4 small*4")),
        (
            "types by name and by offering, in one datacenter",
            class("default", "datacenterIDs: [a], offeringIDs: [small, id-b]", ""),
            format!("{plain} types large*2 small*4").replace("requires ", "requires topology.kubernetes.io/zone [a]"),
        ),
        ("ready", class("default", "", &ready("True")), format!("{plain} types large*4 small*4")),
        (
            "not ready",
            class("default", "", &ready("False")),
            refused("NodeClassNotReady", "VPSieNodeClass `default` is not ready: out of order"),
        ),
        (
            "on its way out",
            class("default", "", "").replace("name: default", "name: default, deletionTimestamp: '2026-01-01T00:00:00Z'"),
            refused("NodeClassNotReady", "VPSieNodeClass `default` is being deleted"),
        ),
        (
            "another",
            class("other", "", ""),
            refused("NodeClassNotFound", "there is no VPSieNodeClass `default`; the input has other"),
        ),
        (
            "an unknown datacenter",
            class("default", "datacenterIDs: [a, atlantis]", ""),
            refused(
                "UnknownDatacenter",
                "VPSieNodeClass `default`: spec.datacenterIDs: nothing is offered in `atlantis`",
            ),
        ),
        (
            "an unknown offering",
            class("default", "offeringIDs: [small, huge]", ""),
            refused(
                "UnknownOffering",
                "VPSieNodeClass `default`: spec.offeringIDs: `huge` is neither an offering nor a type of the catalog",
            ),
        ),
        (
            "tags and a version that cannot be",
            class("default", "tags: [quay, berth.dev/claim-uid=x], kubernetesVersion: 1.34.0", ""),
            format!(
                "{plain} types large*4 small*4
                 problem in.yaml:12: VPSieNodeClass/default: spec.kubernetesVersion: `1.34.0` has no v before it; write it like v1.34.0
                 problem in.yaml:12: VPSieNodeClass/default: spec.tags[1]: `berth.dev/claim-uid=x` cannot be given: tags of berth.dev are set by Berth itself"
            ),
        ),
    ];
    for (name, class, expected) in &cases {
        check(&[(name, &(pool.clone() + class), expected)]);
    }
    let unfit = |class: &str| {
        let assembled = assembled(class);
        assert_eq!(assembled.problems, [], "a class that no pool names is nobody's problem");
        assembled.unfit_classes.values().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(unfit(&class("default", "", "")), "");
    let wrong = unfit(&class("default", "offeringIDs: [huge]", ""));
    assert!(wrong.contains("UnknownOffering") && wrong.contains("`huge`"), "{wrong}");
}
