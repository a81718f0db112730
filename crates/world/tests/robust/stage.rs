//! A world that lives while it is asked, in virtual time.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::BodyDataStream;
use berth_world::World;
use berth_world::faults::Seat;
use futures::{FutureExt, StreamExt, poll};
use serde_json::Value;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;
use tower_service::Service;

use crate::sent::Sent;

/// How long an answer may take: webhooks that nobody can reach are waited for.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often others get their turn before time goes on.
const TURNS: usize = 8;
const STEP: Duration = Duration::from_millis(500);
/// In so many steps a time passes.
const STEPS: u32 = 6;

/// Somebody who wants millions of pods gets them, one after the other: so much is seen of it.
const CHANGES_MAX: u64 = 4_000;

/// So many watches are listened to at a time, and so many events are heard of each at once.
const OPEN_MAX: usize = 4;
const EVENTS_MAX: usize = 64;

/// Nodes, for all that is to run.
const NODES: &str = r#"
POST /api/v1/nodes
{"metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "x", "kubernetes.io/hostname": "a"}}, "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"}, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}}}
POST /api/v1/nodes
{"metadata": {"name": "b", "labels": {"topology.kubernetes.io/zone": "y", "kubernetes.io/hostname": "b"}}, "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"}, "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"}}}
"#;

pub(crate) struct Stage {
    world: World,
    life: JoinHandle<()>,
    seat: Seat,
    open: Vec<BodyDataStream>,
    /// What was answered so far, as far as it was JSON.
    answers: Vec<Value>,
}

/// What a world must never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    RequestPanicked,
    WatchPanicked,
    ControllerPanicked,
    NoAnswer,
}

/// Whether there is reason to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    Enough,
}

/// Plays something on a world of its own.
pub(crate) fn on_stage<T>(play: impl AsyncFnOnce(&mut Stage) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let living = world.clone();
        let life = tokio::spawn(async move { living.live().await });
        let mut stage =
            Stage { seat: world.client("robust"), world, life, open: Vec::new(), answers: Vec::new() };
        for node in Sent::all(NODES.as_bytes()) {
            assert_eq!(stage.send(&node).await, Ok(Then::GoOn));
        }
        stage.answers.clear();
        play(&mut stage).await
    })
}

impl Stage {
    /// What earlier answers said.
    pub(crate) fn answers(&self) -> &[Value] {
        &self.answers
    }

    /// Sends a request and hears the answer, or its beginning: a watch has no end of its own.
    pub(crate) async fn send(&mut self, sent: &Sent) -> Result<Then, Broken> {
        let Some(request) = sent.built() else {
            self.answers.push(Value::Null);
            return Ok(Then::GoOn);
        };
        let asked = AssertUnwindSafe(self.seat.call(request)).catch_unwind();
        let Some(answered) = self.in_time(asked).await? else { return Ok(Then::Enough) };
        let answer = answered.map_err(|_| Broken::RequestPanicked)?.unwrap();
        self.open.push(answer.into_body().into_data_stream());
        let said = self.listen().await?;
        self.answers.push(serde_json::from_slice(&said).unwrap_or_default());
        self.check()
    }

    /// Lets time pass, and hears what has happened.
    pub(crate) async fn pass(&mut self, time: Duration) -> Result<Then, Broken> {
        for _ in 0..STEPS {
            advance(time / STEPS).await;
            for _ in 0..TURNS {
                yield_now().await;
                if self.check()? == Then::Enough {
                    return Ok(Then::Enough);
                }
            }
        }
        self.listen().await?;
        self.check()
    }

    /// What comes of something, unless there is too much to do meanwhile. Nobody may wait for time to pass here: it
    /// would not for as long as somebody is busy.
    async fn in_time<T>(&self, something: impl Future<Output = T>) -> Result<Option<T>, Broken> {
        let mut something = pin!(something);
        let mut waited = Duration::ZERO;
        while waited < PATIENCE {
            for _ in 0..TURNS {
                if let Poll::Ready(done) = poll!(something.as_mut()) {
                    return Ok(Some(done));
                }
                yield_now().await;
                if self.check()? == Then::Enough {
                    return Ok(None);
                }
            }
            advance(STEP).await;
            waited += STEP;
        }
        Err(Broken::NoAnswer)
    }

    /// What is said now by all that have not ended; of the last, what it was.
    async fn listen(&mut self) -> Result<Vec<u8>, Broken> {
        let mut said = Vec::new();
        let mut open = Vec::new();
        for mut stream in self.open.drain(..) {
            said.clear();
            let mut is_open = true;
            for _ in 0..EVENTS_MAX {
                let next = AssertUnwindSafe(async { poll!(stream.next()) }).catch_unwind();
                match next.await.map_err(|_| Broken::WatchPanicked)? {
                    Poll::Ready(Some(chunk)) => said.extend_from_slice(&chunk.unwrap()),
                    Poll::Ready(None) => {
                        is_open = false;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            open.extend(is_open.then_some(stream));
        }
        let too_many = open.len().saturating_sub(OPEN_MAX);
        self.open = open.split_off(too_many);
        Ok(said)
    }

    fn check(&self) -> Result<Then, Broken> {
        if self.life.is_finished() {
            return Err(Broken::ControllerPanicked);
        }
        Ok(if self.world.revision() > CHANGES_MAX { Then::Enough } else { Then::GoOn })
    }
}
