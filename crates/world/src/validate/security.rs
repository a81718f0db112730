//! As whom containers run, and what they may do to their machine.

use super::faults::{Faults, items, number, text};
use super::volumes::below;
use crate::json::{Value, json};

/// Where identities of users and groups end.
const ID_MAX: i64 = 2_147_483_647;

pub(super) fn of_container(faults: &mut Faults, context: &Value, shares_users: bool, path: &str) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(faults, &format!("{path}.{field}"), &context[field]);
    }
    let (field, mount) = (format!("{path}.procMount"), &context["procMount"]);
    if !mount.is_null() && !matches!(mount.as_str(), Some("Default" | "Unmasked")) {
        faults.not_supported(&field, mount, &["Default", "Unmasked"]);
    }
    if shares_users && mount == "Unmasked" {
        faults.invalid(&field, mount, "`hostUsers` must be false to use `Unmasked`");
    }
    profile(faults, &context["seccompProfile"], &format!("{path}.seccompProfile"));
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            faults.invalid_as_told(path, &context_as_told(context), why);
        }
        for _ in items(&context["capabilities"]["add"]).filter(|(_, added)| *added == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            faults.invalid_as_told(path, &context_as_told(context), why);
        }
    }
    armor(faults, &context["appArmorProfile"], &format!("{path}.appArmorProfile"));
}

pub(super) fn of_pod(faults: &mut Faults, spec: &Value, path: &str) {
    let context = &spec["securityContext"];
    let at = |field: &str| format!("{path}.{field}");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(faults, &at(field), &context[field]);
    }
    for (index, group) in items(&context["supplementalGroups"]) {
        id(faults, &format!("{path}.supplementalGroups[{index}]"), group);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(&at("shareProcessNamespace"), &json!(true), why);
    }
    words(faults, &at("fsGroupChangePolicy"), &context["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]);
    profile(faults, &context["seccompProfile"], &at("seccompProfile"));
    armor(faults, &context["appArmorProfile"], &at("appArmorProfile"));
    let policy = &context["supplementalGroupsPolicy"];
    words(faults, &at("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
}

fn words(faults: &mut Faults, field: &str, value: &Value, words: &[&str]) {
    if value.as_str().is_some_and(|value| !words.contains(&value)) {
        faults.not_supported(field, value, words);
    }
}

fn id(faults: &mut Faults, field: &str, id: &Value) {
    if !id.is_null() && !(0..=ID_MAX).contains(&number(id)) {
        faults.invalid(field, id, &format!("must be between 0 and {ID_MAX}, inclusive"));
    }
}

fn profile(faults: &mut Faults, profile: &Value, path: &str) {
    if profile.is_null() {
        return;
    }
    let (of_type, kind) = (format!("{path}.type"), text(profile, "type"));
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => faults.required(&of_type, "type is required when seccompProfile is set"),
        _ => {
            let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
            faults.not_supported(&of_type, &profile["type"], &kinds);
        }
    }
    let (field, file) = (format!("{path}.localhostProfile"), &profile["localhostProfile"]);
    match (kind, file.as_str()) {
        ("Localhost", None) => faults.required(&field, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(file)) => below(faults, &field, file),
        (_, Some(_)) => {
            let why = "can only be set when seccomp type is Localhost";
            faults.invalid_as_told(&field, &profile_as_told(profile), why);
        }
        (_, None) => {}
    }
}

/// In the names and the order of the server's own structures.
fn context_as_told(context: &Value) -> String {
    let capabilities = &context["capabilities"];
    let profile = |field: &str| {
        if context[field].is_null() { "null".to_owned() } else { profile_as_told(&context[field]) }
    };
    let told = [
        (
            "Capabilities",
            if capabilities.is_null() {
                "null".to_owned()
            } else {
                format!(r#"{{"Add":{},"Drop":{}}}"#, capabilities["add"], capabilities["drop"])
            },
        ),
        ("Privileged", context["privileged"].to_string()),
        ("SELinuxOptions", context["seLinuxOptions"].to_string()),
        ("WindowsOptions", context["windowsOptions"].to_string()),
        ("RunAsUser", context["runAsUser"].to_string()),
        ("RunAsGroup", context["runAsGroup"].to_string()),
        ("RunAsNonRoot", context["runAsNonRoot"].to_string()),
        ("ReadOnlyRootFilesystem", context["readOnlyRootFilesystem"].to_string()),
        ("AllowPrivilegeEscalation", context["allowPrivilegeEscalation"].to_string()),
        ("ProcMount", context["procMount"].to_string()),
        ("SeccompProfile", profile("seccompProfile")),
        ("AppArmorProfile", profile("appArmorProfile")),
    ];
    let fields: Vec<String> = told.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn profile_as_told(profile: &Value) -> String {
    format!(
        r#"{{"Type":{},"LocalhostProfile":{}}}"#,
        json!(text(profile, "type")),
        profile["localhostProfile"]
    )
}

fn armor(faults: &mut Faults, profile: &Value, path: &str) {
    if profile.is_null() {
        return;
    }
    let (field, named) = (format!("{path}.localhostProfile"), &profile["localhostProfile"]);
    match (text(profile, "type"), named.as_str()) {
        ("Localhost", None | Some("")) => {
            faults.required(&field, "must be set when AppArmor type is Localhost");
        }
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                faults.invalid_text(&field, name, "must not be padded with whitespace");
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(_)) => {
            faults.invalid(&field, named, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => faults.required(&format!("{path}.type"), "type is required when appArmorProfile is set"),
        _ => {
            let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
            faults.not_supported(&format!("{path}.type"), &profile["type"], &kinds);
        }
    }
}
