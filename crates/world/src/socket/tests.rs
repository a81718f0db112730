use std::net::Ipv4Addr;

use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::*;
use crate::World;
use crate::json::Value;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn served() -> Served {
    let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    world.serve(LOOPBACK).await.unwrap()
}

async fn config(kubeconfig: &str) -> Config {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

async fn client(kubeconfig: &str) -> Client {
    Client::try_from(config(kubeconfig).await).unwrap()
}

/// `403 message`
async fn say(client: &Client, request: Request<Body>) -> String {
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let object: Value = serde_json::from_str(&text).unwrap_or_default();
    format!("{code} {}", object["message"].as_str().unwrap_or(&text))
}

fn get(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::get(path).body(Body::empty()).unwrap();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn clients_are_who_their_certificates_say() {
    let (served, elsewhere) = (served().await, served().await);
    let mut nobody = config(served.kubeconfig()).await;
    nobody.auth_info = kube::config::AuthInfo::default();
    let mut stranger = config(elsewhere.kubeconfig()).await;
    stranger.cluster_url.clone_from(&nobody.cluster_url);
    stranger.root_cert.clone_from(&nobody.root_cert);
    let admin = client(served.kubeconfig()).await;
    let role = r#"{"metadata": {"name": "x"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]},
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["devs"]}]}"#;
    let binding = r#"{"metadata": {"name": "x"}, "subjects": [{"kind": "Group", "name": "devs"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}}"#;
    for (plural, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let made = Request::post(format!("/apis/rbac.authorization.k8s.io/v1/{plural}"))
            .body(Body::from(body.as_bytes().to_vec()))
            .unwrap();
        let said = say(&admin, made).await;
        assert!(said.starts_with("201 "), "{said}");
    }
    let jane = client(&served.kubeconfig_of("jane", None).unwrap()).await;
    let dev = client(&served.kubeconfig_of("dev", Some("devs")).unwrap()).await;
    let nobody = Client::try_from(nobody).unwrap();
    let stranger = Client::try_from(stranger).unwrap();
    let (pods, nodes) = ("/api/v1/pods", "/api/v1/nodes");
    let as_bob = ("impersonate-user", "bob");
    let refused = |resource: &str, user: &str| {
        format!(
            "403 {resource} is forbidden: User \"{user}\" cannot list resource \"{resource}\" in API group \"\" at the \
             cluster scope"
        )
    };
    let not_as = |resource: &str, name: &str, user: &str| {
        format!(
            "403 {resource} \"{name}\" is forbidden: User \"{user}\" cannot impersonate resource \"{resource}\" in API \
             group \"\" at the cluster scope"
        )
    };
    let ok = "200 ".to_owned();
    for (who, path, headers, expected) in [
        (&admin, nodes, vec![], ok.clone()),
        (&admin, nodes, vec![("authorization", "Bearer x")], ok.clone()),
        (&admin, nodes, vec![as_bob], refused("nodes", "bob")),
        (&jane, pods, vec![], refused("pods", "jane")),
        (&jane, "/version", vec![], ok.clone()),
        (&jane, pods, vec![as_bob], not_as("users", "bob", "jane")),
        (&dev, pods, vec![], ok.clone()),
        (&dev, nodes, vec![], refused("nodes", "dev")),
        (&dev, pods, vec![as_bob], refused("pods", "bob")),
        (&dev, pods, vec![as_bob, ("impersonate-group", "devs")], ok.clone()),
        (&dev, pods, vec![as_bob, ("impersonate-group", "system:masters")], not_as("groups", "system:masters", "dev")),
        (&dev, pods, vec![("impersonate-user", "jane")], not_as("users", "jane", "dev")),
        (&nobody, pods, vec![], refused("pods", "system:anonymous")),
        (&nobody, "/healthz", vec![], "200 ok".to_owned()),
        (&nobody, "/apis", vec![], "403 forbidden: User \"system:anonymous\" cannot get path \"/apis\"".to_owned()),
        (&nobody, pods, vec![("authorization", "Bearer x")], "401 Unauthorized".to_owned()),
        (&nobody, pods, vec![("authorization", "Basic eDp5")], refused("pods", "system:anonymous")),
        (&nobody, pods, vec![as_bob], not_as("users", "bob", "system:anonymous")),
        (&stranger, pods, vec![], "401 Unauthorized".to_owned()),
        (&stranger, "/healthz", vec![], "401 Unauthorized".to_owned()),
        (&admin, pods, vec![("impersonate-group", "g")],
            "400 requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string(nil)} \
             without impersonating a user name".to_owned()),
    ] {
        let said = say(who, get(path, &headers)).await;
        assert!(said.starts_with(&expected), "{path} with {headers:?}: {said}, not {expected}");
    }
    served.stop().await;
    elsewhere.stop().await;
}

#[tokio::test]
async fn a_body_may_be_too_large() {
    let served = served().await;
    let client = client(served.kubeconfig()).await;
    for (method, path, expected) in [
        (Method::POST, "/api/v1/namespaces", "413 Request entity too large: limit is 3145728"),
        (Method::PATCH, "/api/v1/namespaces/default", "413 Request entity too large: limit is 3145728"),
        // Nobody looks at it.
        (Method::GET, "/readyz", "200 ok"),
    ] {
        let body = Body::from(vec![b' '; 100_000_000]);
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        assert_eq!(say(&client, request).await, expected, "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    let first = world.serve(LOOPBACK).await.unwrap();
    let address = first.address();
    let refused = world.serve(address).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("another program listens on {address}"));
    first.stop().await;
    world.serve(address).await.unwrap().stop().await;
}

#[tokio::test]
async fn stopping_ends_watches_and_who_says_nothing() {
    let served = served().await;
    let client = client(served.kubeconfig()).await;
    let silent = TcpStream::connect(served.address()).await.unwrap();
    let watch = client.send(get("/api/v1/pods?watch=true", &[])).await.unwrap();
    assert_eq!(watch.status().as_u16(), 200);
    let began = std::time::Instant::now();
    served.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5));
    // Cut off in the middle, or at its end.
    let _ = watch.into_body().collect_bytes().await;
    drop(silent);
}

/// Whoever asks sees no answer at all, and can ask again.
#[tokio::test]
async fn a_lost_answer_breaks_the_connection() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    for (fault, is_done) in
        [("* before create configmaps #1: lost", false), ("* after create configmaps #1: lost", true)]
    {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        world.plan_faults(fault.parse().unwrap());
        let served = world.serve(LOOPBACK).await.unwrap();
        let client = client(served.kubeconfig()).await;
        let map = Body::from(br#"{"metadata": {"name": "x"}}"#.to_vec());
        let answer = client.send(Request::post(MAPS).body(map).unwrap()).await;
        assert!(answer.is_err(), "{fault}: {answer:?}");
        let found = say(&client, get(&format!("{MAPS}/x"), &[])).await;
        assert!(found.starts_with(if is_done { "200 " } else { "404 " }), "{fault}: {found}");
        served.stop().await;
    }
}
