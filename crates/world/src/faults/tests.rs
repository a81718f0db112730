use std::time::Duration;

use axum::body::{Body, to_bytes};
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use tokio::time::{Instant, timeout};
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
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    Request::builder().method(method).uri(path).header("content-type", "application/json").body(body).unwrap()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

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

#[tokio::test(start_paused = true)]
async fn each_client_has_a_view_and_a_clock_of_its_own() {
    let world = world(
        "a before list configmaps #2: freeze 60s\nb before list configmaps #2: partial 1\nb before create * #1: clock +1h",
    );
    assert_eq!(create(&world, "a", "x").await, Ok(201));
    assert_eq!(names(&world, "a").await, ["x"]);
    assert_eq!(names(&world, "a").await, ["x"]);
    assert_eq!(create(&world, "b", "y").await, Ok(201));
    for (client, expected) in [("a", &["x"][..]), ("b", &["x", "y"]), ("b", &["x"]), ("c", &["x", "y"])] {
        assert_eq!(names(&world, client).await, expected, "{client}");
    }
    // What is asked for by name is there.
    let (code, _) = ask(&world, "a", &Method::GET, &format!("{MAPS}/y"), &Value::Null).await.unwrap();
    assert_eq!(code, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(names(&world, "a").await, ["x", "y"]);
    let ahead = world.clock_of("b").duration_since(world.clock_of("a"));
    assert_eq!(ahead, SignedDuration::from_hours(1));
}

/// The events that come within a minute and a half, by the names they are about.
async fn heard(world: &World, client: &str) -> Vec<String> {
    let path = format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=90");
    let response = world.client(client).call(request(&Method::GET, &path, &Value::Null)).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let mut heard = Vec::new();
    while let Ok(Some(line)) = timeout(Duration::from_secs(100), body.next()).await {
        heard.push(match line {
            Err(_) => "lost".to_owned(),
            Ok(line) => {
                let event: Value = serde_json::from_slice(&line).unwrap();
                match event["object"]["code"].as_i64() {
                    Some(code) => code.to_string(),
                    None => event["object"]["metadata"]["name"].as_str().unwrap().to_owned(),
                }
            }
        });
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn events_are_lost_and_repeated() {
    for (fault, expected) in [
        ("", &["x0", "x1", "x2"][..]),
        ("a before event configmaps #2: drop", &["x0", "x2"]),
        ("a before event configmaps #2: repeat", &["x0", "x1", "x1", "x2"]),
        ("a before event configmaps #2: silence", &["x0"]),
        ("a before event configmaps #2: status 410", &["x0", "410"]),
        ("a before event configmaps #2: lost", &["x0", "lost"]),
        ("a before event * #3: delay 10s", &["x0", "x1", "x2"]),
        ("b before event * #1: drop", &["x0", "x1", "x2"]),
    ] {
        let world = world(fault);
        for index in 0..3 {
            create(&world, "other", &format!("x{index}")).await.unwrap();
        }
        assert_eq!(heard(&world, "a").await, expected, "{fault}");
    }
}
