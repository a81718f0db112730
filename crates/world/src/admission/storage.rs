//! What is in use is kept until it is not.

use crate::json::{Value, json};
use crate::object;

pub(super) const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
pub(super) const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
        object::set(object, "finalizers", json!(finalizers));
    }
}
