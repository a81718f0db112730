use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use http::Response;
use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::provider::Cloud;
use crate::vpsie::cloud::VpsieCloud;
use crate::vpsie::session::Replaced;
use crate::vpsie::settings::{CloudSettings, Family};
use crate::vpsie::transport::Sent;

const CANARY: &str = "canary-5ecret";

/// Answers in their order; when they have run out, `ok`.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<&'static str>>,
    /// Each request as `GET /path token`.
    asked: Mutex<Vec<String>>,
    signed_in: AtomicU64,
}

impl Script {
    /// `503` is a status, `429 7` one with Retry-After, `broken`, `refused` and `slow` are lost; `big` is too large;
    /// `echo` repeats the credentials it was sent.
    fn answer(request: &Request<Bytes>, word: &str) -> Result<Response<Bytes>, Lost> {
        let made =
            |status: u16, body: String| Response::builder().status(status).body(Bytes::from(body)).unwrap();
        let (word, after) = word.split_once(' ').unwrap_or((word, ""));
        match word {
            "broken" => Err(Lost::Broken("reset".to_owned())),
            "refused" => Err(Lost::Connection("refused".to_owned())),
            "big" => Ok(Response::new(Bytes::from(vec![b' '; BODY_BYTES_MAX + 1]))),
            "html" => Ok(made(200, "<html>".to_owned())),
            "absent" => Ok(made(404, json!({ "message": "no such path" }).to_string())),
            "echo" => {
                let bearer =
                    request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap());
                let form = String::from_utf8_lossy(request.body()).into_owned();
                Ok(made(
                    400,
                    json!({ "error": true, "message": format!("bad {bearer:?} {form}") }).to_string(),
                ))
            }
            // So that the secret is where the message is cut.
            "echo-late" => {
                let bearer =
                    request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap());
                let message = format!("{}{}", ".".repeat(MESSAGE_CHARS_MAX - 12), bearer.unwrap_or_default());
                Ok(made(400, json!({ "error": true, "message": message }).to_string()))
            }
            "ok" => Ok(made(200, json!({ "error": false, "data": [] }).to_string())),
            status => {
                let mut response = made(status.parse().unwrap(), String::new());
                if !after.is_empty() {
                    response.headers_mut().insert(header::RETRY_AFTER, after.parse().unwrap());
                }
                Ok(response)
            }
        }
    }

    /// Tokens are `grant-1`, `grant-2` and so on, good for an hour, for whoever has the right secret.
    fn sign_in(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let form = String::from_utf8_lossy(request.body()).into_owned();
        if form.contains("wrong") {
            let body = json!({ "error": true, "code": 401, "message": "no such client" });
            return Response::builder().status(401).body(body.to_string().into()).unwrap();
        }
        let number = self.signed_in.fetch_add(1, Ordering::Relaxed) + 1;
        let expires = now().checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
        let token = json!({ "token": format!("grant-{number}-{CANARY}"), "expires": expires.to_string() });
        Response::new(json!({ "accessToken": token, "error": false }).to_string().into())
    }
}

impl Transport for Script {
    fn send(&self, request: Request<Bytes>) -> Sent<'_> {
        let bearer = request.headers().get(header::AUTHORIZATION).map_or("", |value| value.to_str().unwrap());
        let path = request.uri().path().trim_start_matches("/v2").to_owned();
        let line = format!("{} {path} {}", request.method(), bearer.trim_start_matches("Bearer "));
        self.asked.lock().unwrap().push(line.replace(&format!("-{CANARY}"), "").trim_end().to_owned());
        assert!(request.headers()[REQUEST_ID].to_str().unwrap().starts_with("pod-1-"));
        assert_eq!(request.headers()[header::USER_AGENT], USER_AGENT);
        Box::pin(async move {
            sleep(Duration::from_millis(10)).await;
            if path == "/auth/from/api"
                && self.answers.lock().unwrap().front().is_none_or(|word| *word != "echo")
            {
                return Ok(self.sign_in(&request));
            }
            let is_bad =
                request.headers().get(header::AUTHORIZATION).is_some_and(|value| value == "Bearer bad-token");
            let word = if is_bad { "401" } else { self.answers.lock().unwrap().pop_front().unwrap_or("ok") };
            if word == "slow" {
                sleep(Duration::from_hours(1)).await;
            }
            Self::answer(&request, word)
        })
    }
}

