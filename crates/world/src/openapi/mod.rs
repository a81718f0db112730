//! OpenAPI, as far as kubectl needs it.
//!
//! kubectl reads two things from version 3: from the paths, whether the server itself checks fields (`apply`, `create`,
//! `edit`), and from the schemas, what there is to say about them (`explain`). Of version 2 it needs no more than that
//! it can be read, and only as protobuf: it asks there for what version 3 does not tell, and goes on without.
//!
//! Nothing is kept: documents are made when they are asked for.

mod paths;
mod schemas;

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::discovery::GIT_VERSION;
use crate::discovery::served::{Group, Version, groups};
use crate::json::{Map, Value, json};
use crate::kinds::Kinds;
use schemas::Dialect;

/// What clients that want version 2 as protobuf name in `Accept`.
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The `Content-Type` of such an answer: clients refuse to read one with the `@`.
pub const V2_PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v3`: where the document of each version of each group is. Its address changes when it does, since
/// clients keep documents by address.
pub fn index(kinds: &Kinds, crds: &[&Value]) -> Value {
    let mut paths = Map::new();
    for group in groups(kinds) {
        for version in &group.versions {
            let path = api_path(&group.name, &version.name);
            let hash = fingerprint(&group, version, crds);
            let address = format!("/openapi/v3/{path}?hash={hash:016X}");
            paths.insert(path, json!({ "serverRelativeURL": address }));
        }
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/api/v1`, or `/openapi/v3/apis/<group>/<version>`, if it is served.
pub fn document(kinds: &Kinds, crds: &[&Value], group: &str, version: &str) -> Option<Value> {
    let group = groups(kinds).into_iter().find(|of| of.name == group)?;
    let version = group.versions.iter().find(|of| of.name == version)?;
    let prefix = format!("/{}", api_path(&group.name, &version.name));
    Some(json!({
        "openapi": "3.0.0",
        "info": title(),
        "paths": paths::of_version(&prefix, version),
        "components": { "schemas": schemas::of_version(version, crds, Dialect::V3) },
    }))
}

/// `/openapi/v2` as JSON: definitions only.
pub fn v2_document(kinds: &Kinds, crds: &[&Value]) -> Value {
    let mut definitions = Map::new();
    for version in groups(kinds).iter().flat_map(|group| &group.versions) {
        definitions.extend(schemas::of_version(version, crds, Dialect::V2));
    }
    json!({ "swagger": "2.0", "info": title(), "paths": {}, "definitions": definitions })
}

/// `/openapi/v2` as protobuf: a document that describes nothing. Against it, kubectl checks nothing itself, which is
/// right, since the server checks everything.
pub fn v2_protobuf() -> Vec<u8> {
    const SWAGGER: u8 = 1;
    const INFO: u8 = 2;
    const TITLE: u8 = 1;
    const VERSION: u8 = 2;
    let info = [field(TITLE, b"Kubernetes"), field(VERSION, GIT_VERSION.as_bytes())].concat();
    [field(SWAGGER, b"2.0"), field(INFO, &info)].concat()
}

/// A length-delimited field, of less than 128 bytes, in protobuf's wire format.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(content.len()).unwrap_or_default();
    [&[(number << 3) | LENGTH_DELIMITED, length], content].concat()
}

fn title() -> Value {
    json!({ "title": "Kubernetes", "version": GIT_VERSION })
}

/// `api/v1`, or `apis/apps/v1`.
fn api_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Of all that the document is made from, which is far less than the document.
fn fingerprint(group: &Group, version: &Version, crds: &[&Value]) -> u64 {
    let mut hasher = FxHasher::default();
    (env!("CARGO_PKG_VERSION"), GIT_VERSION, &group.name, &version.name).hash(&mut hasher);
    for served in &version.resources {
        (&served.plural, &served.kind.kind, served.verbs).hash(&mut hasher);
        for subresource in &served.subresources {
            subresource.name.hash(&mut hasher);
        }
        schemas::of_custom(crds, &served.kind).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
