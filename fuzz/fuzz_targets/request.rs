//! Requests: whatever a client sends to the in-process world, it gets an answer, and the world lives on.
//!
//! The input is written as the cases of `crates/world/tests/contract/cases` are: `cargo xtask fuzz` begins with those.

#![no_main]

#[path = "../../crates/world/tests/contract/request.rs"]
#[allow(dead_code, reason = "how answers are compared does not matter here")]
mod request;
#[path = "../../crates/world/tests/robust/sent.rs"]
mod sent;
#[path = "../../crates/world/tests/robust/stage.rs"]
mod stage;

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sent::Sent;
use stage::{Then, on_stage};

/// The rest of a longer input is left out: many short ones find more.
const REQUESTS_MAX: usize = 16;

const BETWEEN: Duration = Duration::from_secs(3);
const AFTERWARDS: Duration = Duration::from_mins(20);

fuzz_target!(|input: &[u8]| {
    let requests = Sent::all(input);
    let ended = on_stage(async |stage| {
        for request in requests.iter().take(REQUESTS_MAX) {
            let request = request.filled_in(stage.answers());
            if stage.send(&request).await? == Then::Enough || stage.pass(BETWEEN).await? == Then::Enough {
                return Ok(Then::Enough);
            }
        }
        stage.pass(AFTERWARDS).await
    });
    if let Err(broken) = ended {
        panic!("{broken:?}");
    }
});
