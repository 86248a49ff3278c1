//! Asking servers on the loopback interface, good ones and others.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use flowgate_load::verify::{Asking, HttpSubject, VerifyError};
use flowgate_load::{Failure, RunError, Stop, Target};
use flowgate_verify::{Phase, Probe, ProbeBatch, ProbeOutcome, ProbeSubject};
use hyper::header::{HeaderName, HeaderValue};

const YES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const NO: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\n\
                  ratelimit-policy: \"x\";q=20;w=1\r\nratelimit: \"x\";r=0;t=2\r\ncontent-length: 0\r\n\r\n";

/// A server that answers a request, by its head and the number of its connection, with this text; none closes the
/// connection. Returns its URL.
fn server(answer: impl Fn(&str, usize) -> Option<String> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for number in 0..1000 {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            let answer = answer.clone();
            thread::spawn(move || talk(stream, |head| answer(head, number)));
        }
    });
    url
}

fn talk(mut stream: TcpStream, answer: impl Fn(&str) -> Option<String>) {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while let Ok(1) = stream.read(&mut byte) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let Some(answer) = answer(std::str::from_utf8(&head).unwrap()) else {
                return;
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            head.clear();
        }
    }
}

fn asking(url: &str) -> Asking {
    Asking::new(Target::parse(url).unwrap())
}

fn subject(url: &str) -> HttpSubject {
    HttpSubject::new(asking(url), &Stop::new()).unwrap()
}

/// So many probes, in turn over so many connections, a millisecond apart from now on.
fn batch(subject: &HttpSubject, phase: Phase, count: u32, connections: u32) -> ProbeBatch {
    let now_ns = subject.now_ns();
    let probes = (0..count).map(|index| Probe {
        at_ns: now_ns + u64::from(index) * 1_000_000,
        connection: index % connections,
        key: 0,
    });
    ProbeBatch {
        phase,
        probes: probes.collect(),
    }
}

fn hello(subject: &mut HttpSubject) -> Result<(), VerifyError> {
    let batch = batch(subject, Phase::Hello, 1, 1);
    subject.send(&batch).map(|_| ())
}

#[test]
fn each_shot_goes_out_at_its_time_on_its_lane_and_its_answer_is_read() {
    let url = server(|_, number| {
        Some(match number {
            0 => YES.to_owned(),
            _ => NO.to_owned(),
        })
    });
    let mut subject = subject(&url);
    assert!(subject.is_local());
    hello(&mut subject).unwrap();
    let batch = batch(&subject, Phase::Steady, 20, 2);
    let seen = subject.send(&batch).unwrap();
    assert_eq!(seen.len(), 20);
    assert_eq!(seen.iter().filter(|seen| seen.connection == 0).count(), 10);
    // One connection may be late, and its probe seen after the next of the other one.
    let of_both = [0, 1].map(|connection| {
        let probes = batch
            .probes
            .iter()
            .filter(move |probe| probe.connection == connection);
        probes.zip(
            seen.iter()
                .filter(move |seen| seen.connection == connection),
        )
    });
    for (probe, seen) in of_both.into_iter().flatten() {
        assert!(probe.at_ns <= seen.sent_ns && seen.sent_ns <= seen.answered_ns);
        let expected = [ProbeOutcome::Admitted, ProbeOutcome::Refused][probe.connection as usize];
        assert_eq!(seen.outcome, expected);
        let told = seen.advertised;
        match seen.outcome {
            ProbeOutcome::Refused => {
                assert_eq!(told.retry_after, Some(Duration::from_secs(3)));
                assert_eq!((told.remaining, told.limit), (Some(0), Some(20)));
                assert_eq!(told.more_after, Some(Duration::from_secs(2)));
                assert_eq!(told.window, Some(Duration::from_secs(1)));
            }
            _ => assert_eq!(told, flowgate_verify::Advertised::default()),
        }
    }
    assert!(seen.is_sorted_by_key(|seen| seen.sent_ns));
    assert!(seen.last().unwrap().answered_ns <= subject.now_ns());
}

#[test]
fn a_connection_that_is_closed_is_opened_anew() {
    let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let mut subject = subject(&server(move |_, _| Some(closing.to_owned())));
    hello(&mut subject).unwrap();
    let batch = batch(&subject, Phase::Burst, 10, 3);
    let seen = subject.send(&batch).unwrap();
    assert!(
        seen.iter()
            .all(|seen| seen.outcome == ProbeOutcome::Admitted)
    );
}

