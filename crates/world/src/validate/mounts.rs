//! Where containers see the volumes of their pod: as files, or as devices.

use super::faults::{Faults, items, text};
use super::volumes::{Volumes, below, goes_up};
use crate::json::{Value, json};

pub(super) fn mounts(faults: &mut Faults, container: &Value, volumes: &Volumes<'_>, path: &str) {
    let field = format!("{path}.volumeMounts");
    let mut paths: Vec<&str> = Vec::new();
    for (at, mount) in items(&container["volumeMounts"]) {
        let path = format!("{field}[{at}]");
        let (name, to) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.required(&format!("{path}.name"), "");
        }
        if !volumes.iter().any(|(known, _)| *known == name) {
            faults.not_found(&format!("{path}.name"), &json!(name));
        }
        if to.is_empty() {
            faults.required(&format!("{path}.mountPath"), "");
        }
        if paths.contains(&to) {
            faults.invalid_text(&format!("{path}.mountPath"), to, "must be unique");
        }
        paths.push(to);
        let devices = &container["volumeDevices"];
        if items(devices).any(|(_, device)| text(device, "name") == name) {
            let why = "must not already exist in volumeDevices";
            faults.invalid_text(&format!("{path}.name"), name, why);
        }
        if last_paths(devices, "devicePath").any(|path| path == to) {
            let why = "must not already exist as a path in volumeDevices";
            faults.invalid_text(&format!("{path}.mountPath"), to, why);
        }
        sub_path(faults, mount, &field, &path);
        propagation(faults, container, mount, &field);
    }
}

/// Where each of the volumes in a list is, of those that are there more than once the last.
fn last_paths<'a>(list: &'a Value, field: &'a str) -> impl Iterator<Item = &'a str> {
    let is_last =
        move |at: usize, name: &str| !items(list).skip(at + 1).any(|(_, other)| text(other, "name") == name);
    items(list).filter(move |(at, one)| is_last(*at, text(one, "name"))).map(move |(_, one)| text(one, field))
}

/// Of what follows the server says in which list it is, and not in which mount.
fn sub_path(faults: &mut Faults, mount: &Value, list: &str, path: &str) {
    let (fixed, worked_out) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !fixed.is_empty() {
        below(faults, &format!("{list}.subPath"), fixed);
    }
    if worked_out.is_empty() {
        return;
    }
    if !fixed.is_empty() {
        let why = "subPathExpr and subPath are mutually exclusive";
        faults.invalid_text(&format!("{path}.subPathExpr"), worked_out, why);
    }
    below(faults, &format!("{list}.subPathExpr"), worked_out);
}

fn propagation(faults: &mut Faults, container: &Value, mount: &Value, list: &str) {
    let ways = ["Bidirectional", "HostToContainer", "None"];
    let (field, way) = (format!("{list}.mountPropagation"), &mount["mountPropagation"]);
    if !way.is_null() && !ways.iter().any(|known| way == known) {
        faults.not_supported(&field, way, &ways);
    }
    if way == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        faults.forbidden(&field, why);
    }
    let (field, recursive) = (format!("{list}.recursiveReadOnly"), &mount["recursiveReadOnly"]);
    match recursive.as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                faults.forbidden(&field, "may only be specified when readOnly is true");
            }
            if !way.is_null() && way != "None" {
                let why = "may only be specified when mountPropagation is None or not specified";
                faults.forbidden(&field, why);
            }
        }
        Some(_) => faults.not_supported(&field, recursive, &["Disabled", "Enabled", "IfPossible"]),
    }
}

pub(super) fn devices(faults: &mut Faults, container: &Value, volumes: &Volumes<'_>, path: &str) {
    let (mut names, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (at, device) in items(&container["volumeDevices"]) {
        let path = format!("{path}.volumeDevices[{at}]");
        let (name, to) = (text(device, "name"), text(device, "devicePath"));
        let (of_name, of_path) = (format!("{path}.name"), format!("{path}.devicePath"));
        if name.is_empty() {
            faults.required(&of_name, "");
        }
        if names.contains(&name) {
            faults.invalid_text(&of_name, name, "must be unique");
        }
        match volumes.iter().find(|(known, _)| *known == name) {
            None => faults.not_found(&of_name, &json!(name)),
            Some((_, volume))
                if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() =>
            {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                faults.invalid_text(&of_name, name, why);
            }
            Some(_) => {}
        }
        if to.is_empty() {
            faults.required(&of_path, "");
        }
        if paths.contains(&to) {
            faults.invalid_text(&of_path, to, "must be unique");
        }
        if goes_up(to) {
            faults.invalid_text(&of_path, to, "can not contain backsteps ('..')");
        } else {
            paths.push(to);
        }
        let mounts = &container["volumeMounts"];
        if items(mounts).any(|(_, mount)| text(mount, "name") == name) {
            faults.invalid_text(&of_name, name, "must not already exist in volumeMounts");
        }
        if last_paths(mounts, "mountPath").any(|path| path == to) {
            faults.invalid_text(&of_path, to, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.push(name);
        }
    }
}
