//! What is in use is kept until it is not, and grows only where its class lets it.

use berth_core::units::Quantity;

use super::Matter;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Key, Store};

pub(super) const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
pub(super) const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
        object::set(object, "finalizers", json!(finalizers));
    }
}

/// A claim grows once it is bound, and only if its class is made for that.
pub(super) fn check_growth(
    store: &Store,
    matter: &Matter<'_>,
    old: &Value,
    claim: &Value,
) -> Result<(), Failure> {
    let size = |claim: &Value| -> Option<Quantity> {
        claim.pointer("/spec/resources/requests/storage")?.as_str()?.parse().ok()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(matter.refuse(claim, "Only bound persistent volume claims can be expanded"));
    }
    let class = object::text(claim, &["spec", "storageClassName"]);
    let class = store.get(&Key::new("storageclasses.storage.k8s.io", "", class));
    if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    Err(matter.refuse(claim, why))
}
