//! Asking a world, in tests.

use axum::body::{Body, to_bytes};
use http::{Request, Response};
use tower_service::Service;

use crate::World;
use crate::json::Value;

pub(crate) fn world() -> World {
    World::new(1, "2026-01-01T00:00:00Z".parse().unwrap())
}

/// With headers, of which a patch that is no merge patch has to name its form.
pub(crate) async fn answer(
    world: &World,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Response<Body> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let form = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", form);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.client("test").call(request.body(Body::from(body)).unwrap()).await.unwrap()
}

/// The code, and the object.
pub(crate) async fn ask(world: &World, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = answer(world, method, path, &[], &body).await;
    let code = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}
