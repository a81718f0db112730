use std::time::Duration;

use axum::body::Body;
use berth_api::Timestamp;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

fn looked(cluster: &str) -> Arc<Report> {
    let at: Timestamp = "2026-03-01T09:00:00Z".parse().unwrap();
    Arc::new(Report { at, cluster: cluster.to_owned(), is_leader: true, ..Report::default() })
}

fn state() -> ControlsView {
    let web = Workload { namespace: "shop".to_owned(), name: "web".to_owned(), replicas: 6 };
    ControlsView {
        workloads: vec![web],
        price_percent: 100,
        cloud_broken: false,
        speed: 1,
        speeds: vec![1, 5],
    }
}

/// A page with controls, and whoever fulfils wishes.
struct House {
    reports: watch::Sender<Arc<Report>>,
    state: watch::Sender<ControlsView>,
    wishes: mpsc::Receiver<Wish>,
    router: Router,
}

fn house() -> House {
    let (reports, seen) = watch::channel(Arc::default());
    let (state, shown) = watch::channel(state());
    let (wish, wishes) = mpsc::channel(1);
    House { reports, state, wishes, router: local(seen, Some(Controls { state: shown, wishes: wish })) }
}

/// One that only this machine reaches.
fn local(reports: watch::Receiver<Arc<Report>>, controls: Option<Controls>) -> Router {
    router(([127, 0, 0, 1], 8088).into(), reports, controls)
}

async fn ask(router: &Router, mut request: http::Request<Body>) -> Response {
    use tower_service::Service;
    let named = HeaderValue::from_static("localhost:8088");
    request.headers_mut().entry(header::HOST).or_insert(named);
    router.clone().call(request).await.unwrap_or_else(|never| match never {})
}

