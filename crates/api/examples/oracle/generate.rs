//! Random clusters over all the rules: a few nodes, a few pods on them, and one pod that looks for a place.
//!
//! What Berth judges otherwise than kube-scheduler on purpose is not generated, and said where it would be.

use serde_json::{Map, Value, json};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const DRIVER: &str = "csi.example.com";
pub(crate) const NAMESPACES: [&str; 2] = ["default", "other"];

/// SplitMix64: a case can be had again from its seed and number.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or(0)
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn list(&mut self, most: usize, mut item: impl FnMut(&mut Self) -> Value) -> Vec<Value> {
        (0..=self.below(most)).map(|_| item(self)).collect()
    }
}

/// The objects of one case.
pub(crate) fn cluster(seed: u64, case: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed.wrapping_mul(0x0000_0100_0000_01B3) ^ case.rotate_left(32));
    let dice = &mut dice;
    // Mixed now and then, so that each rule is often the only one that decides.
    let with = Rules::draw(dice);
    let nodes = 1 + dice.below(5);
    let mut objects: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    objects.extend((0..nodes).map(|index| node(dice, &with, index)));
    let claims = if with.volumes { storage(dice, nodes, &mut objects) } else { Vec::new() };
    for index in 0..dice.below(9) {
        let host = format!("node-{}", dice.below(nodes));
        objects.push(pod(dice, &with, &format!("run-{index}"), Some(&host), &claims, nodes));
    }
    objects.push(pod(dice, &with, "pending", None, &claims, nodes));
    objects
}

/// Which rules a case is about.
#[expect(clippy::struct_excessive_bools, reason = "each rule is part of a case or not")]
pub(crate) struct Rules {
    selectors: bool,
    taints: bool,
    resources: bool,
    ports: bool,
    affinity: bool,
    anti_affinity: bool,
    spread: bool,
    volumes: bool,
}

impl Rules {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let mut on = || dice.percent(30);
        Self {
            selectors: on(),
            taints: on(),
            resources: on(),
            ports: on(),
            affinity: on(),
            anti_affinity: on(),
            spread: on(),
            volumes: dice.percent(15),
        }
    }
}

pub(crate) fn namespace(name: &str) -> Value {
    // The API server labels every namespace with its name.
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if name == "other" {
        labels["team"] = json!("blue");
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

pub(crate) fn node(dice: &mut Dice, with: &Rules, index: usize) -> Value {
    let name = format!("node-{index}");
    // Every kubelet sets the hostname; Berth assumes it where it is missing.
    let mut labels = json!({ HOSTNAME: name });
    if dice.percent(85) {
        labels[ZONE] = json!(dice.pick(&["a", "b", "c"]));
    }
    if dice.percent(60) {
        labels["disk"] = json!(dice.pick(&["ssd", "hdd"]));
    }
    if dice.percent(60) {
        labels["gen"] = json!(dice.pick(&["1", "3", "7", "x", "007", ""]));
    }
    let mut spec = json!({});
    if with.taints {
        if dice.percent(60) {
            spec["taints"] = json!(distinct_taints(dice));
        }
        if dice.percent(15) {
            spec["unschedulable"] = json!(true);
        }
    }
    let scarce = with.resources;
    let mut resources = json!({
        "cpu": if scarce { dice.pick(&["1", "1900m", "2", "0.7"]) } else { "64" },
        "memory": if scarce { dice.pick(&["1Gi", "1G", "1500Mi", "2048M"]) } else { "256Gi" },
        "pods": if scarce { dice.pick(&["1", "2", "4", "110"]) } else { "110" },
    });
    if dice.percent(50) {
        resources["ephemeral-storage"] = json!(dice.pick(&["1Gi", "10G"]));
    }
    if dice.percent(50) {
        resources["example.com/widget"] = json!(dice.pick(&["0", "1", "3"]));
    }
    if dice.percent(30) {
        resources["hugepages-2Mi"] = json!(dice.pick(&["0", "4Mi", "64Mi"]));
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    })
}

/// A node has a taint of one key and effect once at most.
fn distinct_taints(dice: &mut Dice) -> Vec<Value> {
    let mut taints: Vec<Value> = Vec::new();
    for _ in 0..=dice.below(2) {
        let mut taint = json!({
            "key": dice.pick(&["dedicated", "gpu"]),
            "effect": dice.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        });
        if taints.iter().any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"]) {
            continue;
        }
        if dice.percent(60) {
            taint["value"] = json!(dice.pick(&["a", "b"]));
        }
        taints.push(taint);
    }
    taints
}

