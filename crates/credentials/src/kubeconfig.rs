//! What a client needs to know, in one file.

use std::fmt::{self, Display};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Pair;

/// Complete in itself, so that it works wherever it is copied to. Its text is JSON, which is YAML and needs no rules
/// about quotes.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// What the cluster and the context are called.
    pub cluster: &'a str,
    pub server: &'a str,
    /// As PEM.
    pub authority: &'a str,
    pub user: &'a str,
    /// Of what is asked for without naming one.
    pub namespace: &'a str,
    pub pair: &'a Pair,
}

impl Kubeconfig<'_> {
    fn document(&self) -> Value {
        let Self { cluster, server, authority, user, namespace, pair } = self;
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {
                "server": server,
                "certificate-authority-data": STANDARD.encode(authority),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(&pair.key),
            }}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user, "namespace": namespace}}],
            "current-context": cluster,
        })
    }
}

impl Display for Kubeconfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#}", self.document())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_carries_its_certificates() {
        let pair = Pair { certificate: "crt".to_owned(), key: "key".to_owned() };
        let server = "https://127.0.0.1:6443";
        let (cluster, user, namespace) = ("quay", "admin", "shop");
        let config = Kubeconfig { cluster, server, authority: "ca", user, namespace, pair: &pair }.document();
        assert_eq!(config["clusters"][0]["cluster"]["server"], server);
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority-data"], "Y2E=");
        assert_eq!(config["users"][0]["user"]["client-certificate-data"], "Y3J0");
        assert_eq!(config["users"][0]["user"]["client-key-data"], "a2V5");
        assert_eq!(config["current-context"], config["contexts"][0]["name"]);
        assert_eq!(config["contexts"][0]["context"]["user"], config["users"][0]["name"]);
        assert_eq!(config["contexts"][0]["context"]["namespace"], namespace);
    }
}
