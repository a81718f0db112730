//! Volumes of pods, and where their containers want them.

use berth_core::units::Quantity;

use super::claim;
use super::containers::parse;
use super::downward;
use super::faults::{Faults, is_empty, items, number, text};
use crate::json::{Value, json};
use crate::names::dns_subdomain_problems;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// The sources of a volume, in the server's order, with the name that it calls a second one by.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// The volumes of a pod that are as they should be, by name. Only those can be mounted.
pub(super) type Volumes<'a> = Vec<(&'a str, &'a Value)>;

pub(super) fn volumes<'a>(
    faults: &mut Faults,
    volumes: &'a Value,
    path: &str,
    is_of_pod: bool,
) -> Volumes<'a> {
    let mut sound: Volumes<'_> = Vec::new();
    for (at, volume) in items(volumes) {
        let path = format!("{path}[{at}]");
        let mut of_volume = Faults::default();
        source(&mut of_volume, volume, &path, is_of_pod);
        let (field, name) = (format!("{path}.name"), text(volume, "name"));
        if name.is_empty() {
            of_volume.required(&field, "");
        } else {
            of_volume.dns_label(&field, name);
        }
        if sound.iter().any(|(known, _)| *known == name) {
            of_volume.duplicate(&field, &json!(name));
        }
        let found = of_volume.found();
        if found.is_empty() {
            sound.push((name, volume));
        }
        faults.extend(found);
    }
    sound
}

fn source(faults: &mut Faults, volume: &Value, path: &str, is_of_pod: bool) {
    let mut given = SOURCES.iter().filter(|(source, _)| !volume[*source].is_null());
    let Some((first, _)) = given.next() else {
        return faults.required(path, "must specify a volume type");
    };
    // Who makes pods from a template may still say of what image.
    if is_of_pod && *first == "image" && text(&volume["image"], "reference").is_empty() {
        faults.required(&format!("{path}.image.reference"), "");
    }
    only_source(faults, first, &volume[*first], &format!("{path}.{first}"));
    for (_, called) in given {
        faults.forbidden(&format!("{path}.{called}"), "may not specify more than 1 volume type");
    }
}

fn only_source(faults: &mut Faults, kind: &str, source: &Value, path: &str) {
    let needs = |faults: &mut Faults, path: &str, fields: &[&str]| {
        for field in fields.iter().filter(|field| is_missing(&source[**field])) {
            faults.required(&format!("{path}.{field}"), "");
        }
    };
    match kind {
        "emptyDir" if parse(&source["sizeLimit"]).is_some_and(Quantity::is_negative) => {
            let why = "SizeLimit field must be a valid resource quantity";
            faults.forbidden(&format!("{path}.sizeLimit"), why);
        }
        "hostPath" => host_path(faults, source, path),
        "secret" => {
            needs(faults, path, &["secretName"]);
            files(faults, source, path);
        }
        "configMap" => {
            needs(faults, path, &["name"]);
            files(faults, source, path);
        }
        "downwardAPI" => {
            mode(faults, &format!("{path}.defaultMode"), &source["defaultMode"]);
            for (_, file) in items(&source["items"]) {
                downward_file(faults, file, path);
            }
        }
        "projected" => projected(faults, source, path),
        "persistentVolumeClaim" => needs(faults, path, &["claimName"]),
        "nfs" => {
            needs(faults, path, &["server", "path"]);
            let of_server = text(source, "path");
            if !of_server.starts_with('/') {
                faults.invalid_text(&format!("{path}.path"), of_server, "must be an absolute path");
            }
        }
        "csi" => csi(faults, source, path),
        "ephemeral" => {
            let template = &source["volumeClaimTemplate"];
            if template.is_null() {
                faults.required(&format!("{path}.volumeClaimTemplate"), "");
            } else {
                claim::template(faults, template, &format!("{path}.volumeClaimTemplate"));
            }
        }
        "image" => {
            let policies = ["Always", "IfNotPresent", "Never"];
            faults.one_of(&format!("{path}.pullPolicy"), &source["pullPolicy"], &policies);
        }
        "gcePersistentDisk" => {
            needs(faults, &path.replace("gcePersistentDisk", "persistentDisk"), &["pdName"]);
        }
        "gitRepo" => needs(faults, path, &["repository"]),
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => needs(faults, path, &["volumeID"]),
        "glusterfs" => needs(faults, path, &["endpoints", "path"]),
        "rbd" => needs(faults, path, &["monitors", "image"]),
        "cephfs" => needs(faults, path, &["monitors"]),
        "flexVolume" => needs(faults, path, &["driver"]),
        "azureFile" => needs(faults, path, &["secretName", "shareName"]),
        "vsphereVolume" => needs(faults, path, &["volumePath"]),
        "photonPersistentDisk" => needs(faults, path, &["pdID"]),
        "scaleIO" => needs(faults, path, &["gateway", "system", "volumeName"]),
        _ => {}
    }
}

fn is_missing(value: &Value) -> bool {
    value.as_str().map_or_else(|| is_empty(value), str::is_empty)
}

fn host_path(faults: &mut Faults, source: &Value, path: &str) {
    let of_host = text(source, "path");
    if of_host.is_empty() {
        return faults.required(&format!("{path}.path"), "");
    }
    no_backsteps(faults, &format!("{path}.path"), of_host);
    let kinds =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = &source["type"];
    if kind.as_str().is_some_and(|kind| !kinds.contains(&kind)) {
        faults.not_supported(&format!("{path}.type"), kind, &kinds);
    }
}