pub(crate) fn pod(
    dice: &mut Dice,
    with: &Rules,
    name: &str,
    node: Option<&str>,
    claims: &[Claim],
    nodes: usize,
) -> Value {
    let mut metadata = json!({"name": name, "namespace": dice.pick(&NAMESPACES)});
    let mut labels = Map::new();
    if dice.percent(80) {
        labels.insert("app".to_owned(), json!(dice.pick(&["a", "b", "c"])));
    }
    if dice.percent(60) {
        labels.insert("tier".to_owned(), json!(dice.pick(&["x", "y"])));
    }
    metadata["labels"] = Value::Object(labels);
    let mut spec = json!({});
    let waits = node.is_none();
    containers(dice, with, &mut spec);
    if with.selectors && waits {
        node_demands(dice, &mut spec, nodes);
    }
    if with.taints && waits && dice.percent(70) {
        spec["tolerations"] = json!(dice.list(3, toleration));
    }
    // An affinity of a pod that has its place binds nobody, but an anti-affinity does.
    if with.affinity && waits {
        spec["affinity"]["podAffinity"] = required(&dice.list(2, pod_term));
    }
    if with.anti_affinity && (waits || dice.percent(40)) {
        spec["affinity"]["podAntiAffinity"] = required(&dice.list(2, pod_term));
    }
    if with.spread && waits {
        spec["topologySpreadConstraints"] = json!(distinct_spreads(dice));
    }
    let own: Vec<&str> = claims
        .iter()
        .filter(|claim| metadata["namespace"] == *claim.namespace && (waits || claim.bound))
        .map(|claim| claim.name.as_str())
        .collect();
    if !own.is_empty() && (waits || dice.percent(50)) {
        let mut chosen: Vec<&str> = (0..=dice.below(2)).map(|_| dice.pick(&own)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let volumes = chosen.iter().enumerate().map(|(index, claim)| {
            json!({"name": format!("data-{index}"), "persistentVolumeClaim": {"claimName": claim}})
        });
        spec["volumes"] = volumes.collect();
    }
    let mut status = json!({"phase": "Pending"});
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
        status["phase"] =
            json!(dice.pick(&["Running", "Running", "Running", "Pending", "Succeeded", "Failed"]));
        if dice.percent(10) {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            metadata["deletionGracePeriodSeconds"] = json!(30);
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
}

fn required(terms: &[Value]) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

fn containers(dice: &mut Dice, with: &Rules, spec: &mut Value) {
    let containers: Vec<Value> =
        (0..=dice.below(2)).map(|index| container(dice, with, &format!("app-{index}"))).collect();
    spec["containers"] = json!(containers);
    if with.resources && dice.percent(30) {
        let inits = (0..=dice.below(2)).map(|index| {
            let mut init = container(dice, with, &format!("init-{index}"));
            if dice.percent(40) {
                init["restartPolicy"] = json!("Always");
            }
            init
        });
        spec["initContainers"] = inits.collect();
    }
    if with.resources && dice.percent(15) {
        // For the pod as a whole, in place of what its containers ask for.
        spec["resources"] = json!({"requests": {"cpu": "3", "memory": dice.pick(&["3Gi", "4G"])}});
    }
    if with.resources && dice.percent(15) {
        spec["overhead"] = json!({"cpu": "100m", "memory": "10Mi"});
    }
    if with.ports && dice.percent(15) {
        spec["hostNetwork"] = json!(true);
    }
}

fn container(dice: &mut Dice, with: &Rules, name: &str) -> Value {
    let mut container = json!({"name": name, "image": "app"});
    let mut requests = Map::new();
    let mut limits = Map::new();
    if with.resources {
        if dice.percent(80) {
            requests.insert("cpu".to_owned(), json!(dice.pick(&["0", "1m", "250m", "0.5", "700m", "1"])));
        }
        if dice.percent(70) {
            requests.insert(
                "memory".to_owned(),
                json!(dice.pick(&["0", "1", "64Mi", "0.25Gi", "500M", "1e9", "1Gi"])),
            );
        }
        if dice.percent(15) {
            requests.insert("ephemeral-storage".to_owned(), json!(dice.pick(&["100Mi", "1Gi", "2G"])));
        }
        // Limits stand for requests that are missing.
        if dice.percent(15) {
            limits.insert("cpu".to_owned(), json!("1"));
        }
        if dice.percent(15) {
            limits.insert("example.com/widget".to_owned(), json!(dice.pick(&["0", "1", "2"])));
        }
        if dice.percent(10) {
            limits.insert("hugepages-2Mi".to_owned(), json!(dice.pick(&["2Mi", "8Mi"])));
            // Huge pages need CPU or memory beside them.
            requests.entry("memory").or_insert_with(|| json!("64Mi"));
        }
    }
    container["resources"] = json!({"requests": requests, "limits": limits});
    if with.ports && dice.percent(50) {
        container["ports"] = json!([port(dice)]);
    }
    container
}

fn port(dice: &mut Dice) -> Value {
    let number = dice.pick(&[80, 81]);
    let mut port = json!({"containerPort": number});
    if dice.percent(80) {
        port["hostPort"] = json!(number);
        if dice.percent(50) {
            port["hostIP"] = json!(dice.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1"]));
        }
    }
    if dice.percent(50) {
        port["protocol"] = json!(dice.pick(&["TCP", "UDP", "SCTP"]));
    }
    port
}

fn node_demands(dice: &mut Dice, spec: &mut Value, nodes: usize) {
    if dice.percent(40) {
        spec["nodeSelector"] = match dice.below(3) {
            0 => json!({ ZONE: dice.pick(&["a", "b"]) }),
            1 => json!({"disk": dice.pick(&["ssd", "hdd", ""])}),
            _ => json!({"disk": "ssd", ZONE: "a"}),
        };
    }
    if dice.percent(70) {
        let terms = dice.list(2, |dice| node_term(dice, nodes));
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if dice.percent(20) {
        let preference = json!({"weight": 10, "preference": node_term(dice, nodes)});
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([preference]);
    }
}

fn node_term(dice: &mut Dice, nodes: usize) -> Value {
    let mut term = json!({});
    if dice.percent(85) {
        term["matchExpressions"] = json!(dice.list(2, node_expression));
    }
    if dice.percent(20) {
        let name = format!("node-{}", dice.below(nodes + 1));
        let operator = dice.pick(&["In", "NotIn"]);
        term["matchFields"] = json!([{"key": "metadata.name", "operator": operator, "values": [name]}]);
    }
    term
}

fn node_expression(dice: &mut Dice) -> Value {
    let key = dice.pick(&[ZONE, "disk", "gen", "nobody-has-it", HOSTNAME]);
    match dice.below(6) {
        0 | 1 => json!({"key": key, "operator": dice.pick(&["In", "NotIn"]),
                        "values": dice.pick(&[&["a", "ssd"][..], &["b"], &["hdd", "7", "node-0"], &["", "c"]])}),
        2 => json!({"key": key, "operator": "Exists"}),
        3 => json!({"key": key, "operator": "DoesNotExist"}),
        // No negative numbers: they cannot be label values, and the API server admits no such pod.
        _ => json!({"key": "gen", "operator": dice.pick(&["Gt", "Lt"]),
                    "values": [dice.pick(&["0", "3", "007", "7"])]}),
    }
}

fn toleration(dice: &mut Dice) -> Value {
    let mut toleration = match dice.below(5) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
        2 => json!({"key": dice.pick(&["dedicated", "gpu"]), "operator": "Exists"}),
        3 => json!({"key": dice.pick(&["dedicated", "gpu"])}),
        _ => {
            json!({"key": dice.pick(&["dedicated", "gpu"]), "operator": "Equal", "value": dice.pick(&["a", "b"])})
        }
    };
    if dice.percent(40) {
        toleration["effect"] = json!(dice.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]));
    }
    toleration
}

/// Over `app` only: a key of `matchLabelKeys` must not be in the selector as well.
fn selector(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
        3 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
        4 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
        _ => json!({"matchLabels": {"app": dice.pick(&["a", "b", "c"])}}),
    }
}

