//! Requests: whatever a client sends to the in-process world, it gets an answer.
//!
//! The input is a few requests, `METHOD path content-type` and a body each, with a line of `---` between them.

#![no_main]

use berth_world::World;
use berth_world::faults::Seat;
use http::Request;
use libfuzzer_sys::fuzz_target;
use tower_service::Service;

/// A watch has no end of its own.
const WATCHES: &str = "watch";

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(async {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().expect("it is a time"));
        let mut seat = world.client("fuzz");
        for request in requests(input) {
            ask(&mut seat, request).await;
        }
    });
});

fn requests(input: &[u8]) -> Vec<Request<axum::body::Body>> {
    let mut requests = Vec::new();
    for part in split(input, b"\n---\n").into_iter().take(8) {
        let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
        let line = String::from_utf8_lossy(&part[..end]).into_owned();
        let body = part.get(end + 1..).unwrap_or_default().to_vec();
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if path.contains(WATCHES) {
            continue;
        }
        let built = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", words.next().unwrap_or_default())
            .body(axum::body::Body::from(body));
        // What HTTP itself does not allow never gets as far as the world.
        requests.extend(built);
    }
    requests
}

fn split<'a>(input: &'a [u8], line: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(line.len()).position(|window| window == line) {
        parts.push(&rest[..at]);
        rest = &rest[at + line.len()..];
    }
    parts.push(rest);
    parts
}

async fn ask(seat: &mut Seat, request: Request<axum::body::Body>) {
    let answer = seat.call(request).await.expect("no fault is planned");
    let code = answer.status().as_u16();
    assert!((200..600).contains(&code), "{code}");
    axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("the answer ends");
}
