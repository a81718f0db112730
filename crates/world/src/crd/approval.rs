//! The word that a definition in one of Kubernetes' own groups needs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::schema::said::quoted;

pub(super) struct Approval {
    pub(super) annotation: String,
    pub(super) is_conformant: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// None where the group is nobody's.
pub(super) fn of(crd: &CustomResourceDefinition) -> Option<Approval> {
    let group = &crd.spec.group;
    let is_within =
        |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !is_within("k8s.io") && !is_within("kubernetes.io") {
        return None;
    }
    let annotation = crd.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION)).cloned();
    let annotation = annotation.unwrap_or_default();
    let is_url = annotation
        .split_once("://")
        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'));
    let needs = format!("protected groups must have approval annotation {}", quoted(ANNOTATION));
    let (reason, message) = if annotation.is_empty() {
        ("MissingAnnotation", format!("{needs}, {SEE}"))
    } else if annotation.starts_with("unapproved") {
        ("UnapprovedAnnotation", format!("not approved: {}", quoted(&annotation)))
    } else if is_url {
        ("ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let detail = "with either a URL or a reason starting with \"unapproved\"";
        ("InvalidAnnotation", format!("{needs} {detail}, {SEE}"))
    };
    Some(Approval { annotation, is_conformant: is_url, reason, message })
}