fn pod_term(dice: &mut Dice) -> Value {
    let mut term = json!({"topologyKey": dice.pick(&[HOSTNAME, ZONE, ZONE, "disk"])});
    if dice.percent(92) {
        term["labelSelector"] = selector(dice);
        match dice.below(8) {
            0 => term["matchLabelKeys"] = json!(["tier"]),
            1 => term["mismatchLabelKeys"] = json!(["tier"]),
            _ => {}
        }
    }
    if dice.percent(20) {
        term["namespaces"] = json!([dice.pick(&NAMESPACES)]);
    }
    if dice.percent(20) {
        // Not NotIn and DoesNotExist: kube-scheduler 1.36 takes such a selector of the pod that looks for a
        // place to match every namespace, against what the API promises. It forgets to put the namespaces
        // that it found in the selector's stead, and asks the selector about no labels at all.
        term["namespaceSelector"] = match dice.below(3) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": "blue"}}),
            _ => json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
        };
    }
    term
}

/// A pod has a spread over one key with one consequence once at most.
fn distinct_spreads(dice: &mut Dice) -> Vec<Value> {
    let mut spreads: Vec<Value> = Vec::new();
    for _ in 0..=dice.below(2) {
        let spread = spread(dice);
        let same = |other: &Value| {
            other["topologyKey"] == spread["topologyKey"]
                && other["whenUnsatisfiable"] == spread["whenUnsatisfiable"]
        };
        if !spreads.iter().any(same) {
            spreads.push(spread);
        }
    }
    spreads
}