tokio::task_local! {
    static BEGAN: Instant;
}

/// Virtual time, as the wall shows it.
fn now() -> Timestamp {
    let began = BEGAN.with(|began| *began);
    Timestamp::UNIX_EPOCH.checked_add(jiff::SignedDuration::try_from(began.elapsed()).unwrap()).unwrap()
}

fn credentials(pairs: &[(&str, &str)]) -> Credentials {
    let data: BTreeMap<String, Vec<u8>> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Credentials::read(&data).unwrap()
}

fn pair() -> Credentials {
    credentials(&[("clientId", "me"), ("clientSecret", CANARY)])
}

fn of_servers() -> CloudSettings {
    CloudSettings::new(Family::Servers, "c")
}

fn client(credentials: Credentials, answers: &[&'static str]) -> (Arc<Script>, Client) {
    let script =
        Arc::new(Script { answers: Mutex::new(answers.iter().copied().collect()), ..Script::default() });
    let client = Client::new(
        ClientSettings::new("pod-1"),
        credentials,
        Arc::clone(&script) as Arc<dyn Transport>,
        Arc::new(()),
        now,
    );
    (script, client)
}

fn get() -> Call {
    Call { repeatable: true, ..Call::new(Method::GET, "/x", Lane::Polling) }
}

fn create() -> Call {
    Call { body: Body::Json(json!({})), ..Call::new(Method::POST, "/x", Lane::Acting) }
}

/// What comes of one call after the other, how many requests it took, and how long.
async fn played(call: Call, answers: &[&'static str]) -> String {
    let (script, client) = client(credentials(&[("token", CANARY)]), answers);
    let began = Instant::now();
    let told = match client.ask(&call).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    };
    format!("{} in {} ms: {told}", script.asked.lock().unwrap().len(), began.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn repetitions() {
    for (call, answers, expected) in [
        (get(), vec![], "1 in 10 ms: ok"),
        (get(), vec!["503", "broken", "504"], "4 in 740 ms: ok"),
        (get(), vec!["500"; 9], "4 in 740 ms: GET /x (request pod-1-0-4): failed with code 500: "),
        (get(), vec!["refused"], "2 in 120 ms: ok"),
        (get(), vec!["429 2"], "2 in 2020 ms: ok"),
        (get(), vec!["429 60"], "1 in 10 ms: GET /x (request pod-1-0-1): VPSie is asked too often"),
        (get(), vec!["501"], "1 in 10 ms: GET /x (request pod-1-0-1): failed with code 501: "),
        (get(), vec!["400"], "1 in 10 ms: GET /x (request pod-1-0-1): refused with code 400: "),
        (
            get(),
            vec!["302"],
            "1 in 10 ms: GET /x (request pod-1-0-1): the answer is a redirect with code 302, and none is followed",
        ),
        (
            get(),
            vec!["html"],
            "1 in 10 ms: GET /x (request pod-1-0-1): the answer is not JSON but 6 bytes of an unnamed type",
        ),
        (
            get(),
            vec!["big"],
            "1 in 10 ms: GET /x (request pod-1-0-1): the answer has more than 10485760 bytes",
        ),
        (get(), vec!["slow"], "2 in 30110 ms: ok"),
        (get(), vec!["401"], "1 in 10 ms: GET /x (request pod-1-0-1): the credentials are not accepted: "),
        (create(), vec!["503"], "1 in 10 ms: POST /x (request pod-1-0-1): failed with code 503: "),
        (create(), vec!["slow"], "1 in 30000 ms: POST /x (request pod-1-0-1): no answer within 30 s"),
        (create(), vec!["broken"], "1 in 10 ms: POST /x (request pod-1-0-1): the connection broke: reset"),
        (create(), vec!["429 1"], "1 in 10 ms: POST /x (request pod-1-0-1): VPSie is asked too often"),
    ] {
        let told = BEGAN.scope(Instant::now(), played(call.clone(), &answers)).await;
        assert_eq!(told, expected, "{} {answers:?}", call.method);
    }
    let late = Call { departure: Some(Departure::new(Instant::now())), ..create() };
    let told = BEGAN.scope(Instant::now(), played(late, &[])).await;
    assert_eq!(told, "0 in 0 ms: POST /x (request pod-1-0-1): not sent: its time had passed");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_fetched_when_they_are_needed() {
    BEGAN
        .scope(Instant::now(), async {
            let (script, client) = client(pair(), &["ok", "401", "ok"]);
            let asked = || std::mem::take(&mut *script.asked.lock().unwrap());
            client.ask(&get()).await.unwrap();
            assert_eq!(asked(), ["POST /auth/from/api", "GET /x grant-1"]);
            // Refused once: another, for a create as well, since a refusal changed nothing.
            client.ask(&create()).await.unwrap();
            assert_eq!(asked(), ["POST /x grant-1", "POST /auth/from/api", "POST /x grant-2"]);
            advance(Duration::from_mins(54)).await;
            client.ask(&get()).await.unwrap();
            assert_eq!(asked(), ["GET /x grant-2"]);
            advance(Duration::from_mins(2)).await;
            let (one, other) = tokio::join!(client.token_of_now(), client.token_of_now());
            assert_eq!(one, other);
            assert_eq!(asked(), ["POST /auth/from/api"]);
            // Refused twice is refused.
            script.answers.lock().unwrap().extend(["401", "401", "401"]);
            let error = client.ask(&get()).await.unwrap_err();
            assert!(matches!(error.fault, Fault::Unauthorized { .. }), "{error}");
            assert_eq!(asked(), ["GET /x grant-3", "POST /auth/from/api", "GET /x grant-4"]);
        })
        .await;
}

impl Client {
    async fn token_of_now(&self) -> String {
        self.token(&self.session()).await.unwrap().expose().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_are_replaced_if_the_others_work() {
    BEGAN
        .scope(Instant::now(), async {
            let (script, client) = client(credentials(&[("token", "old-token")]), &[]);
            for (others, expected) in [
                (credentials(&[("token", "old-token")]), Ok(Replaced::Same)),
                (credentials(&[("token", "bad-token")]), Err("the credentials are not accepted")),
                (
                    credentials(&[("clientId", "me"), ("clientSecret", "wrong")]),
                    Err("the credentials are not accepted: no such client"),
                ),
            ] {
                let told = client.replace(others, &of_servers()).await.map_err(|error| error.to_string());
                match (&told, &expected) {
                    (Err(told), Err(expected)) => assert!(told.contains(expected), "{told}"),
                    (told, expected) => assert_eq!(told.as_ref().ok(), expected.as_ref().ok()),
                }
                script.asked.lock().unwrap().clear();
                client.ask(&get()).await.unwrap();
                assert_eq!(*script.asked.lock().unwrap(), ["GET /x old-token"]);
            }
            // What is under way goes on as who it was.
            script.asked.lock().unwrap().clear();
            let (call, of_servers) = (get(), of_servers());
            let (under_way, replaced) = tokio::join!(client.ask(&call), client.replace(pair(), &of_servers));
            assert!(under_way.is_ok());
            assert_eq!(replaced, Ok(Replaced::Taken));
            client.ask(&get()).await.unwrap();
            let expected =
                ["GET /x old-token", "POST /auth/from/api", "GET /datacenters grant-1", "GET /x grant-1"];
            assert_eq!(*script.asked.lock().unwrap(), expected);
        })
        .await;
}

/// Not every installation tells of datacenters. One that has no machines either is none, or the Secret's path is wrong.
#[tokio::test(start_paused = true)]
async fn credentials_are_no_good_where_nothing_is() {
    for (answers, is_taken, asked) in [
        (vec!["ok"], true, 1),
        (vec!["absent", "ok"], true, 2),
        (vec!["absent", "absent"], false, 2),
        (vec!["404"], false, 1),
    ] {
        BEGAN
            .scope(Instant::now(), async {
                let (script, client) = client(credentials(&[("token", "old-token")]), &answers);
                let others = credentials(&[("token", "new-token"), ("url", "https://api.vpsie.com/v2")]);
                let told = client.replace(others, &of_servers()).await;
                assert_eq!(told.is_ok(), is_taken, "{answers:?}: {told:?}");
                let expected = &["GET /datacenters new-token", "GET /servers new-token"][..asked];
                assert_eq!(*script.asked.lock().unwrap(), expected, "{answers:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vpsie_that_is_down_is_left_alone() {
    BEGAN
        .scope(Instant::now(), async {
            let (script, client) = client(credentials(&[("token", CANARY)]), &["503"; 10]);
            for _ in 0..10 {
                client.ask(&create()).await.unwrap_err();
            }
            let error = client.ask(&get()).await.unwrap_err();
            assert_eq!(error.fault, Fault::Withheld { probe_in: Duration::from_secs(30) });
            assert_eq!(script.asked.lock().unwrap().len(), 10);
            advance(Duration::from_secs(30)).await;
            client.ask(&get()).await.unwrap();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn refusals_and_limits_do_not_open_the_breaker() {
    BEGAN
        .scope(Instant::now(), async {
            for word in ["400", "404", "429", "html"] {
                let (_, client) = client(credentials(&[("token", CANARY)]), &[word; 20]);
                for _ in 0..20 {
                    let error = client.ask(&create()).await.unwrap_err();
                    assert!(!matches!(error.fault, Fault::Withheld { .. }), "{word}: {error}");
                }
            }
        })
        .await;
}

/// What is told, each event in a few words.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn observe(&self, event: &Event<'_>) {
        let words = match event {
            Event::Called { method, outcome: Outcome::Status(status), took } => {
                format!("{method} {status} {} ms", took.as_millis())
            }
            Event::Called { method, outcome: Outcome::Lost(kind), .. } => format!("{method} {kind}"),
            Event::Waited { method, lane, took } => format!("{method} {lane:?} waited {} s", took.as_secs()),
            Event::Breaker { from, to } => format!("{from:?} to {to:?}"),
            Event::Withheld { method, .. } => format!("{method} withheld"),
            Event::SignedIn { lasts } => format!("signed in for {} min", lasts.as_secs() / 60),
            Event::Rotated { accepted, .. } => format!("rotated {accepted}"),
            // Nearly every answer tells that.
            Event::Recognized { accepted: true } => return,
            Event::Recognized { accepted: false } => "not recognized".to_owned(),
        };
        self.0.lock().unwrap().push(words);
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_told() {
    BEGAN
        .scope(Instant::now(), async {
            // As many as go at once in the first minute.
            let mut answers = vec!["ok"; 32];
            answers.extend(["broken"; 90]);
            let script = Arc::new(Script { answers: Mutex::new(answers.into()), ..Script::default() });
            let told = Arc::new(Told::default());
            let (settings, observer) = (ClientSettings::new("pod-1"), Arc::clone(&told) as Arc<dyn Observer>);
            let client =
                Client::new(settings, credentials(&[("token", CANARY)]), script.clone(), observer, now);
            let take = || std::mem::take(&mut *told.0.lock().unwrap());
            for _ in 0..32 {
                client.ask(&create()).await.unwrap();
            }
            assert_eq!(take(), vec!["POST 200 10 ms"; 32]);
            client.ask(&create()).await.unwrap_err();
            assert_eq!(take(), ["POST Acting waited 59 s", "POST broken"]);
            advance(Duration::from_hours(1)).await;
            for _ in 0..11 {
                client.ask(&create()).await.unwrap_err();
            }
            let mut expected = vec!["POST broken"; 10];
            expected.extend(["Closed to Open", "POST withheld"]);
            assert_eq!(take(), expected);
            advance(Duration::from_mins(1)).await;
            script.answers.lock().unwrap().clear();
            client.replace(pair(), &of_servers()).await.unwrap();
            let expected = [
                "Open to Probing",
                "POST 200 10 ms",
                "Probing to Closed",
                "signed in for 60 min",
                "GET 200 10 ms",
                "rotated true",
            ];
            assert_eq!(take(), expected);
        })
        .await;
}

/// Whatever is logged, as text.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_seen_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // For all threads: what a scoped one is told depends on which tests ran before it.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    BEGAN
        .scope(Instant::now(), async {
            for credentials in [credentials(&[("token", CANARY)]), pair()] {
                for answers in [
                    vec!["echo"],
                    vec!["ok", "echo"],
                    vec!["echo-late"; 3],
                    vec!["503"; 20],
                    vec!["html"],
                    vec!["broken"; 9],
                ] {
                    let (_, client) = client(credentials.clone(), &answers);
                    let mut seen = vec![format!("{client:?}")];
                    for call in [get(), create(), get()] {
                        let told = client.ask(&call).await;
                        seen.push(format!("{told:?} {client:?} {call:?}"));
                        if let Err(error) = told {
                            seen.extend([error.to_string(), error.refusal().to_string()]);
                        }
                    }
                    seen.push(format!("{:?}", client.replace(pair(), &of_servers()).await));
                    let seen = seen.join("\n");
                    // Nor a part of one.
                    assert!(!seen.contains(CANARY) && !seen.contains("cana"), "{seen}");
                }
            }
        })
        .await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("asked VPSie") && log.contains("requestID"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}

/// Whoever gives no notice is asked again after a while, and not every few seconds.
#[tokio::test(start_paused = true)]
async fn notices_are_asked_for_where_they_are_given() {
    for (answer, expected) in [("absent", [1, 1, 2]), ("404", [1, 1, 2]), ("ok", [1, 2, 3])] {
        BEGAN
            .scope(Instant::now(), async {
                let (script, client) = client(credentials(&[("token", CANARY)]), &[answer]);
                let cloud = VpsieCloud::new(Arc::new(client), CloudSettings::new(Family::Servers, "c"));
                let mut asked = Vec::new();
                for pause in [5, 600, 0] {
                    assert_eq!(cloud.notices().await, Ok(Vec::new()), "{answer}");
                    asked.push(script.asked.lock().unwrap().len());
                    advance(Duration::from_secs(pause)).await;
                }
                assert_eq!(asked, expected, "{answer}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_family_has_paths_of_its_own() {
    for (family, expected) in [
        (Family::Servers, "/offerings /servers /servers/1 /servers/notices"),
        (Family::Vm, "/offerings /vm /vm/1"),
        (
            Family::Managed,
            "/k8s/cluster/byId/c /k8s/cluster/byId/c/delete/slave /k8s/node/groups/byClusterId/c",
        ),
    ] {
        BEGAN
            .scope(Instant::now(), async {
                let (script, client) = client(credentials(&[("token", CANARY)]), &[]);
                let cloud = VpsieCloud::new(Arc::new(client), CloudSettings::new(family, "c"));
                let id = "1".into();
                // What it is told does not matter here.
                let _ = (cloud.get(&id).await, cloud.terminate(&id).await, cloud.list(None).await);
                let _ = cloud.notices().await;
                let asked = script.asked.lock().unwrap();
                let paths: BTreeSet<&str> = asked.iter().filter_map(|line| line.split(' ').nth(1)).collect();
                assert_eq!(paths.into_iter().collect::<Vec<_>>().join(" "), expected, "{family:?}");
            })
            .await;
    }
}
