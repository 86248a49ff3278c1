//! The progress of a run, as a collector receives it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use flowgate::Quota;
use flowgate_load::{Origin, OtlpPush, Plan, Report, Schedule, Stop, Target};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(10);

/// A collector that hands over the first line, the head and the body of each export, and gives this answer.
fn collector(answer: &'static str) -> (Target, Receiver<(String, Value)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (arrived, arrival) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let mut head = String::new();
            while stream.read_line(&mut head).is_ok_and(|read| read > 0) {
                if !head.ends_with("\r\n\r\n") {
                    continue;
                }
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                let _ = arrived.send((std::mem::take(&mut head), body));
                if answer.is_empty() || stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
            if answer.is_empty() {
                // Keeps the connection, and is silent.
                std::mem::forget(stream);
            }
        }
    });
    (Target::parse(&url).unwrap(), arrival)
}

fn load(push: &mut OtlpPush, requests: u64) -> Report {
    let origin = Origin::start().unwrap();
    let schedule = Schedule::of(Quota::per_second(100), requests).unwrap();
    let plan = Plan::new(Target::parse(&origin.url()).unwrap(), schedule);
    flowgate_load::run_watched(plan, &Stop::new(), |progress| push.offer(progress)).unwrap()
}

/// The data points of a metric.
fn points<'a>(body: &'a Value, name: &str) -> &'a Vec<Value> {
    let metrics = body
        .pointer("/resourceMetrics/0/scopeMetrics/0/metrics")
        .unwrap();
    let mut metrics = metrics.as_array().unwrap().iter();
    let metric = metrics.find(|metric| metric["name"] == name).unwrap();
    let kind = metric.get("sum").or(metric.get("gauge")).unwrap();
    kind["dataPoints"].as_array().unwrap()
}

#[test]
fn a_collector_gets_a_point_per_second_and_the_last_one() {
    let (target, arrival) = collector("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let key = ("x-key".parse().unwrap(), "secret".parse().unwrap());
    let mut push = OtlpPush::new(target, vec![key], LIMIT).unwrap();
    let report = load(&mut push, 150);
    let pushed = push.finish();
    let exports: Vec<_> = arrival.try_iter().collect();
    assert_eq!((pushed.failed, pushed.failure), (0, None));
    assert_eq!(pushed.sent, exports.len() as u64);
    assert!(exports.len() >= 2, "one after a second, and the last");
    for (head, body) in &exports {
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains("\r\ncontent-type: application/json\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nx-key: secret\r\n"), "{head}");
        let sum = &points(body, "flowgate.load.sent")[0];
        let [start, at] = ["startTimeUnixNano", "timeUnixNano"]
            .map(|name| sum[name].as_str().unwrap().parse::<u64>().unwrap());
        assert!(start < at);
    }
    let sent = |body: &Value| -> u64 {
        let point = &points(body, "flowgate.load.sent")[0];
        point["asInt"].as_str().unwrap().parse().unwrap()
    };
    let counts: Vec<u64> = exports.iter().map(|(_, body)| sent(body)).collect();
    assert!(counts.is_sorted() && counts[0] < 150, "{counts:?}");
    assert_eq!((counts.last(), report.counts.sent), (Some(&150), 150));
    let (_, last) = exports.last().unwrap();
    let ended = &points(last, "flowgate.load.ended")[0];
    assert_eq!(ended["attributes"][0]["value"]["stringValue"], "admitted");
    assert_eq!(ended["asInt"], "150");
    assert_eq!(points(last, "flowgate.load.response").len(), 2);
}

#[test]
fn a_collector_that_is_lost_or_refuses_disturbs_nothing() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gone = Target::parse(&format!("http://{}/", free.local_addr().unwrap())).unwrap();
    drop(free);
    let (refusing, _kept) = collector("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let (silent, _also_kept) = collector("");
    for (target, limit, expected) in [
        (gone, LIMIT, "connection refused"),
        (refusing, LIMIT, "answered 404"),
        (silent, Duration::from_millis(50), "timed out"),
    ] {
        let mut push = OtlpPush::new(target, Vec::new(), limit).unwrap();
        let report = load(&mut push, 120);
        assert_eq!(report.counts.statuses.success, 120);
        let began = Instant::now();
        let pushed = push.finish();
        assert_eq!(
            (pushed.sent, pushed.failure.as_deref()),
            (0, Some(expected))
        );
        assert!(pushed.failed >= 1, "{pushed:?}");
        assert!(began.elapsed() < LIMIT, "its limit ends the wait");
    }
}

#[test]
fn a_url_with_a_path_keeps_it() {
    let (target, arrival) = collector("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let target = Target::parse(&format!("{target}api/v1/otlp/v1/metrics")).unwrap();
    let mut push = OtlpPush::new(target, Vec::new(), LIMIT).unwrap();
    load(&mut push, 3);
    assert_eq!(push.finish().sent, 1);
    let (head, _) = arrival.try_recv().unwrap();
    assert!(
        head.starts_with("POST /api/v1/otlp/v1/metrics HTTP"),
        "{head}"
    );
}
