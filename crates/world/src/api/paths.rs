//! Paths that are no resources: health, version, discovery and OpenAPI.

use std::sync::Arc;

use http::Method;

use super::custom::DEFINITIONS;
use super::{Answer, Call, State};
use crate::failure::Failure;
use crate::json::Value;
use crate::{discovery, openapi};

/// What the server says its address is. Clients keep to the one they have.
const ADDRESS: &str = "127.0.0.1:443";

impl State {
    pub(super) fn path(&self, call: &Call) -> Result<Answer, Failure> {
        let words: Vec<&str> = call.path.split('/').filter(|word| !word.is_empty()).collect();
        let aggregated = discovery::wants_aggregated(&call.accept);
        let stored = self.stored_definitions();
        let definitions: Vec<&Value> = stored.iter().map(|crd| &**crd).collect();
        let found = match words[..] {
            ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "etcd" | "log" | "ping"] => {
                return Ok(Answer::Text("ok"));
            }
            ["openapi", "v2"] if call.accept.contains(openapi::V2_PROTOBUF) => {
                return Ok(Answer::Bytes(openapi::V2_PROTOBUF_ANSWER, openapi::v2_protobuf()));
            }
            ["api"] if aggregated => {
                return Ok(Answer::As(discovery::AGGREGATED, discovery::aggregated_core(&self.kinds)));
            }
            ["apis"] if aggregated => {
                return Ok(Answer::As(discovery::AGGREGATED, discovery::aggregated_groups(&self.kinds)));
            }
            ["version"] => Some(discovery::version()),
            ["api"] => Some(discovery::core_versions(ADDRESS)),
            ["api", version] => discovery::resource_list(&self.kinds, "", version),
            ["apis"] => Some(discovery::group_list(&self.kinds)),
            ["apis", group] => discovery::group(&self.kinds, group),
            ["apis", group, version] => discovery::resource_list(&self.kinds, group, version),
            ["openapi", "v2"] => Some(openapi::v2_document(&self.kinds, &definitions)),
            ["openapi", "v3"] => Some(openapi::index(&self.kinds, &definitions)),
            ["openapi", "v3", "api", version] => openapi::document(&self.kinds, &definitions, "", version),
            ["openapi", "v3", "apis", group, version] => {
                openapi::document(&self.kinds, &definitions, group, version)
            }
            _ => None,
        };
        match (found, &words[..]) {
            // The list of groups is told however it is asked for.
            (Some(_), words) if call.method != Method::GET && *words != ["apis"] => {
                Err(Failure::not_allowed())
            }
            (Some(object), _) => Ok(Answer::Object(200, object)),
            (None, ["api", _, ..]) => Err(Failure::no_resource()),
            (None, ["apis", group, _, ..]) if discovery::has_built_in(&self.kinds, group) => {
                Err(Failure::no_resource())
            }
            (None, _) => Ok(Answer::NoPage),
        }
    }

    pub(super) fn stored_definitions(&self) -> Vec<Arc<Value>> {
        self.store.list(DEFINITIONS, None).map(|(_, crd)| crd).collect()
    }
}
