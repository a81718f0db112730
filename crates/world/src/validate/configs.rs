//! Config maps and secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::faults::{Faults, text};
use crate::json::{Text, Value, json};

/// What both hold at most, in bytes.
const SIZE_MAX: usize = 1 << 20;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(faults: &mut Faults, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(&object["data"]) {
        check_key(faults, &format!("data[{key}]"), key);
        if object["binaryData"].get(key).is_some() {
            faults.invalid_text(&format!("data[{key}]"), key, "duplicate of key present in binaryData");
        }
        size += value.len();
    }
    for (key, value) in entries(&object["binaryData"]) {
        check_key(faults, &format!("binaryData[{key}]"), key);
        size += bytes(value).len();
    }
    if size > SIZE_MAX {
        faults.too_long("", SIZE_MAX);
    }
}

pub(super) fn config_map_update(faults: &mut Faults, new: &Value, old: &Value) {
    check_frozen(faults, new, old, &["data", "binaryData"]);
    faults.metadata_once_more();
    config_map(faults, new);
}

pub(super) fn secret_update(faults: &mut Faults, new: &Value, old: &Value) {
    faults.unchanged("type", &new["type"], &old["type"]);
    check_frozen(faults, new, old, &["data"]);
    faults.metadata_once_more();
    secret(faults, new);
}

pub(super) fn secret(faults: &mut Faults, object: &Value) {
    let data = &object["data"];
    let mut size = 0;
    for (key, value) in entries(data) {
        check_key(faults, &format!("data[{key}]"), key);
        size += bytes(value).len();
    }
    if size > SIZE_MAX {
        faults.too_long("data", SIZE_MAX);
    }
    let require = |faults: &mut Faults, key: &str| {
        if data.get(key).is_none() {
            faults.required(&format!("data[{key}]"), "");
        }
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if object["metadata"]["annotations"][key].as_str().unwrap_or_default().is_empty() {
                faults.required(&format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(faults, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_config(faults, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
            require(faults, "username");
            require(faults, "password");
        }
        "kubernetes.io/ssh-auth" if text(data, "ssh-privatekey").is_empty() => {
            faults.required("data[ssh-privatekey]", "");
        }
        "kubernetes.io/tls" => {
            require(faults, "tls.crt");
            require(faults, "tls.key");
        }
        _ => {}
    }
}

/// It must be there, and be JSON.
fn docker_config(faults: &mut Faults, data: &Value, key: &str) {
    let field = format!("data[{key}]");
    let Some(encoded) = data.get(key).and_then(Value::as_str) else {
        faults.required(&field, "");
        return;
    };
    let content = bytes(encoded);
    if serde_json::from_slice::<crate::json::Map>(&content).is_err() {
        let why = match content.first() {
            None => "unexpected end of JSON input".to_owned(),
            Some(first) => {
                format!("invalid character '{}' looking for beginning of value", char::from(*first))
            }
        };
        faults.invalid(&field, &json!("<secret contents redacted>"), &why);
    }
}

fn check_frozen(faults: &mut Faults, new: &Value, old: &Value, fields: &[&str]) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        faults.forbidden("immutable", FROZEN);
    }
    for field in fields {
        if new[*field] != old[*field] {
            faults.forbidden(field, FROZEN);
        }
    }
}

pub(super) fn check_key(faults: &mut Faults, field: &str, key: &str) {
    if key.len() > 253 {
        faults.invalid_text(field, key, "must be no more than 253 characters");
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(is_allowed) {
        let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                   'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        faults.invalid_text(field, key, why);
    }
    match key {
        "." => faults.invalid_text(field, key, "must not be '.'"),
        ".." => faults.invalid_text(field, key, "must not be '..'"),
        _ if key.starts_with("..") => faults.invalid_text(field, key, "must not start with '..'"),
        _ => {}
    }
}

fn entries(map: &Value) -> impl Iterator<Item = (&Text, &str)> {
    map.as_object().into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

fn bytes(encoded: &str) -> Vec<u8> {
    STANDARD.decode(encoded).unwrap_or_default()
}
