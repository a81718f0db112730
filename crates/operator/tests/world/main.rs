//! The operator on the in-process world: the whole loop, in virtual time.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod permissions;
mod scene;

use std::time::Duration;

use berth_world::cloud::Weather;
use scene::{Scene, class, deployment, pool};
use tokio::time::sleep;

fn played<F: Future<Output = ()>>(script: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(script);
}

#[test]
fn pods_get_nodes_and_give_them_back() {
    played(async {
        let scene = Scene::new(1, Weather::default()).await;
        scene
            .play(async {
                scene.apply(class()).await;
                scene.apply(pool("default", |_| {})).await;
                scene.apply(deployment("web", 20, "1")).await;
                scene.until(180, "20 pods run", async || scene.running().await == 20).await;
                assert!(scene.machines() > 0);
                scene.apply(deployment("web", 2, "1")).await;
                // Two pods on two small machines cost as much as both on a larger one.
                scene
                    .until(900, "two nodes are left", async || {
                        scene.machines() <= 2 && scene.nodes().await.len() <= 2 && scene.running().await == 2
                    })
                    .await;
                scene.apply(deployment("web", 0, "1")).await;
                scene
                    .until(900, "none is left", async || {
                        scene.machines() == 0
                            && scene.claims().await.is_empty()
                            && scene.nodes().await.is_empty()
                    })
                    .await;
                sleep(Duration::from_mins(1)).await;
                let revision = scene.world.revision();
                sleep(Duration::from_mins(10)).await;
                assert_eq!(scene.world.revision(), revision, "idle writes nothing");
            })
            .await;
    });
}
