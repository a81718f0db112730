//! Claims get the class that is meant for all, and what is in use is kept until it is not.

use crate::json::{Value, json};
use crate::object;
use crate::store::Store;

pub(super) const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
pub(super) const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

/// The class of a claim, before there was a field for it.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn choose_class(store: &Store, claim: &mut Value) {
    let is_chosen = claim["spec"].get("storageClassName").is_some_and(|class| !class.is_null());
    if is_chosen || claim["metadata"]["annotations"].get(OLD_CLASS).is_some() {
        return;
    }
    let is_default =
        |class: &Value| IS_DEFAULT.iter().any(|key| class["metadata"]["annotations"][key] == "true");
    let classes = store.list("storageclasses.storage.k8s.io", None).map(|(_, class)| class);
    // The youngest; among those, the first by name.
    let youngest = classes.filter(|class| is_default(class)).reduce(|first, class| {
        let made = |class: &Value| object::text(class, &["metadata", "creationTimestamp"]).to_owned();
        if made(&class) > made(&first) { class } else { first }
    });
    if let Some(class) = youngest {
        object::put(claim, &["spec", "storageClassName"], json!(object::name(&class)));
    }
}

pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
        object::set(object, "finalizers", json!(finalizers));
    }
}
