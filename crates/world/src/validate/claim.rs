//! What is asked of storage: claims, their templates, and the classes that they come from.

use berth_core::units::Quantity;

use super::containers::parse;
use super::faults::{Faults, is_empty, items, text};
use crate::json::{Value, json};
use crate::names::validate_annotations;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn template(faults: &mut Faults, template: &Value, path: &str) {
    let metadata = &template["metadata"];
    let field = format!("{path}.metadata.annotations");
    faults.extend(validate_annotations(&metadata["annotations"], &field));
    faults.labels(&format!("{path}.metadata.labels"), &metadata["labels"]);
    spec(faults, &template["spec"], &format!("{path}.spec"));
}

pub(super) fn spec(faults: &mut Faults, spec: &Value, path: &str) {
    let at = |field: &str| format!("{path}.{field}");
    let modes = at("accessModes");
    if is_empty(&spec["accessModes"]) {
        faults.required(&modes, "at least 1 access mode is required");
    }
    faults.label_selector(&at("selector"), &spec["selector"]);
    for (_, mode) in items(&spec["accessModes"]) {
        if !MODES.iter().any(|known| mode == known) {
            faults.not_supported(&modes, mode, &MODES);
        }
    }
    let has = |wanted: fn(&str) -> bool| {
        items(&spec["accessModes"]).filter_map(|(_, mode)| mode.as_str()).any(wanted)
    };
    let is_of_one = |mode: &str| mode == "ReadWriteOncePod";
    if has(is_of_one) && has(|mode| mode != "ReadWriteOncePod" && MODES.contains(&mode)) {
        faults.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
    let (field, size) = (at("resources[storage]"), &spec["resources"]["requests"]["storage"]);
    match parse(size) {
        None => faults.required(&field, ""),
        Some(parsed) if parsed <= Quantity::default() => {
            faults.invalid(&field, size, "must be greater than zero");
        }
        Some(_) => {}
    }
    if !text(spec, "storageClassName").is_empty() {
        faults.dns_subdomain(&at("storageClassName"), text(spec, "storageClassName"));
    }
    let (mode, known) = (&spec["volumeMode"], ["Block", "Filesystem"]);
    if !mode.is_null() && !known.iter().any(|known| mode == known) {
        faults.not_supported(&at("volumeMode"), mode, &known);
    }
    for field in ["dataSource", "dataSourceRef"].into_iter().filter(|field| !spec[*field].is_null()) {
        data_source(faults, &spec[field], &at(field));
    }
    if !text(spec, "volumeAttributesClassName").is_empty() {
        faults.dns_subdomain(&at("volumeAttributesClassName"), text(spec, "volumeAttributesClassName"));
    }
}

fn data_source(faults: &mut Faults, source: &Value, path: &str) {
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            faults.required(&format!("{path}.{field}"), "");
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        faults.invalid_text(path, kind, why);
    }
    if !group.is_empty() {
        faults.dns_subdomain(&format!("{path}.apiGroup"), group);
    }
    if !text(source, "namespace").is_empty() {
        faults.dns_label(&format!("{path}.namespace"), text(source, "namespace"));
    }
}

/// What the server tells beside this is a difference between structures of its own, which the world leaves out.
const ONLY: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
    bound claims\n";

pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value) {
    spec(faults, &new["spec"], "spec");
    let (wish, was) = (&new["spec"], &old["spec"]);
    let of = |object: &Value| object["metadata"]["annotations"][OLD_CLASS].clone();
    if of(new) != of(old) {
        let (field, class) = (format!("metadata.annotations[{OLD_CLASS}]"), of(new));
        faults.invalid_text(&field, class.as_str().unwrap_or_default(), "field is immutable");
    }
    let mut rest = wish.clone();
    let is_bound = new["status"]["phase"] == "Bound";
    let may_change = [
        ("volumeName", text(was, "volumeName").is_empty()),
        ("storageClassName", was["storageClassName"].is_null() && !wish["storageClassName"].is_null()),
        ("volumeAttributesClassName", is_bound),
    ];
    for (field, _) in may_change.iter().filter(|(_, may)| *may) {
        rest[*field] = was[*field].clone();
    }
    if is_bound && rest["resources"]["requests"].is_object() {
        rest["resources"]["requests"]["storage"] = was["resources"]["requests"]["storage"].clone();
    }
    let mut known = was.clone();
    for value in [&mut rest, &mut known] {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    if rest != known {
        faults.forbidden("spec", ONLY);
    }
    let size = |object: &Value, at: &str| object.pointer(at).and_then(parse);
    let requested = "/spec/resources/requests/storage";
    if let (Some(asked), Some(before)) = (size(new, requested), size(old, requested))
        && asked < before
        && size(old, "/status/capacity/storage").is_none_or(|there| asked <= there)
    {
        let why = "field can not be less than status.capacity";
        faults.forbidden("spec.resources.requests.storage", why);
    }
    if wish["volumeMode"] != was["volumeMode"] {
        faults.unchanged("volumeMode", &wish["volumeMode"], &was["volumeMode"]);
    }
}

pub(super) fn class(faults: &mut Faults, class: &Value) {
    match text(class, "provisioner") {
        "" => faults.required("provisioner", ""),
        provisioner => faults.label_name("provisioner", &provisioner.to_lowercase()),
    }
    for (field, known) in [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ] {
        if !known.contains(&text(class, field)) {
            faults.not_supported(field, &json!(text(class, field)), &known);
        }
    }
}

pub(super) fn class_update(faults: &mut Faults, new: &Value, old: &Value) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        faults.unchanged(field, &new[field], &old[field]);
    }
}