fn csi(faults: &mut Faults, source: &Value, path: &str) {
    let (field, driver) = (format!("{path}.driver"), text(source, "driver"));
    if driver.is_empty() {
        faults.required(&field, "");
    } else {
        if driver.len() > 63 {
            faults.too_long(&field, 63);
        }
        for why in dns_subdomain_problems(&driver.to_lowercase()) {
            faults.invalid_text(&field, driver, &why);
        }
    }
    let secret = &source["nodePublishSecretRef"];
    match text(secret, "name") {
        _ if secret.is_null() => {}
        "" => faults.required(&format!("{path}.nodePublishSecretRef.name"), ""),
        name => faults.dns_subdomain(&format!("{path}.name"), name),
    }
}

/// The mode of all files, and which there are.
fn files(faults: &mut Faults, source: &Value, path: &str) {
    mode(faults, &format!("{path}.defaultMode"), &source["defaultMode"]);
    for (at, file) in items(&source["items"]) {
        key_to_path(faults, file, &format!("{path}.items[{at}]"));
    }
}

fn mode(faults: &mut Faults, field: &str, mode: &Value) {
    if !mode.is_null() && !(0..=0o777).contains(&number(mode)) {
        faults.invalid(field, mode, MODE);
    }
}

fn key_to_path(faults: &mut Faults, file: &Value, path: &str) {
    for field in ["key", "path"] {
        if text(file, field).is_empty() {
            faults.required(&format!("{path}.{field}"), "");
        }
    }
    within_volume(faults, &format!("{path}.path"), text(file, "path"));
    mode(faults, &format!("{path}.mode"), &file["mode"]);
}

fn downward_file(faults: &mut Faults, file: &Value, path: &str) {
    let to = text(file, "path");
    if to.is_empty() {
        faults.required(&format!("{path}.path"), "");
    }
    within_volume(faults, &format!("{path}.path"), to);
    let (of_pod, of_container) = (&file["fieldRef"], &file["resourceFieldRef"]);
    match (of_pod.is_null(), of_container.is_null()) {
        (false, is_alone) => {
            downward::of_pod_in_volume(faults, of_pod, &format!("{path}.fieldRef"));
            if !is_alone {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                faults.invalid_text(path, "resource", why);
            }
        }
        (true, false) => {
            downward::of_container(faults, of_container, &format!("{path}.resourceFieldRef"), true);
        }
        (true, true) => faults.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(faults, &format!("{path}.mode"), &file["mode"]);
}

/// Several sources in one volume, no two of which may write the same file.
fn projected(faults: &mut Faults, source: &Value, path: &str) {
    mode(faults, &format!("{path}.defaultMode"), &source["defaultMode"]);
    let mut written: Vec<&str> = Vec::new();
    for (at, part) in items(&source["sources"]) {
        let of_part = format!("{path}.sources[{at}]");
        for kind in ["secret", "configMap"] {
            let of_kind = format!("{of_part}.{kind}");
            let name = text(&part[kind], "name");
            if !part[kind].is_null() && name.is_empty() {
                faults.required(&format!("{of_kind}.name"), "");
            }
            for (at, file) in items(&part[kind]["items"]) {
                key_to_path(faults, file, &format!("{of_kind}.items[{at}]"));
                if is_written(&mut written, text(file, "path")) {
                    faults.invalid_text(path, name, "conflicting duplicate paths");
                }
            }
        }
        for (_, file) in items(&part["downwardAPI"]["items"]) {
            downward_file(faults, file, &format!("{of_part}.downwardAPI"));
            let to = text(file, "path");
            if is_written(&mut written, to) {
                faults.invalid_text(path, to, "conflicting duplicate paths");
            }
        }
        if !part["serviceAccountToken"].is_null() {
            token(faults, &part["serviceAccountToken"], path, &of_part);
        }
        let given = PROJECTED.iter().filter(|kind| !part[**kind].is_null());
        if given.count() > 1 {
            faults.forbidden(&of_part, "may not specify more than 1 volume type per source");
        }
    }
}

const PROJECTED: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Whether a file has been written by another source; it is written from now on.
fn is_written<'a>(written: &mut Vec<&'a str>, path: &'a str) -> bool {
    let is_written = !path.is_empty() && written.contains(&path);
    written.push(path);
    is_written
}

fn token(faults: &mut Faults, token: &Value, path: &str, of_part: &str) {
    let seconds = &token["expirationSeconds"];
    let field = format!("{of_part}.serviceAccountToken.expirationSeconds");
    if number(seconds) < TOKEN_SECONDS_MIN {
        faults.invalid(&field, seconds, "may not specify a duration less than 10 minutes");
    }
    if number(seconds) > TOKEN_SECONDS_MAX {
        faults.invalid(&field, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let field = format!("{path}.path");
    match text(token, "path") {
        "" => faults.required(&field, ""),
        to => within_volume(faults, &field, to),
    }
}

/// A path below another one, which does not go up.
pub(super) fn below(faults: &mut Faults, field: &str, path: &str) {
    if path.starts_with('/') {
        faults.invalid_text(field, path, "must be a relative path");
    }
    no_backsteps(faults, field, path);
}

pub(super) fn no_backsteps(faults: &mut Faults, field: &str, path: &str) {
    if goes_up(path) {
        faults.invalid_text(field, path, "must not contain '..'");
    }
}

pub(super) fn goes_up(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}

/// The same in a volume that kubelets write, where names with two dots are their own.
fn within_volume(faults: &mut Faults, field: &str, path: &str) {
    below(faults, field, path);
    if path.starts_with("..") && !path.starts_with("../") {
        faults.invalid_text(field, path, "must not start with '..'");
    }
}
