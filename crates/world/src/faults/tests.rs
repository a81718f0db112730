use std::time::Duration;

use axum::body::{Body, to_bytes};
use futures::StreamExt;
use http::{Request, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use super::*;
use crate::World;
use crate::json::{Value, json};

fn world(plan: &str) -> World {
    let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    world.plan_faults(plan.parse().unwrap());
    world
}

fn request(method: &Method, path: &str, body: &Value) -> Request<Body> {
    let form = if *method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    Request::builder().method(method).uri(path).header("content-type", form).body(body).unwrap()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// What comes back: the code and the object, or that nothing does.
async fn ask(
    world: &World,
    client: &str,
    method: &Method,
    path: &str,
    body: &Value,
) -> Result<(u16, Value), &'static str> {
    let answered = timeout(Duration::from_secs(100), world.client(client).call(request(method, path, body)));
    match answered.await {
        Err(_) => Err("no answer"),
        Ok(Err(Lost)) => Err("lost"),
        Ok(Ok(response)) => {
            let code = response.status().as_u16();
            let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            Ok((code, serde_json::from_slice(&bytes).unwrap()))
        }
    }
}

async fn create(world: &World, client: &str, name: &str) -> Result<u16, &'static str> {
    let map = json!({"metadata": {"name": name}});
    ask(world, client, &Method::POST, MAPS, &map).await.map(|(code, _)| code)
}

/// Makes each map, or changes it if it is there.
async fn write(world: &World, names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        if create(world, "other", name).await == Ok(409) {
            let change = json!({"data": {"changed": index.to_string()}});
            let path = format!("{MAPS}/{name}");
            assert_eq!(ask(world, "other", &Method::PATCH, &path, &change).await.unwrap().0, 200);
        }
    }
}

