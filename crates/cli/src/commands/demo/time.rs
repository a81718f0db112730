//! Time that passes as fast as somebody wants.
//!
//! The demo's world and operator live by tokio's clock, which is paused: it stands still until it is advanced, beat by
//! beat, by what has passed in truth times the speed. Where the machine does not keep up, time goes slower; nothing is
//! left out.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::advance;

const BEAT: Duration = Duration::from_millis(10);
/// Time passes in steps that nobody in the demo can tell from a flow.
const STEP: Duration = Duration::from_millis(20);
/// After a longer pause (a laptop that slept, a plan that took its time) the rest is not caught up with.
const LAG_MAX: Duration = Duration::from_millis(200);

/// Beats for as long as somebody listens.
#[derive(Debug)]
pub(super) struct Metronome {
    beats: mpsc::Receiver<()>,
}

impl Metronome {
    /// Must be called where tokio's clock is paused, before anything waits: while a blocking task runs, tokio does not
    /// let a paused clock jump ahead by itself.
    pub(super) fn start() -> Self {
        let (beat, beats) = mpsc::channel(1);
        tokio::task::spawn_blocking(move || {
            while beat.blocking_send(()).is_ok() {
                thread::sleep(BEAT);
            }
        });
        Self { beats }
    }

    /// Lets time pass, for as long as this is awaited.
    pub(super) async fn drive(mut self, speed: watch::Receiver<u32>) {
        let mut last = Instant::now();
        while self.beats.recv().await.is_some() {
            let passed = last.elapsed().min(LAG_MAX);
            last = Instant::now();
            let mut left = passed * *speed.borrow();
            while !left.is_zero() {
                let step = left.min(STEP);
                advance(step).await;
                left -= step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time;

    use super::*;

    #[test]
    fn time_passes_as_fast_as_is_wanted() {
        for times in [1, 20] {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime");
            let began = Instant::now();
            let (_speed, speeds) = watch::channel(times);
            runtime.block_on(async {
                let metronome = Metronome::start();
                let virtual_secs = u64::from(times);
                let wait = time::sleep(Duration::from_secs(virtual_secs));
                tokio::select! {
                    () = metronome.drive(speeds) => panic!("it ended"),
                    () = wait => {}
                }
            });
            drop(runtime);
            // At least: a busy machine may be late.
            assert!(began.elapsed() >= Duration::from_millis(950), "{:?} at {times}", began.elapsed());
        }
    }
}
