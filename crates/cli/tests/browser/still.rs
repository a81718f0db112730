//! The page with a view that stands still until the test has another, so that what is drawn can be compared with it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use crate::Answer;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    /// Connections are broken off, and new ones end without an answer.
    Broken,
    /// Streams end, and whoever asks is told to come back later.
    Closed,
}

struct State {
    door: Door,
    view: String,
    /// How often something has changed.
    changes: u64,
    asked: BTreeSet<String>,
}

struct House {
    page: Answer,
    state: Mutex<State>,
    changed: Condvar,
}

/// Clones are the same.
#[derive(Clone)]
pub(super) struct Still {
    pub(super) address: String,
    house: Arc<House>,
}

impl Still {
    /// Serves this page, as it was answered, with this view.
    pub(super) fn new(page: Answer, view: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = State { door: Door::Open, view: view.to_string(), changes: 0, asked: BTreeSet::new() };
        let house = Arc::new(House { page, state: Mutex::new(state), changed: Condvar::new() });
        let still = Self { address, house: house.clone() };
        // It ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let house = house.clone();
                // Whoever hangs up does not want the rest.
                thread::spawn(move || house.answer(stream));
            }
        });
        still
    }

    pub(super) fn show(&self, view: &Value) {
        let mut state = self.house.state();
        state.view = view.to_string();
        state.changes += 1;
        self.house.changed.notify_all();
    }

    pub(super) fn set(&self, door: Door) {
        let mut state = self.house.state();
        state.door = door;
        state.changes += 1;
        self.house.changed.notify_all();
    }

    /// All that was ever asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.house.state().asked.iter().cloned().collect()
    }
}

impl House {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.try_clone()?).read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (door, view) = {
            let mut state = self.state();
            state.asked.insert(path.clone());
            (state.door, state.view.clone())
        };
        let mut say = |status: &str, head: &str, body: &str| {
            write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n{head}\r\n\r\n{body}")
        };
        match (door, &*path) {
            (Door::Broken, _) => Ok(()),
            (Door::Closed, _) => say("503 Service Unavailable", "content-type: text/plain", ""),
            (Door::Open, "/") => say("200 OK", &self.page.policy, &self.page.body),
            (Door::Open, "/api/view") => say("200 OK", "content-type: application/json", &view),
            (Door::Open, "/api/stream") => self.stream(stream),
            (Door::Open, _) => say("404 Not Found", "content-type: text/plain", ""),
        }
    }

    fn stream(&self, mut stream: TcpStream) -> io::Result<()> {
        // Whoever loses this stream need not wait for long.
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\nretry: 50\n\n"
        )?;
        let mut state = self.state();
        while state.door == Door::Open {
            let (view, changes) = (state.view.clone(), state.changes);
            drop(state);
            write!(stream, "event: view\ndata: {view}\n\n")?;
            let same = |state: &mut State| state.changes == changes;
            state = self.changed.wait_while(self.state(), same).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}