fn spread(dice: &mut Dice) -> Value {
    let required = dice.percent(85);
    let mut spread = json!({
        "maxSkew": 1 + dice.below(2),
        "topologyKey": dice.pick(&[HOSTNAME, ZONE, ZONE, "disk"]),
        "whenUnsatisfiable": if required { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if dice.percent(92) {
        spread["labelSelector"] = selector(dice);
        if dice.percent(15) {
            spread["matchLabelKeys"] = json!(["tier"]);
        }
    }
    if required && dice.percent(30) {
        spread["minDomains"] = json!(1 + dice.below(4));
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if dice.percent(30) {
            spread[field] = json!(dice.pick(&["Honor", "Ignore"]));
        }
    }
    spread
}

pub(crate) struct Claim {
    namespace: &'static str,
    name: String,
    /// A pod that runs has all its volumes.
    bound: bool,
}

/// Classes, claims with and without volumes, and what nodes can attach; gives the claims.
///
/// Left out on purpose: claims without a class, which get the default one later; generic ephemeral volumes,
/// whose claims are made later; and volumes that no claim has yet. Berth plans ahead of the controllers that
/// see to these, and kube-scheduler waits for them.
fn storage(dice: &mut Dice, nodes: usize, objects: &mut Vec<Value>) -> Vec<Claim> {
    let class = |name: &str, mode: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
               "provisioner": DRIVER, "volumeBindingMode": mode})
    };
    objects.push(class("at-once", "Immediate"));
    let mut waiting = class("waiting", "WaitForFirstConsumer");
    if dice.percent(60) {
        let zones = dice.pick(&[&["a"][..], &["a", "b"], &["c"]]);
        let mut expressions = vec![json!({"key": ZONE, "values": zones})];
        if dice.percent(20) {
            expressions.push(json!({"key": "disk", "values": ["ssd"]}));
        }
        waiting["allowedTopologies"] = json!([{"matchLabelExpressions": expressions}]);
    }
    objects.push(waiting);
    for index in 0..nodes {
        if dice.percent(60) {
            let mut driver = json!({"name": DRIVER, "nodeID": format!("node-{index}"), "topologyKeys": []});
            if dice.percent(80) {
                driver["allocatable"] = json!({"count": 1 + dice.below(2)});
            }
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": format!("node-{index}")}, "spec": {"drivers": [driver]},
            }));
        }
    }
    let mut claims = Vec::new();
    for index in 0..2 + dice.below(4) {
        let name = format!("claim-{index}");
        let namespace = dice.pick(&NAMESPACES);
        let made = claim(dice, namespace, &name, nodes);
        let bound = made.len() > 1;
        objects.extend(made);
        claims.push(Claim { namespace, name, bound });
    }
    if dice.percent(5) {
        claims.push(Claim { namespace: "default", name: "claim-that-is-missing".to_owned(), bound: false });
    }
    claims
}

/// A claim, and its volume if it has one.
fn claim(dice: &mut Dice, namespace: &str, name: &str, nodes: usize) -> Vec<Value> {
    let mode = dice.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]);
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": [mode], "storageClassName": dice.pick(&["waiting", "waiting", "waiting", "at-once"]),
                 "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    if dice.percent(5) {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if dice.percent(40) {
        return vec![claim];
    }
    let volume = format!("volume-of-{name}");
    claim["spec"]["volumeName"] = json!(volume);
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["status"]["phase"] = json!(if dice.percent(5) { "Lost" } else { "Bound" });
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {"accessModes": [mode], "capacity": {"storage": "1Gi"},
                 "csi": {"driver": DRIVER, "volumeHandle": name},
                 "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
                              "uid": format!("{namespace}/{name}")}},
        "status": {"phase": "Bound"},
    });
    if dice.percent(20) {
        // How volumes told their zones before they had an affinity; several are joined.
        volume["metadata"]["labels"] = json!({ ZONE: dice.pick(&["a", "b", "a__c"]) });
    }
    if dice.percent(60) {
        let terms = dice.list(2, |dice| match dice.below(3) {
            0 => json!({"matchExpressions": [
                {"key": HOSTNAME, "operator": "In", "values": [format!("node-{}", dice.below(nodes))]}]}),
            1 => json!({"matchExpressions": [
                {"key": ZONE, "operator": "In", "values": dice.pick(&[&["a"][..], &["a", "b"], &["c"]])}]}),
            _ => json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]}),
        });
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    vec![claim, volume]
}