/// The names of all maps, by another client or the same.
async fn names(world: &World, client: &str) -> Vec<String> {
    let (_, list) = ask(world, client, &Method::GET, MAPS, &Value::Null).await.unwrap();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn writes_fail_before_or_after_their_effect() {
    for (fault, answers, stored) in [
        ("a before create configmaps #2: status 409", [Ok(201), Ok(409), Ok(201)], &["x0", "x2"][..]),
        ("a before write * #1x2: status 503", [Ok(503), Ok(503), Ok(201)], &["x2"]),
        ("a before create configmaps #1: lost", [Err("lost"), Ok(201), Ok(201)], &["x1", "x2"]),
        ("a after create configmaps #1: lost", [Err("lost"), Ok(201), Ok(201)], &["x0", "x1", "x2"]),
        ("a after create configmaps #2: status 500", [Ok(201), Ok(500), Ok(201)], &["x0", "x1", "x2"]),
        ("a after write * #1x2: status 504", [Ok(504), Ok(504), Ok(201)], &["x0", "x1", "x2"]),
        ("a before create * #2: crash", [Ok(201), Err("no answer"), Err("no answer")], &["x0"]),
        ("a after create * #2: crash", [Ok(201), Err("no answer"), Err("no answer")], &["x0", "x1"]),
        ("b before create * #1: crash", [Ok(201); 3], &["x0", "x1", "x2"]),
        ("a before create pods #1: crash", [Ok(201); 3], &["x0", "x1", "x2"]),
        ("* before any * #3: status 429 retry 7s", [Ok(201), Ok(201), Ok(429)], &["x0", "x1"]),
    ] {
        let world = world(fault);
        for (index, expected) in answers.into_iter().enumerate() {
            assert_eq!(create(&world, "a", &format!("x{index}")).await, expected, "{fault}, {index}");
        }
        assert_eq!(names(&world, "c").await, stored, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_in_trouble_say_so() {
    let watch = format!("{MAPS}?watch=true&resourceVersion=1");
    for (deed, method, path) in [
        ("get configmaps", Method::GET, &*format!("{MAPS}/x")),
        ("list configmaps", Method::GET, MAPS),
        ("watch configmaps", Method::GET, &*watch),
        ("watch configmaps", Method::GET, "/api/v1/watch/configmaps"),
        ("create configmaps", Method::POST, MAPS),
        ("patch configmaps", Method::PATCH, &*format!("{MAPS}/x")),
        ("delete configmaps", Method::DELETE, MAPS),
        ("create selfsubjectaccessreviews.authorization.k8s.io", Method::POST, REVIEWS),
        ("read *", Method::POST, REVIEWS),
        ("get /version", Method::GET, "/version"),
        ("get /apis/apps/v1", Method::GET, "/apis/apps/v1"),
        ("any *", Method::GET, "/openapi/v3"),
        // Nobody serves it, and it can fail all the same.
        ("list things.example.com", Method::GET, "/apis/example.com/v1/things"),
    ] {
        for (harm, code, retry_after, reason) in [
            ("status 401", 401, None, "Unauthorized"),
            ("status 403", 403, None, "Forbidden"),
            ("status 409", 409, None, "Conflict"),
            ("status 410", 410, None, "Expired"),
            ("status 429", 429, None, "TooManyRequests"),
            ("status 429 retry 7s", 429, Some("7"), "TooManyRequests"),
            ("status 500", 500, None, "InternalError"),
            // What is before the server knows nothing of its words.
            ("status 502", 502, None, "502 Bad Gateway"),
            ("status 503", 503, None, "ServiceUnavailable"),
            ("status 503 retry 1m", 503, Some("60"), "ServiceUnavailable"),
            ("status 504", 504, None, "Timeout"),
        ] {
            let fault = format!("a before {deed} #1: {harm}");
            let world = world(&fault);
            let body = json!({"metadata": {"name": "x"}});
            let answer = world.client("a").call(request(&method, path, &body)).await.unwrap();
            assert_eq!(answer.status(), code, "{fault}");
            let header = answer.headers().get("retry-after").map(|value| value.to_str().unwrap());
            assert_eq!(header, retry_after, "{fault}");
            let text = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let status: Value = serde_json::from_str(&text).unwrap_or_default();
            let said = status["reason"].as_str().unwrap_or(&text);
            assert!(said.contains(reason), "{fault}: {said}");
            assert_eq!(names(&world, "other").await, [""; 0], "{fault}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_is_asked_is_counted() {
    let world = world("");
    world.begin_audit();
    for (method, path, expected, is_write) in [
        (Method::POST, MAPS, "create configmaps", true),
        (Method::DELETE, MAPS, "deletecollection configmaps", true),
        (Method::POST, "/api/v1/namespaces/default/pods/p/eviction", "create pods/eviction", true),
        (Method::GET, "/apis/apps/v1/deployments", "list deployments.apps", false),
        (Method::GET, "/api/v1/namespaces/default", "get namespaces", false),
        (Method::GET, "/apis", "get /apis", false),
        (Method::POST, REVIEWS, "create selfsubjectaccessreviews.authorization.k8s.io", false),
        (
            Method::POST,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "create tokenreviews.authentication.k8s.io",
            false,
        ),
        (Method::GET, "/no/such/page", "get /no/such/page", false),
    ] {
        world.client("a").call(request(&method, path, &json!({}))).await.unwrap();
        let asked = world.take_asked();
        let lines: Vec<String> = asked.iter().map(|of| format!("{} {}", of.verb, of.resource)).collect();
        assert_eq!(lines, [expected], "{path}");
        assert_eq!(asked[0].is_write(), is_write, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_come_late() {
    for (fault, is_done_at_5, head_at, body_at) in [
        ("a before create configmaps #1: delay 10s", false, 10, 10),
        ("a after create configmaps #1: delay 10s", true, 10, 10),
        ("a after create configmaps #1: slow 20s", true, 0, 20),
        ("a before create configmaps #1: delay 10s; a after create configmaps #1: slow 20s", false, 10, 30),
    ] {
        let world = world(fault);
        let began = Instant::now();
        let asked = async {
            let body = json!({"metadata": {"name": "x"}});
            let answer = world.client("a").call(request(&Method::POST, MAPS, &body)).await.unwrap();
            assert_eq!(
                (answer.status(), began.elapsed().as_secs()),
                (StatusCode::CREATED, head_at),
                "{fault}"
            );
            let mut parts = answer.into_body().into_data_stream();
            let (mut whole, mut count) = (Vec::new(), 0);
            while let Some(part) = parts.next().await {
                whole.extend(part.unwrap());
                count += 1;
            }
            assert_eq!(began.elapsed().as_secs(), body_at, "{fault}");
            assert_eq!(count, if fault.contains("slow") { 4 } else { 1 }, "{fault}");
            let object: Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(object["metadata"]["name"], "x", "{fault}");
        };
        let seen = async {
            sleep(Duration::from_secs(5)).await;
            assert_eq!(names(&world, "other").await.len(), usize::from(is_done_at_5), "{fault}");
        };
        tokio::join!(asked, seen);
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_crashed_can_start_again() {
    let world = world("a before create * #1: crash");
    let began = Instant::now();
    tokio::select! {
        biased;
        _ = create(&world, "a", "x") => panic!("it was answered"),
        () = world.crashed("a") => {}
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    world.restart("a");
    assert_eq!(create(&world, "a", "x").await, Ok(201));
    assert_eq!(world.faults_struck(), ["a: a before create * #1: crash"]);
}

/// Whatever it had asked is not answered after it, whether or not it has started again.
#[tokio::test(start_paused = true)]
async fn nothing_reaches_who_has_crashed() {
    for (fault, method, path) in [
        ("a before create configmaps #1: delay 30s", Method::POST, MAPS.to_owned()),
        ("a after create configmaps #1: delay 30s", Method::POST, MAPS.to_owned()),
        ("a after create configmaps #1: slow 40s", Method::POST, MAPS.to_owned()),
        ("", Method::GET, format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=60")),
        ("a before event configmaps #1: delay 30s", Method::GET, format!("{MAPS}?watch=true")),
        ("a before event configmaps #1: freeze 30s", Method::GET, format!("{MAPS}?watch=true")),
    ] {
        for restarts in [false, true] {
            let world = world(fault);
            let began = Instant::now();
            let asked = async {
                let body = json!({"metadata": {"name": "x"}});
                let answer = world.client("a").call(request(&method, &path, &body)).await.unwrap();
                let mut parts = answer.into_body().into_data_stream();
                while let Some(part) = parts.next().await {
                    let secs = began.elapsed().as_secs();
                    assert!(secs < 6, "{fault}, {path}: {part:?} after {secs} s");
                }
            };
            let fate = async {
                sleep(Duration::from_secs(5)).await;
                // An event that is on its way.
                write(&world, &["w"]).await;
                sleep(Duration::from_secs(1)).await;
                world.crash("a");
                if restarts {
                    world.restart("a");
                }
                write(&world, &["y", "z"]).await;
                std::future::pending::<()>().await;
            };
            let whole = timeout(Duration::from_mins(10), async {
                tokio::select! {
                    biased;
                    () = asked => {}
                    () = fate => {}
                }
            });
            assert!(whole.await.is_err(), "{fault}, {path}: it was answered to its end");
            let answers = if restarts { Ok(409) } else { Err("no answer") };
            assert_eq!(create(&world, "a", "w").await, answers, "{fault}, {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_end_early() {
    let world = world("a before list configmaps #2: partial 1");
    write(&world, &["x", "y"]).await;
    for (client, expected) in [("a", &["x", "y"][..]), ("b", &["x", "y"]), ("a", &["x"]), ("a", &["x", "y"])]
    {
        assert_eq!(names(&world, client).await, expected, "{client}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_client_has_a_view_of_its_own() {
    let now = &["w", "x", "y", "z"][..];
    let then = &["x", "y", "z"][..];
    for (harm, shown, shown_to_the_next) in [
        ("freeze 60s", then, now),
        ("freeze 60s of configmaps", then, now),
        ("freeze 60s of secrets", now, now),
        ("rewind 2 for 60s", &["x"], &["x"]),
        ("rewind 2 for 60s of configmaps", &["x"], &["x"]),
        ("rewind 2 for 60s of secrets", now, now),
        ("rewind 1000000 for 60s", &[], &[]),
    ] {
        let world = world(&format!("a before list configmaps #2: {harm}"));
        write(&world, &["x", "y", "z"]).await;
        assert_eq!(names(&world, "a").await, ["x", "y", "z"], "{harm}");
        names(&world, "a").await;
        write(&world, &["w"]).await;
        assert_eq!(names(&world, "a").await, shown, "{harm}");
        assert_eq!(names(&world, "other").await, now, "{harm}");
        // What is asked for by name is there.
        let (code, _) = ask(&world, "a", &Method::GET, &format!("{MAPS}/w"), &Value::Null).await.unwrap();
        assert_eq!(code, StatusCode::OK);
        world.crash("a");
        world.restart("a");
        assert_eq!(names(&world, "a").await, shown_to_the_next, "{harm}");
        sleep(Duration::from_secs(61)).await;
        assert_eq!(names(&world, "a").await, now, "{harm}");
    }
}

/// Whoever is judged by what they know is told apart from whoever has missed nothing.
#[tokio::test(start_paused = true)]
async fn it_is_known_how_old_a_view_is() {
    for (harm, before, after) in [
        ("freeze 10m", 30, 90),
        ("freeze 10m of configmaps", 0, 60),
        ("freeze 10m of secrets", 0, 0),
        ("rewind 1 for 10m", 30, 90),
        ("rewind 1 for 10m of configmaps", 30, 90),
        ("clock +1h", 0, 0),
    ] {
        let world = world(&format!("a before list configmaps #1: {harm}"));
        write(&world, &["x"]).await;
        world.begin_audit();
        let mut ages = Vec::new();
        for (pause, written) in [(0, &[][..]), (30, &["y"]), (60, &[])] {
            sleep(Duration::from_secs(pause)).await;
            names(&world, "a").await;
            ages.extend(world.take_asked().iter().map(|asked| asked.stale_secs));
            write(&world, written).await;
            world.take_asked();
        }
        assert_eq!(ages, [0, before, after], "{harm}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_client_has_a_clock_of_its_own() {
    for (harm, ahead_secs) in [
        ("clock +1h", 3600),
        ("clock -1d", -86_400),
        ("clock 0%", -60),
        ("clock 50%", -30),
        ("clock 200%", 60),
        ("clock 100%", 0),
    ] {
        let world = world(&format!("a before create * #1: {harm}"));
        create(&world, "a", "x").await.unwrap();
        sleep(Duration::from_mins(1)).await;
        let ahead = world.clock_of("a").duration_since(world.clock_of("b"));
        assert_eq!(ahead.as_secs(), ahead_secs, "{harm}");
    }
}

/// The events of a minute and a half, by the names they are about: `10 x` is one after ten seconds. A bookmark that ends
/// what was there at the beginning is `end`, with how many changes it is behind.
async fn heard(world: &World, client: &str, query: &str) -> Vec<String> {
    let path = format!("{MAPS}?watch=true&{query}&timeoutSeconds=90");
    let now = world.revision();
    let began = Instant::now();
    let response = world.client(client).call(request(&Method::GET, &path, &Value::Null)).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let mut heard = Vec::new();
    while let Ok(Some(line)) = timeout(Duration::from_secs(100), body.next()).await {
        let what = match line {
            Err(_) => "lost".to_owned(),
            Ok(line) => {
                let event: Value = serde_json::from_slice(&line).unwrap();
                let metadata = &event["object"]["metadata"];
                let is_end = !metadata["annotations"]["k8s.io/initial-events-end"].is_null();
                match event["object"]["code"].as_i64() {
                    Some(code) => code.to_string(),
                    None if is_end => {
                        let told: u64 = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
                        format!("end -{}", now - told)
                    }
                    None if event["type"] == "BOOKMARK" => continue,
                    None => metadata["name"].as_str().unwrap().to_owned(),
                }
            }
        };
        heard.push(format!("{} {what}", began.elapsed().as_secs()));
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn events_are_lost_late_and_repeated() {
    let each_once = &["x", "y", "z"][..];
    for (written, fault, expected) in [
        (each_once, "", &["0 x", "0 y", "0 z"][..]),
        (each_once, "a before event configmaps #2: drop", &["0 x", "0 z"]),
        (each_once, "a before event configmaps #2: repeat", &["0 x", "0 y", "0 y", "0 z"]),
        (each_once, "a before event configmaps #2: silence", &["0 x"]),
        (each_once, "a before event configmaps #2: status 410", &["0 x", "0 410"]),
        (each_once, "a before event configmaps #2: status 500", &["0 x", "0 500"]),
        (each_once, "a before event configmaps #2: lost", &["0 x", "0 lost"]),
        (each_once, "a before event configmaps #2: end", &["0 x"]),
        (each_once, "a before event configmaps #1: end", &[]),
        (each_once, "a before event configmaps #2: crash", &["0 x"]),
        (each_once, "a before event * #2: delay 10s", &["0 x", "10 y", "10 z"]),
        (each_once, "a before event * #2: freeze 30s", &["0 x", "30 y", "30 z"]),
        (each_once, "a before event * #2: freeze 30s of configmaps", &["0 x", "30 y", "30 z"]),
        (each_once, "a before event * #2: freeze 30s of secrets", &["0 x", "0 y", "0 z"]),
        (each_once, "a before watch configmaps #1: freeze 30s", &["30 x", "30 y", "30 z"]),
        (each_once, "a before event * #2: rewind 1 for 30s", &["0 x", "0 lost"]),
        (each_once, "a before event * #1: swap", &["0 y", "0 x", "0 z"]),
        (each_once, "a before event * #1x2: swap", &["0 z", "0 x", "0 y"]),
        (each_once, "a before event * #3: swap", &["0 x", "0 y", "90 z"]),
        // Of one object, what comes first is heard first.
        (&["x", "x", "y", "x"], "a before event * #1: swap", &["0 y", "0 x", "0 x", "0 x"]),
        (each_once, "a before event * #1: swap; a before event * #2: lost", &["0 lost"]),
        (each_once, "b before event * #1: drop", &["0 x", "0 y", "0 z"]),
    ] {
        let world = world(fault);
        write(&world, written).await;
        assert_eq!(heard(&world, "a", "resourceVersion=1").await, expected, "{fault}");
    }
    // Whoever hears the end asks again, and hears what was to come.
    {
        let world = world("a before event configmaps #2: end");
        write(&world, each_once).await;
        let began = Instant::now();
        assert_eq!(heard(&world, "a", "resourceVersion=1").await, ["0 x"]);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(heard(&world, "a", "resourceVersion=1").await, ["0 x", "0 y", "0 z"]);
    }
    // Each event as a slow answer would be.
    let world = world("a after watch configmaps #1: slow 8s");
    write(&world, &["x"]).await;
    let path = format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=90");
    let began = Instant::now();
    let answer = world.client("a").call(request(&Method::GET, &path, &Value::Null)).await.unwrap();
    let parts = answer.into_body().into_data_stream().map(|_| began.elapsed().as_secs());
    assert_eq!(parts.take(4).collect::<Vec<_>>().await, [2, 4, 6, 8]);
}

/// Clients of today list by watching: what they are shown is what a list would show them.
#[tokio::test(start_paused = true)]
async fn watches_that_begin_with_what_is_there_show_what_lists_do() {
    let lists = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let in_time = &["0 x", "0 y", "0 z", "0 end -0"][..];
    for (query, fault, expected) in [
        (lists, "", in_time),
        (lists, "a before get configmaps #1: freeze 30s", &["0 x", "0 y", "0 end -1", "30 z"]),
        (lists, "a before get configmaps #1: freeze 30s of configmaps", &["0 x", "0 y", "0 end -1", "30 z"]),
        (lists, "a before get configmaps #1: freeze 30s of secrets", in_time),
        (lists, "b before get configmaps #1: freeze 30s", in_time),
        (lists, "a before get configmaps #1: rewind 1 for 30s", &["0 x", "0 end -2", "30 y", "30 z"]),
        (lists, "a before watch configmaps #1: freeze 30s", in_time),
        (lists, "a before event * #2: freeze 30s", &["0 x", "30 y", "30 z", "30 end -0"]),
        ("resourceVersion=0", "a before get configmaps #1: freeze 30s", &["0 x", "0 y", "30 z"]),
        ("labelSelector=", "a before get configmaps #1: rewind 1 for 30s", &["0 x", "30 y", "30 z"]),
        ("resourceVersion=1", "a before get configmaps #1: freeze 30s", &["30 x", "30 y", "30 z"]),
        (lists, "a before watch configmaps #1: partial 1", &["0 x", "0 end -0"]),
        ("resourceVersion=0", "a before watch configmaps #1: partial 1", &["0 x"]),
        (lists, "a before watch secrets #1: partial 1", in_time),
        ("resourceVersion=1", "a before watch configmaps #1: partial 1", &["0 x", "0 y", "0 z"]),
    ] {
        let world = world(fault);
        write(&world, &["x", "y"]).await;
        ask(&world, "a", &Method::GET, &format!("{MAPS}/x"), &Value::Null).await.unwrap();
        write(&world, &["z"]).await;
        assert_eq!(heard(&world, "a", query).await, expected, "{query}, {fault}");
    }
    // What was shown is forgotten before anybody asks for it again.
    let world = world("a before get configmaps #1: freeze 30s");
    write(&world, &["x"]).await;
    ask(&world, "a", &Method::GET, &format!("{MAPS}/x"), &Value::Null).await.unwrap();
    write(&world, &["y"]).await;
    world.compact();
    assert_eq!(heard(&world, "a", lists).await, ["0 410"]);
}
