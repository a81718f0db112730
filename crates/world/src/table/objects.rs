//! The cells of nodes, services, volumes, events and the other kinds that run nothing.

use std::collections::BTreeSet;

use super::cells::{View, list, non_empty, pairs, quantity, text};
use crate::json::{Value, json};

pub(super) fn node(view: View<'_>) -> Vec<Value> {
    // Of several conditions of a type the last counts.
    let ready = view.list("/status/conditions").iter().rfind(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_cordoned = view.at("/spec/unschedulable") == true;
    let status = if is_cordoned { format!("{status},SchedulingDisabled") } else { status.to_owned() };
    let address = |kind: &str| {
        let found = view.list("/status/addresses").iter().find(|address| address["type"] == kind);
        found.map_or("<none>", |address| text(&address["address"]))
    };
    let info = |field: &str| view.text_or(&format!("/status/nodeInfo/{field}"), "<unknown>");
    let kernel = match view.text("/status/nodeInfo/architecture") {
        "" => info("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        json!(view.name()),
        json!(status),
        json!(non_empty(&roles(view), "<none>")),
        view.age(),
        json!(view.text("/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn roles(view: View<'_>) -> String {
    let labels = view.at("/metadata/labels").as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    joined(roles)
}

pub(super) fn service(view: View<'_>) -> Vec<Value> {
    let cluster_ip = match view.text("/spec/clusterIPs/0") {
        "" => view.text_or("/spec/clusterIP", "<none>"),
        ip => ip,
    };
    let port = |port: &Value| {
        let (number, protocol) = (port["port"].as_i64().unwrap_or_default(), text(&port["protocol"]));
        match port["nodePort"].as_i64().unwrap_or_default() {
            1.. => format!("{number}:{}/{protocol}", port["nodePort"]),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = view.list("/spec/ports").iter().map(port).collect();
    vec![
        json!(view.name()),
        json!(view.text("/spec/type")),
        json!(cluster_ip),
        json!(external_ip(view)),
        json!(non_empty(&ports.join(","), "<none>")),
        view.age(),
        json!(pairs(view.at("/spec/selector"))),
    ]
}

fn external_ip(view: View<'_>) -> String {
    let external = view.list("/spec/externalIPs").iter().filter_map(Value::as_str);
    match view.text("/spec/type") {
        "ClusterIP" | "NodePort" => non_empty(&joined(external), "<none>").to_owned(),
        "LoadBalancer" => {
            non_empty(&joined(of_balancer(view).into_iter().chain(external)), "<pending>").to_owned()
        }
        "ExternalName" => view.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Where a load balancer can be reached.
pub(super) fn of_balancer(view: View<'_>) -> BTreeSet<&str> {
    let points = view.list("/status/loadBalancer/ingress").iter();
    points
        .map(|point| non_empty(text(&point["ip"]), text(&point["hostname"])))
        .filter(|address| !address.is_empty())
        .collect()
}

pub(super) fn endpoints(view: View<'_>) -> Vec<Value> {
    let subsets = view.list("/subsets");
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let number = port["port"].as_i64().unwrap_or_default();
            all.extend(addresses().map(|ip| {
                if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") }
            }));
        }
    }
    let shown = if subsets.is_empty() { "<none>".to_owned() } else { first_three(&all) };
    vec![json!(view.name()), json!(shown), view.age()]
}

pub(super) fn endpoint_slice(view: View<'_>) -> Vec<Value> {
    let port = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.to_string(),
        _ => "*".to_owned(),
    };
    let ports: Vec<String> = view.list("/ports").iter().map(port).collect();
    let addresses = view.list("/endpoints").iter().flat_map(|endpoint| list(&endpoint["addresses"]));
    let addresses: Vec<String> = addresses.map(|address| text(address).to_owned()).collect();
    let shown = |all: &[String]| json!(non_empty(&first_three(all), "<unset>"));
    vec![json!(view.name()), json!(view.text("/addressType")), shown(&ports), shown(&addresses), view.age()]
}

fn first_three(all: &[String]) -> String {
    match all {
        [a, b, c, _, ..] => format!("{a},{b},{c} + {} more...", all.len() - 3),
        few => few.join(","),
    }
}

/// In the form that they are kept in.
pub(super) fn event(view: View<'_>) -> Vec<Value> {
    let first = match view.text("/firstTimestamp") {
        "" => view.since(view.text("/eventTime")),
        first => view.since(first),
    };
    let last = match (view.text("/lastTimestamp"), view.at("/series")) {
        (_, series) if !series.is_null() => view.since(text(&series["lastObservedTime"])),
        ("", _) => first.clone(),
        (last, _) => view.since(last),
    };
    let count = match (view.at("/series"), view.int("/count")) {
        (Value::Null, 0) => 1,
        (Value::Null, count) => count,
        (series, _) => series["count"].as_i64().unwrap_or_default(),
    };
    let kind = view.text("/involvedObject/kind").to_lowercase();
    let object = match view.text("/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = non_empty(view.text("/source/component"), view.text("/reportingComponent"));
    let instance = non_empty(view.text("/source/host"), view.text("/reportingInstance"));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        json!(last),
        json!(view.text("/type")),
        json!(view.text("/reason")),
        json!(object),
        json!(view.text("/involvedObject/fieldPath")),
        json!(source),
        json!(view.text("/message").trim()),
        json!(first),
        json!(count),
        json!(view.name()),
    ]
}

pub(super) fn persistent_volume(view: View<'_>) -> Vec<Value> {
    let claim = match view.at("/spec/claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    vec![
        json!(view.name()),
        json!(quantity(view.at("/spec/capacity/storage"))),
        json!(access_modes(view.list("/spec/accessModes"))),
        json!(view.text("/spec/persistentVolumeReclaimPolicy")),
        json!(volume_phase(view)),
        json!(claim),
        json!(storage_class_name(view)),
        json!(text_or_unset(view, "/spec/volumeAttributesClassName")),
        json!(view.text("/status/reason")),
        view.age(),
        json!(text_or_unset(view, "/spec/volumeMode")),
    ]
}

pub(super) fn persistent_volume_claim(view: View<'_>) -> Vec<Value> {
    let volume = view.text("/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (quantity(view.at("/status/capacity/storage")), access_modes(view.list("/status/accessModes")))
    };
    vec![
        json!(view.name()),
        json!(volume_phase(view)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(storage_class_name(view)),
        json!(text_or_unset(view, "/spec/volumeAttributesClassName")),
        view.age(),
        json!(text_or_unset(view, "/spec/volumeMode")),
    ]
}

pub(super) fn volume_attachment(view: View<'_>) -> Vec<Value> {
    vec![
        json!(view.name()),
        json!(view.text("/spec/attacher")),
        json!(view.text("/spec/source/persistentVolumeName")),
        json!(view.text("/spec/nodeName")),
        json!(view.at("/status/attached").as_bool().unwrap_or(false)),
        view.age(),
    ]
}

fn volume_phase(view: View<'_>) -> &str {
    if view.is_terminating() { "Terminating" } else { view.text("/status/phase") }
}

fn storage_class_name(view: View<'_>) -> &str {
    let of_annotation = view.at("/metadata/annotations/volume.beta.kubernetes.io~1storage-class").as_str();
    of_annotation.unwrap_or_else(|| view.text("/spec/storageClassName"))
}

fn text_or_unset<'a>(view: View<'a>, pointer: &str) -> &'a str {
    view.at(pointer).as_str().unwrap_or("<unset>")
}

/// Always in the same order.
fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    joined(short.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode)).map(|(_, short)| *short))
}

pub(super) fn resource_quota(view: View<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in view.at("/status/hard").as_object().into_iter().flatten() {
        let used = &view.at("/status/used")[resource];
        let said = format!("{resource}: {}/{}", quantity(used), quantity(hard));
        if resource.starts_with("limits.") { limits.push(said) } else { requests.push(said) }
    }
    vec![json!(view.name()), json!(requests.join(", ")), json!(limits.join(", ")), view.age()]
}

pub(super) fn role_binding(view: View<'_>) -> Vec<Value> {
    let role = format!("{}/{}", view.text("/roleRef/kind"), view.text("/roleRef/name"));
    let subjects = |kind: &str| {
        let found = view.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names = found.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        json!(view.name()),
        json!(role),
        view.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn storage_class(view: View<'_>) -> Vec<Value> {
    let is_default = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]
        .iter()
        .any(|prefix| view.text(&format!("/metadata/annotations/{prefix}~1is-default-class")) == "true");
    let name = if is_default { format!("{} (default)", view.name()) } else { view.name().to_owned() };
    vec![
        json!(name),
        json!(view.text("/provisioner")),
        json!(view.text_or("/reclaimPolicy", "Delete")),
        json!(view.text_or("/volumeBindingMode", "Immediate")),
        json!(view.at("/allowVolumeExpansion") == true),
        view.age(),
    ]
}

pub(super) fn priority_class(view: View<'_>) -> Vec<Value> {
    vec![
        json!(view.name()),
        json!(view.int("/value")),
        json!(view.at("/globalDefault") == true),
        view.age(),
        json!(view.text("/preemptionPolicy")),
    ]
}

pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().collect::<Vec<_>>().join(",")
}
