//! A process that is watched while it works: its memory and its processor time. Its numbers are scraped meanwhile, as
//! Prometheus would.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

const SCRAPE_EVERY: Duration = Duration::from_secs(15);
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Linux counts the time of processes so, on every machine that matters.
const TICKS_A_SEC: u64 = 100;

/// Ends with this value.
pub(crate) struct Operating {
    child: Child,
    metrics: SocketAddr,
    page: SocketAddr,
}

/// What a process needed over a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needed {
    kib: Vec<u64>,
    pub(crate) cpu_ms: u64,
    pub(crate) wall_ms: u64,
}

impl Needed {
    pub(crate) fn kib_p95(&self) -> u64 {
        let mut sorted = self.kib.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
        sorted.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn kib_max(&self) -> u64 {
        self.kib.iter().copied().max().unwrap_or(0)
    }
}

impl Operating {
    pub(crate) fn begin(berth: &str, kubeconfig: &Path) -> Self {
        Self::begin_with(berth, kubeconfig, &[])
    }

    /// The same, told something besides.
    pub(crate) fn begin_with(berth: &str, kubeconfig: &Path, words: &[&str]) -> Self {
        let [metrics, page] = free_addresses();
        let mut command = Command::new(berth);
        command.arg("run").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--metrics-port", &metrics.to_string(), "--page-port", &page.to_string()]);
        command.args(["--health-probe-port", "0", "--log-level", "warn"]);
        command.args(words);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the operator starts");
        Self { child, metrics, page }
    }

    /// Loads its page, as a browser does that is closed again.
    pub(crate) async fn load_page(&self) {
        for path in ["/", "/api/view"] {
            get(self.page, path).await;
        }
    }

    /// Looks at it until the script is over.
    pub(crate) async fn during<T>(&mut self, script: impl Future<Output = T>) -> (T, Needed) {
        let (began, before) = (Instant::now(), self.cpu_ms());
        let mut kib = Vec::new();
        let sampling = async {
            loop {
                kib.push(self.kib());
                sleep(SAMPLE_EVERY).await;
            }
        };
        let metrics = self.metrics;
        let scraping = async {
            loop {
                sleep(SCRAPE_EVERY).await;
                get(metrics, "/metrics").await;
            }
        };
        let outcome = tokio::select! {
            outcome = script => outcome,
            () = sampling => unreachable!("it has no end"),
            () = scraping => unreachable!("it has no end"),
        };
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the operator has ended: {status}");
        }
        let wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        (outcome, Needed { kib, cpu_ms: self.cpu_ms().saturating_sub(before), wall_ms })
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap_or_default()
    }

    pub(crate) fn kib(&self) -> u64 {
        let status = self.proc("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    fn cpu_ms(&self) -> u64 {
        let stat = self.proc("stat");
        // The name of the program may have spaces; what follows it has none.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        ticks * 1000 / TICKS_A_SEC
    }
}

/// Others may have their own on this machine. Both are held until both are known, or they could be one.
fn free_addresses() -> [SocketAddr; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("an address"))
}

/// Asks, and reads the answer to its end.
async fn get(address: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is asked");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer));
}

impl Drop for Operating {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
