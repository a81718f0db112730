//! A sign of life for work that takes long.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

/// Work shorter than this needs no sign of life: it would only flicker.
const PATIENCE: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);

/// Does the work, with a spinner on standard error if somebody sees it and it takes long.
pub(crate) fn during<T>(message: &'static str, work: impl FnOnce() -> T) -> T {
    if !stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        // Dropping the sender is the signal, so that it is given even if the work panics.
        let (working, done) = channel::<()>();
        let spin = move || {
            if done.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let spinner = ProgressBar::new_spinner().with_message(message);
            while done.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                spinner.tick();
            }
            spinner.finish_and_clear();
        };
        // Without a thread there is no spinner, and the work is done all the same.
        let _spinner = thread::Builder::new().spawn_scoped(scope, spin);
        let result = work();
        drop(working);
        result
    })
}
