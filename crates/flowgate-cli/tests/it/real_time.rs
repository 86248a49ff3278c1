//! Real time against virtual time: `load` against `serve`, and `simulate` with the same traffic and limiter.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Serve, read_request, run, server};

const LIMITER: &str = "token 4/s burst 3";
const BURST: u32 = 3;
/// What a token takes to refill.
const TOKEN: Duration = Duration::from_millis(250);
/// One request each 70 ms. So two decisions of the schedule are at least 10 ms away from the time at which a token is there, and the
/// others further.
const RATE: &str = "100/7s";
const INTERVAL: Duration = Duration::from_millis(70);
const REQUESTS: u32 = 24;

/// A request that was passed on to the server. The server decided in this interval.
#[derive(Clone, Copy)]
struct Passed {
    before: Instant,
    after: Instant,
    is_admitted: bool,
}

/// Whether the simulation admitted each request, in order.
fn simulated() -> Vec<bool> {
    let duration = format!("{}ms", (INTERVAL * REQUESTS).as_millis());
    let traffic = ["--arrivals", RATE, "--for", &duration, "--json", "-"];
    let (code, json, errors) = run(&[&["simulate", "--limiter", LIMITER], &traffic[..]].concat());
    assert_eq!(code, 0, "{errors}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let slots = json["policies"][0]["slots"].as_array().expect("slots");
    // A slot is shorter than the interval, so it has one request at most.
    let with_request = slots.iter().filter(|slot| slot["attempts"] == 1);
    with_request.map(|slot| slot["admitted"] == 1).collect()
}

/// What became of each request of `load` at a server with the limiter, in order.
fn passed() -> Vec<Passed> {
    let serve = Serve::start(LIMITER, &[]);
    let client = Mutex::new(Some(serve.connect()));
    let all = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&all);
    let url = server(move |mut stream, _| {
        let Some(mut client) = client.lock().expect("no panic").take() else {
            return false;
        };
        let recorded = Arc::clone(&recorded);
        thread::spawn(move || {
            while read_request(&mut stream) {
                let before = Instant::now();
                let Some((status, _)) = client.get("") else {
                    return;
                };
                recorded.lock().expect("no panic").push(Passed {
                    before,
                    after: Instant::now(),
                    is_admitted: status == 200,
                });
                let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        true
    });
    let count = REQUESTS.to_string();
    // One connection, so that requests arrive in order. Late requests are sent, whatever the verdict.
    run(&["load", "-q", RATE, "-n", &count, "-c", "1", &url]);
    let all = all.lock().expect("no panic");
    all.clone()
}

/// The bucket is full at the first request and never again, so a request is admitted if and only if enough tokens came since the first.
/// A late request finds more tokens than the schedule has. This can change a decision only if the lag is longer than the time that is
/// missing, or left over.
#[test]
fn load_against_serve_admits_what_simulate_admits() {
    let (simulated, passed) = (simulated(), passed());
    assert_eq!([simulated.len(), passed.len()], [REQUESTS as usize; 2]);
    let first = passed[0];
    let mut admitted = 0;
    let mut is_same_so_far = true;
    for (index, (real, simulated)) in (0..).zip(passed.iter().zip(simulated)) {
        let scheduled = INTERVAL * index;
        let earliest = real.before.saturating_duration_since(first.after);
        let latest = real.after - first.before;
        let lag = latest.abs_diff(scheduled).max(earliest.abs_diff(scheduled));
        if lag >= TOKEN {
            // The machine stood still, and the bucket may be full again: the schedule decides nothing from here on.
            return;
        }
        let (there, needed) = (TOKEN * BURST + scheduled, TOKEN * (admitted + 1));
        if there.abs_diff(needed) > lag {
            let expected = if is_same_so_far {
                simulated
            } else {
                there >= needed
            };
            assert_eq!(real.is_admitted, expected, "request {index}, {lag:?} late");
        }
        is_same_so_far &= real.is_admitted == simulated;
        admitted += u32::from(real.is_admitted);
    }
}
