//! A way to VPSie without a socket, for tests in virtual time.

use axum::body::{Body, Bytes, to_bytes};
use berth_cloud::vpsie::{BODY_BYTES_MAX, Lost, Sent, Transport};
use http::{Request, Response};

use super::Vpsie;

/// What a client sends arrives in the same process.
#[derive(Clone, Debug)]
pub struct InProcess(pub Vpsie);

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> Sent<'_> {
        Box::pin(async {
            let response = self.0.respond(request.map(Body::from)).await;
            let (head, body) = response.into_parts();
            let body =
                to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| Lost::Broken(error.to_string()))?;
            Ok(Response::from_parts(head, body))
        })
    }
}