async fn get(router: &Router, path: &str) -> (u16, Response) {
    let response = ask(router, http::Request::get(path).body(Body::empty()).unwrap()).await;
    (response.status().as_u16(), response)
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn the_page_is_whole_and_guarded() {
    let house = house();
    let (code, response) = get(&house.router, "/").await;
    assert_eq!(code, 200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(response.headers()[name], value, "{name}");
    }
    let page = text(response).await;
    assert!(page.contains("<title>Berth</title>"));
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(get(&house.router, "/elsewhere").await.0, 404);
}

/// A site whose name stands for this machine reads nothing here; where others are let in, they may have named it.
#[tokio::test]
async fn only_this_machine_reaches_a_page_that_is_for_it_alone() {
    let (reports, seen) = watch::channel(looked("quay"));
    let everywhere = router(([0, 0, 0, 0], 8088).into(), seen.clone(), None);
    let here = local(seen, None);
    for (host, code) in [
        ("localhost:8088", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8088", 200),
        ("[::1]:8088", 200),
        ("rebound.example:8088", 421),
        ("localhost.rebound.example", 421),
        ("127.0.0.1.rebound.example", 421),
        ("", 421),
    ] {
        let asked = |router| {
            let request = http::Request::get("/api/view").header(header::HOST, host).body(Body::empty());
            ask(router, request.unwrap())
        };
        let response = asked(&here).await;
        assert_eq!(response.status().as_u16(), code, "{host}");
        if code == 421 {
            let said = text(response).await;
            assert!(said.contains("open http://127.0.0.1:8088"), "{said}");
        }
        assert_eq!(asked(&everywhere).await.status().as_u16(), 200, "{host}");
    }
    drop(reports);
}

#[tokio::test]
async fn a_view_is_made_once_for_each_report_and_only_if_somebody_looks() {
    let (reports, seen) = watch::channel(Arc::default());
    let gallery = Arc::new(Gallery::new(seen, None));
    assert_eq!(gallery.view(), None, "before the first look");
    reports.send_replace(looked("quay"));
    let first = gallery.view().unwrap();
    assert!(Arc::ptr_eq(&first, &gallery.view().unwrap()));
    reports.send_replace(looked("pier"));
    let second = gallery.view().unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(serde_json::from_str::<Value>(&second).unwrap()["cluster"], "pier");
}

#[tokio::test(start_paused = true)]
async fn views_come_as_reports_do() {
    let house = house();
    assert_eq!(get(&house.router, "/api/view").await.0, 503);
    house.reports.send_replace(looked("quay"));
    let (code, response) = get(&house.router, "/api/view").await;
    assert_eq!(
        (code, &response.headers()["content-type"]),
        (200, &HeaderValue::from_static("application/json"))
    );
    let view: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(json!([view["cluster"], view["mode"], view["controls"]["speed"]]), json!(["quay", "demo", 1]));

    let (code, response) = get(&house.router, "/api/stream").await;
    assert_eq!(
        (code, &response.headers()["content-type"]),
        (200, &HeaderValue::from_static("text/event-stream"))
    );
    let mut events = response.into_body().into_data_stream();
    let mut next = async || {
        let event = timeout(Duration::from_secs(5), events.next()).await.ok().flatten();
        event.map(|event| String::from_utf8(event.unwrap().to_vec()).unwrap())
    };
    let shown = |event: Option<String>| -> Value {
        let event = event.expect("an event");
        let data = event.strip_prefix("event: view\ndata: ").expect("a view").trim_end().to_owned();
        serde_json::from_str(&data).unwrap()
    };
    assert_eq!(shown(next().await), view);
    assert_eq!(next().await, None, "nothing has changed");
    house.reports.send_replace(looked("pier"));
    house.reports.send_replace(looked("mole"));
    assert_eq!(shown(next().await)["cluster"], "mole");
    house.state.send_modify(|state| state.speed = 5);
    assert_eq!(shown(next().await)["controls"]["speed"], 5);
}

#[tokio::test]
async fn wishes_are_fulfilled_or_refused_in_words() {
    let House { mut wishes, router: demo, reports, state } = house();
    let (_reports, seen) = watch::channel(looked("quay"));
    let live = local(seen, None);
    let granting = tokio::spawn(async move {
        while let Some(Wish { wanted, answer }) = wishes.recv().await {
            let granted = match wanted {
                Control::Speed { times: 5 } | Control::Cloud { broken: true } => Ok(()),
                Control::Speed { .. } => Err("time runs at 1 or 5".to_owned()),
                // Nobody answers.
                _ => continue,
            };
            let _ = answer.send(granted);
        }
    });
    let long = format!(r#"{{"cloud":{{"broken":true}}}}{}"#, " ".repeat(WISH_BYTES_MAX));
    for (router, form, body, code, words) in [
        (&demo, "application/json", r#"{"speed":{"times":5}}"#, 204, ""),
        (&demo, "application/json; charset=utf-8", r#"{"cloud":{"broken":true}}"#, 204, ""),
        (&demo, "application/json", r#"{"speed":{"times":7}}"#, 422, "time runs at 1 or 5"),
        (&demo, "application/json", r#"{"price":{"percent":50}}"#, 503, "the demo is over"),
        (&demo, "application/json", "", 400, "this is not understood: EOF"),
        (&demo, "application/json", "{}", 400, "this is not understood: "),
        (&demo, "application/json", r#"{"sail":{}}"#, 400, "unknown variant `sail`"),
        (&demo, "application/json", r#"{"speed":{"times":-1}}"#, 400, "invalid value: integer `-1`"),
        (&demo, "application/json", r#"{"speed":{"times":5,"x":1}}"#, 400, "unknown field `x`"),
        (&demo, "application/json", r#"{"scale":{"name":"web"}}"#, 400, "missing field"),
        (&demo, "application/json", &long, 413, "at most 4096 bytes"),
        (&demo, "text/plain", r#"{"speed":{"times":5}}"#, 415, "application/json"),
        (&live, "application/json", r#"{"speed":{"times":5}}"#, 404, "only `berth demo`"),
    ] {
        let request = http::Request::post("/api/control").header("content-type", form);
        let response = ask(router, request.body(Body::from(body.to_owned())).unwrap()).await;
        let status = response.status().as_u16();
        let said = text(response).await;
        assert_eq!((status, said.contains(words)), (code, true), "{body}: {said}");
    }
    let (code, _) = get(&demo, "/api/control").await;
    assert_eq!(code, 405);
    granting.abort();
    drop((reports, state));
}