#[test]
fn a_request_without_an_answer_has_failed_and_the_next_is_asked_all_the_same() {
    // Every second connection hangs up instead of answering its second request.
    let url = server(|head, number| {
        let is_second = head.contains("x-key: b");
        (!is_second || number != 0).then(|| YES.to_owned())
    });
    let mut asking = asking(&url);
    let values = ["a", "b"].map(HeaderValue::from_static).to_vec();
    asking.keys = Some((HeaderName::from_static("x-key"), values));
    let mut subject = HttpSubject::new(asking, &Stop::new()).unwrap();
    hello(&mut subject).unwrap();
    let now_ns = subject.now_ns();
    let probes = [0, 1, 0, 1].map(|key| Probe {
        at_ns: now_ns,
        connection: 0,
        key,
    });
    let batch = ProbeBatch {
        phase: Phase::Keys,
        probes: probes.to_vec(),
    };
    let seen = subject.send(&batch).unwrap();
    let outcomes: Vec<_> = seen.iter().map(|seen| (seen.key, seen.outcome)).collect();
    let (yes, failed) = (ProbeOutcome::Admitted, ProbeOutcome::Failed);
    assert_eq!(outcomes, [(0, yes), (1, failed), (0, yes), (1, yes)]);
}

#[test]
fn an_answer_that_takes_too_long_is_none() {
    let url = server(|head, _| {
        // Longer than the test waits, and not for ever.
        if head.contains("x-key: slow") {
            thread::sleep(Duration::from_secs(5));
        }
        Some(YES.to_owned())
    });
    let mut asking = asking(&url);
    asking.timeout = Duration::from_millis(50);
    let values = ["quick", "slow"].map(HeaderValue::from_static).to_vec();
    asking.keys = Some((HeaderName::from_static("x-key"), values));
    let mut subject = HttpSubject::new(asking, &Stop::new()).unwrap();
    hello(&mut subject).unwrap();
    let probe = Probe {
        at_ns: 0,
        connection: 0,
        key: 1,
    };
    let batch = ProbeBatch {
        phase: Phase::Keys,
        probes: vec![probe],
    };
    let seen = subject.send(&batch).unwrap();
    assert_eq!(seen[0].outcome, ProbeOutcome::Failed);
}

#[test]
fn what_cannot_be_asked_is_said() {
    let moved = "HTTP/1.1 301 Moved\r\nlocation: https://elsewhere/\r\ncontent-length: 0\r\n\r\n";
    let error = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    let ssh = "SSH-2.0-OpenSSH_9.2\r\n";
    let refusing = |answer: &'static str| {
        let mut subject = subject(&server(move |_, _| Some(answer.to_owned())));
        hello(&mut subject).unwrap_err()
    };
    let redirect = refusing(moved);
    assert!(matches!(redirect, VerifyError::Redirect { .. }));
    assert_eq!(
        redirect.to_string(),
        "the server responds 301 Moved Permanently to https://elsewhere/: write that URL"
    );
    let neither = refusing(error).to_string();
    assert!(neither.starts_with(
        "the server responds 500 Internal Server Error, which is in neither --admitted (200-299) nor --refused (429,503)"
    ));
    assert!(matches!(
        refusing(ssh),
        VerifyError::NoAnswer(Failure::NotHttp)
    ));
    let mut hanging_up = subject(&server(|_, _| None));
    assert!(matches!(
        hello(&mut hanging_up).unwrap_err(),
        VerifyError::NoAnswer(Failure::Closed)
    ));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = hello(&mut subject(&url)).unwrap_err();
    assert!(
        matches!(
            &error,
            VerifyError::Run(RunError::Connect {
                failure: Failure::Refused,
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn a_server_that_gives_up_answering_is_given_up() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = Arc::new(AtomicUsize::new(0));
    let url =
        server(move |_, _| (asked.fetch_add(1, Ordering::Relaxed) < 5).then(|| YES.to_owned()));
    let mut subject = subject(&url);
    hello(&mut subject).unwrap();
    let begun = Instant::now();
    let batch = batch(&subject, Phase::Burst, 300, 3);
    assert!(matches!(
        subject.send(&batch),
        Err(VerifyError::NoAnswer(Failure::Closed | Failure::Reset))
    ));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn asking_ends_when_it_is_stopped() {
    let url = server(|_, _| Some(YES.to_owned()));
    let stop = Stop::new();
    let mut subject = HttpSubject::new(asking(&url), &stop).unwrap();
    hello(&mut subject).unwrap();
    let far = ProbeBatch {
        phase: Phase::Steady,
        probes: vec![Probe {
            at_ns: u64::MAX,
            connection: 0,
            key: 0,
        }],
    };
    let stopping = thread::spawn({
        let stop = stop.clone();
        move || stop.stop()
    });
    // What was received before is kept.
    assert!(matches!(subject.send(&far), Ok(answers) if answers.is_empty()));
    stopping.join().unwrap();
    assert!(subject.has_ended());
    // Without a response, there is nothing to keep.
    let other = Stop::new();
    let mut subject = HttpSubject::new(asking(&url), &other).unwrap();
    other.stop();
    assert!(matches!(subject.send(&far), Err(VerifyError::Stopped)));
    assert!(!subject.has_ended());
}
