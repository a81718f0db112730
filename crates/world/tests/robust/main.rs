//! Whatever the world is asked, it answers, and its controllers live on.
//!
//! The requests are those of `tests/contract/cases`, and of `cases` for what only controllers look at. Each seed plays
//! some of them on a world of its own with its life, and makes some of them odd. `BERTH_SEEDS=100000` plays more than
//! usual, `BERTH_SEED=7` only the seventh, both together that many from there on.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a sequence that cannot be played is a mistake in the test"
)]

#[path = "../random/draw.rs"]
mod draw;
mod odd;
#[path = "../contract/request.rs"]
#[expect(dead_code, reason = "how answers are compared does not matter here")]
mod request;
mod sent;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{self, PanicHookInfo};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use draw::Lots;
use odd::Pool;
use sent::Sent;
use stage::{Broken, Stage, Then, on_stage};

/// So many are played unless somebody says how many.
const USUAL: u64 = 300;

/// So many different ways to break are shown.
const SHOWN_MAX: usize = 12;

const SAID_EVERY: Duration = Duration::from_secs(10);

const CASES: [&str; 2] = ["tests/contract/cases", "tests/robust/cases"];

/// How much time may pass between two requests.
const TIMES: [Duration; 7] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(3),
    Duration::from_secs(45),
    Duration::from_mins(7),
    Duration::from_hours(30),
    Duration::from_hours(24 * 400),
];

/// Everything is shown as people see it and as programs do.
const FORMS: [&str; 3] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

/// The requests of every case.
fn cases() -> Vec<Vec<Sent>> {
    let mut files: Vec<_> = CASES
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let texts = files.iter().map(|file| format!("\n{}", std::fs::read_to_string(file).unwrap()));
    let split = |text: String| -> Vec<_> {
        text.split("\n# ").skip(1).map(|case| Sent::all(case.as_bytes())).collect()
    };
    texts.flat_map(split).collect()
}

/// What was sent, and how it ended.
struct Played {
    sent: Vec<Sent>,
    broken: Option<Broken>,
}

/// The sequence of a seed.
fn play(cases: &[Vec<Sent>], pool: &Pool, seed: u64) -> Played {
    let mut lots = Lots::new(seed);
    let mut requests = lots.pick(cases).clone();
    if lots.one_in(3) {
        requests.extend(lots.pick(cases).clone());
    }
    let mut sent = Vec::new();
    let ended = on_stage(async |stage| perform(stage, &requests, pool, &mut lots, &mut sent).await);
    Played { sent, broken: ended.err() }
}

async fn perform(
    stage: &mut Stage,
    requests: &[Sent],
    pool: &Pool,
    lots: &mut Lots,
    sent: &mut Vec<Sent>,
) -> Result<Then, Broken> {
    for request in requests {
        let mut request = request.filled_in(stage.answers());
        if lots.one_in(2) {
            for _ in 0..=lots.below(3) {
                pool.mutate(&mut request, lots);
            }
        }
        sent.push(request.clone());
        if stage.send(&request).await? == Then::Enough
            || stage.pass(*lots.pick(&TIMES)).await? == Then::Enough
        {
            return Ok(Then::Enough);
        }
    }
    let paths: BTreeSet<String> =
        sent.iter().filter_map(|sent| sent.path.split('?').next().map(str::to_owned)).collect();
    for path in paths {
        for (form, query) in FORMS.iter().zip(["", "?watch=true&timeoutSeconds=5", "?limit=2"]) {
            let mut request =
                Sent { method: "GET".to_owned(), path: format!("{path}{query}"), ..Sent::default() };
            request.set_header("accept", form.as_bytes());
            sent.push(request.clone());
            stage.send(&request).await?;
        }
    }
    stage.pass(Duration::from_mins(20)).await
}

/// Where the last panic was, and what it said.
static PANICKED: Mutex<String> = Mutex::new(String::new());

fn take_note(info: &PanicHookInfo<'_>) {
    *PANICKED.lock().unwrap() = info.to_string();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Past the test harness, which would keep it until the end.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn told(seed: u64, broken: Broken, panicked: &str, sent: &[Sent]) -> String {
    let mut told = format!("seed {seed}: {broken:?}: {panicked}\n");
    for Sent { method, path, headers, body } in sent {
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.escape_ascii())).collect();
        let body: String = body.escape_ascii().to_string().chars().take(2_000).collect();
        writeln!(told, "  {method} {path} [{}]\n    {}", headers.join(", "), body.replace("\\\"", "\""))
            .unwrap();
    }
    writeln!(told, "Again: BERTH_SEED={seed} cargo test -p berth-world --test robust").unwrap();
    told
}

#[test]
fn nothing_that_is_asked_breaks_the_world() {
    let cases = cases();
    assert!(cases.len() > 150, "only {} cases", cases.len());
    let pool = Pool::of(cases.iter().flatten());
    let seed = number("BERTH_SEED");
    let count = number("BERTH_SEEDS").unwrap_or(if seed.is_some() { 1 } else { USUAL });
    let first = seed.unwrap_or(0);
    let usual_hook = panic::take_hook();
    panic::set_hook(Box::new(take_note));
    let mut broken: BTreeMap<String, String> = BTreeMap::new();
    let mut last_said = Instant::now();
    for seed in first..first.saturating_add(count) {
        let played = play(&cases, &pool, seed);
        if let Some(how) = played.broken {
            let panicked = std::mem::take(&mut *PANICKED.lock().unwrap());
            let where_at = panicked.lines().next().unwrap_or_default().to_owned();
            broken.entry(where_at).or_insert_with(|| {
                let told = told(seed, how, &panicked, &played.sent);
                say(&told);
                told
            });
        }
        if last_said.elapsed() > SAID_EVERY {
            say(&format!("seed {seed}, {} ways to break so far\n", broken.len()));
            last_said = Instant::now();
        }
        if broken.len() == SHOWN_MAX {
            break;
        }
    }
    panic::set_hook(usual_hook);
    let broken: Vec<&str> = broken.values().map(String::as_str).collect();
    assert!(broken.is_empty(), "the world breaks in {} ways:\n{}", broken.len(), broken.join("\n"));
}
