//! A sign of life for work that takes long.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

/// Work shorter than this needs no sign of life: it would only flicker.
const PATIENCE: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);

/// How many objects are done. Only for show, so nothing is ordered by it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    pub(crate) fn set(&self, objects: usize) {
        self.0.store(objects, Ordering::Relaxed);
    }
}

/// Does the work, with a spinner on standard error if somebody sees it and it takes long.
pub(crate) fn during<T>(message: &str, work: impl FnOnce(&Counter) -> T) -> T {
    let counter = &Counter::default();
    if !stderr().is_terminal() {
        return work(counter);
    }
    thread::scope(|scope| {
        // Dropping the sender is the signal, so that it is given even if the work panics.
        let (working, done) = channel::<()>();
        // Without a thread there is no spinner, and the work is done all the same.
        let _spinner = thread::Builder::new().spawn_scoped(scope, move || spin(message, counter, &done));
        let result = work(counter);
        drop(working);
        result
    })
}

fn spin(message: &str, counter: &Counter, done: &Receiver<()>) {
    if done.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let spinner = ProgressBar::new_spinner();
    while done.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        spinner.set_message(match counter.0.load(Ordering::Relaxed) {
            0 => message.to_owned(),
            objects => format!("{message}: {objects} objects"),
        });
        spinner.tick();
    }
    spinner.finish_and_clear();
}
