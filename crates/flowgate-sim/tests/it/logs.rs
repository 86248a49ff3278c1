//! Logs: what is read is what was written, and what cannot be read is said in one line.

use std::convert::Infallible;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use flowgate::{Clock, KeyedLimiterConfig};
use flowgate_sim::{
    Distribution, DurationReader, LimiterPolicy, LogError, LogFormat, LogReader, RecordedLog,
    Simulation, Traffic,
};
use proptest::prelude::*;

const COMBINED: &str = r#"192.0.2.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /cart?id=1 HTTP/1.1" 200 2326 "http://example.com/" "curl/8"
192.0.2.2 - - [10/Oct/2000:13:55:36 -0700] "POST /pay HTTP/1.1" 303 - "-" "curl/8"
192.0.2.1 - ann [10/Oct/2000:13:55:38 -0700] "GET /cart?id=2 HTTP/1.1" 200 2326 "-" "curl/8"
"#;

fn read(reader: &LogReader, log: &str) -> RecordedLog {
    let read = reader.read(log.as_bytes(), |_| ControlFlow::Continue(()));
    read.unwrap_or_else(|error| panic!("{error}: {log}"))
}

#[track_caller]
fn error(reader: &LogReader, log: impl AsRef<[u8]>) -> String {
    let error = reader
        .read(log.as_ref(), |_| ControlFlow::Continue(()))
        .expect_err("an error");
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

/// Milliseconds, names of keys, and costs.
fn requests(log: &RecordedLog) -> Vec<(u128, String, u64)> {
    let requests = log.requests.iter().map(|request| {
        let name = log.keys.name(request.key).expect("a name").into_owned();
        (request.at.as_millis(), name, request.cost)
    });
    requests.collect()
}

#[track_caller]
fn assert_requests(reader: &LogReader, log: &str, expected: &[(u128, &str, u64)]) -> RecordedLog {
    let read = read(reader, log);
    let expected: Vec<_> = expected
        .iter()
        .map(|(at, key, cost)| (*at, (*key).to_owned(), *cost))
        .collect();
    assert_eq!(requests(&read), expected, "{log}");
    read
}

#[test]
fn an_access_log_is_keyed_by_any_of_its_fields() {
    for (key, [first, second, third]) in [
        ("ip", ["192.0.2.1", "192.0.2.2", "192.0.2.1"]),
        ("user", ["ann", "-", "ann"]),
        ("path", ["/cart", "/pay", "/cart"]),
        ("method", ["GET", "POST", "GET"]),
        ("status", ["200", "303", "200"]),
    ] {
        let expected = [(0, first, 1), (500, second, 1), (2_000, third, 1)];
        let log = assert_requests(&LogReader::new().key(key), COMBINED, &expected);
        assert_eq!(
            (log.format, log.key.as_deref(), log.keys.len()),
            (LogFormat::Access, Some(key), 2)
        );
    }
    let by_default = read(&LogReader::new(), COMBINED);
    assert_eq!(by_default.key.as_deref(), Some("ip"));
    let by_bytes = LogReader::new().cost("bytes");
    let costs = read(&by_bytes, COMBINED)
        .requests
        .iter()
        .map(|request| request.cost)
        .collect::<Vec<_>>();
    assert_eq!(costs, [2_326, 0, 2_326]);
}

#[test]
fn the_common_format_and_virtual_hosts_are_access_logs_too() {
    let common = r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#;
    assert_requests(&LogReader::new(), common, &[(0, "::1", 1)]);
    let hosts = r#"a.example:443 ::1 - - [10/Oct/2000:13:55:36.250 -0700] "GET / HTTP/1.0" 200 1
b.example:443 ::1 - ann [10/Oct/2000:13:55:36.750 -0700] "GET / HTTP/1.0" 200 1
"#;
    assert_requests(
        &LogReader::new().key("host"),
        hosts,
        &[(0, "a.example", 1), (500, "b.example", 1)],
    );
    let msec = r#"::1 - - [1700000000.125] "GET / HTTP/1.0" 200 1
::1 - - [1700000000.375] "GET / HTTP/1.0" 200 1
"#;
    assert_requests(&LogReader::new(), msec, &[(0, "::1", 1), (250, "::1", 1)]);
}

#[test]
fn json_lines_have_usual_names_or_those_that_are_given() {
    let caddy = r#"{"level":"info","ts":1700000000.25,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a?b"},"status":200}
{"level":"info","ts":1700000001.5,"request":{"remote_ip":"192.0.2.2","method":"PUT","uri":"/a?c"},"status":201}
"#;
    let log = assert_requests(
        &LogReader::new(),
        caddy,
        &[(0, "192.0.2.1", 1), (1_250, "192.0.2.2", 1)],
    );
    assert_eq!(
        (log.format, log.key.as_deref()),
        (LogFormat::JsonLines, Some("request.remote_ip"))
    );
    assert_requests(
        &LogReader::new().key("path"),
        caddy,
        &[(0, "/a", 1), (1_250, "/a", 1)],
    );
    assert_requests(
        &LogReader::new().key("status"),
        caddy,
        &[(0, "200", 1), (1_250, "201", 1)],
    );

    let own = r#"{"when":"2026-11-23T18:00:00.5Z","tenant":"\u0061","size":7}
{"when":"2026-11-23T19:00:01+01:00","tenant":"b"}
"#;
    let reader = LogReader::new().time("when").key("tenant").cost("size");
    assert_requests(&reader, own, &[(0, "a", 7), (500, "b", 1)]);
    assert_requests(
        &LogReader::new().time("when"),
        own,
        &[(0, "all", 1), (500, "all", 1)],
    );
}

#[test]
fn a_csv_has_a_header_or_none() {
    assert_requests(
        &LogReader::new(),
        "0.5\n1\n",
        &[(0, "all", 1), (500, "all", 1)],
    );
    let named = "# a comment\n\nwhen\n2.5\n3\n";
    assert_requests(&LogReader::new(), named, &[(0, "all", 1), (500, "all", 1)]);
    assert_requests(
        &LogReader::new(),
        "0.5,a,3\n1,b\n",
        &[(0, "a", 3), (500, "b", 1)],
    );
    let table = "cost;Remote_Addr;Time\n2;\"192.0.2.1\";2026-11-23 10:00:00.5\n;::1;2026-11-23 10:00:01.5\n";
    let log = assert_requests(
        &LogReader::new(),
        table,
        &[(0, "192.0.2.1", 2), (1_000, "::1", 1)],
    );
    assert_eq!((log.format, log.lines), (LogFormat::Csv, 3));
    let reader = LogReader::new().time("3").key("1");
    assert_requests(
        &reader,
        "a\t7\t1.5\nb\t7\t2.5\n",
        &[(0, "a", 1), (1_000, "b", 1)],
    );
}

#[test]
fn times_of_one_second_are_spread_unless_they_are_exact() {
    let epoch = "1700000000\n1700000000\n1700000000\n1700000000\n1700000001\n";
    let at = |log: &RecordedLog| {
        log.requests
            .iter()
            .map(|request| request.at.as_millis())
            .collect::<Vec<_>>()
    };
    let spread = read(&LogReader::new(), epoch);
    assert_eq!(
        (at(&spread), spread.is_spread),
        (vec![0, 250, 500, 750, 1_000], true)
    );
    let burst = read(&LogReader::new().spread_seconds(false), epoch);
    assert_eq!(
        (at(&burst), burst.is_spread),
        (vec![0, 0, 0, 0, 1_000], false)
    );
    for exact in [
        "0\n0\n1\n",
        "1700000000\n1700000000\n1700000001.0\n",
        "1700000000000\n1700000000000\n1700000001000\n",
    ] {
        let log = read(&LogReader::new(), exact);
        assert_eq!(
            (at(&log), log.is_spread),
            (vec![0, 0, 1_000], false),
            "{exact}"
        );
    }
}

#[test]
fn lines_that_go_backward_a_little_are_sorted_and_counted() {
    let log = assert_requests(
        &LogReader::new(),
        "5.0,a\n4.5,b\n6.0,c\n5.0,d\n",
        &[(0, "b", 1), (500, "a", 1), (500, "d", 1), (1_500, "c", 1)],
    );
    assert_eq!(log.backward, 2);
    let far = "90000.0\n3599.0\n";
    assert_eq!(
        error(&LogReader::new(), far),
        "line 2 is 86401s older than a line before it, more than 86400s; put the parts of the log in order of time: \
         'cat access.log.1 access.log'"
    );
    assert_eq!(
        read(&LogReader::new().max_backward(Duration::MAX), far).backward,
        1
    );
}

#[test]
fn malformed_lines_are_counted_and_the_first_three_are_kept() {
    let log = format!("hello\n{COMBINED}two\n\n# a comment\nthree\nfour\n");
    let read = read(&LogReader::new(), &log);
    assert_eq!(
        (read.requests.len(), read.lines, read.malformed.count),
        (3, 9, 4)
    );
    let first: Vec<String> = read
        .malformed
        .first
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "line 1: no time in brackets: 'hello'",
        "line 5: no time in brackets: 'two'",
        "line 8: no time in brackets: 'three'",
    ];
    assert_eq!(first, expected);
    assert_eq!(
        error(&LogReader::new().strict(true), log),
        "line 1: no time in brackets: 'hello'; correct it, or allow malformed lines, which are then skipped and counted"
    );
}

#[test]
fn each_kind_of_malformed_line_has_its_reason() {
    let access = COMBINED.lines().next().expect("a line");
    let json = r#"{"ts":1.5,"key":"a","cost":1}"#;
    let csv = "time,key,cost\n1,a,1";
    let long = format!("2,{},1", "x".repeat(70_000));
    let columns = ",".repeat(2_000);
    for (good, bad, reason) in [
        (access, "::1 - - [x", "no time in brackets"),
        (
            access,
            "::1 - - [x] GET / 200 1",
            "no request in quotes after the time",
        ),
        (
            access,
            "::1 - - [x] \"GET / 200 1",
            "the request's quote does not end",
        ),
        (
            access,
            "::1 - - [x] \"GET /\" OK",
            "no status after the request",
        ),
        (
            access,
            "::1 - - [soon] \"GET /\" 200 1",
            "field 'time' is not a time",
        ),
        (json, "{\"ts\":2.5,\"key\":\"a\"", "not a JSON object"),
        (json, "[1]", "not a JSON object"),
        (json, "{\"key\":\"a\"}", "no field 'ts'"),
        (json, "{\"ts\":null,\"key\":\"a\"}", "no field 'ts'"),
        (
            json,
            "{\"ts\":-1,\"key\":\"a\"}",
            "field 'ts' is not a time",
        ),
        (json, "{\"ts\":2.5}", "no field 'key'"),
        (
            json,
            "{\"ts\":2.5,\"key\":\"a\",\"cost\":1.5}",
            "field 'cost' is not a whole number",
        ),
        (csv, "soon,a,1", "field 'time' is not a time"),
        (csv, ",a,1", "field 'time' is not a time"),
        (csv, "2", "no field 'key'"),
        (csv, "2,a,-1", "field 'cost' is not a whole number"),
        (csv, &columns, "too many columns"),
        (csv, &long, "longer than 65536 bytes"),
    ] {
        let log = read(&LogReader::new(), &format!("{good}\n{bad}\n"));
        assert_eq!((log.requests.len(), log.malformed.count), (1, 1), "{bad}");
        assert_eq!(log.malformed.first[0].reason, reason, "{bad}");
    }
}

#[test]
fn a_log_that_is_useless_is_an_error_that_says_what_to_do() {
    let reader = LogReader::new();
    let empty = "the log is empty; check the path, or what is piped into it";
    for log in ["", "\n\r\n", "# a comment\n", "time,key\n"] {
        assert_eq!(error(&reader, log), empty);
    }
    assert_eq!(
        error(&reader, b"\x1f\x8b\x08\0\0"),
        "the log is compressed with gzip; unpack it first: 'zcat FILE | flowgate simulate --arrivals log:-'"
    );
    for (magic, with) in [
        (&b"\x28\xb5\x2f\xfd"[..], "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh91AY", "bzip2"),
    ] {
        assert!(error(&reader, magic).contains(with), "{with}");
    }
    assert!(
        error(&reader, b"\x7fELF\0\0\0").starts_with("the log is not text, as it has zero bytes")
    );
    assert_eq!(
        error(&reader, "It was a dark night.\nIt rained.\n"),
        "neither an access log, nor JSON lines, nor a CSV of times; set the format if it is one of these: \
         'It was a dark night.'"
    );
    assert_eq!(
        error(&LogReader::new().format(LogFormat::Access), "one\ntwo\n"),
        "all 2 lines are malformed; check the format and the names of fields; line 1: no time in brackets: 'one'"
    );
    assert_eq!(
        error(&LogReader::new().key("referer"), COMBINED),
        "the log has no field 'referer'; choose one of: ip, user, host, method, path, status, bytes, time"
    );
    assert_eq!(
        error(&LogReader::new().key("tenant"), "{\"ts\":1.5,\"user\":1}"),
        "the log has no field 'tenant'; choose one of: ts, user"
    );
    assert_eq!(
        error(&reader, "{\"when\":1.5,\"user\":1}"),
        "the log has no field 'time'; choose one of: user, when"
    );
    assert_eq!(
        error(&LogReader::new().key("4"), "1,a,1"),
        "the log has no field '4'; choose one of: 1, 2, 3"
    );
    assert_eq!(
        error(&LogReader::new().max_requests(2), COMBINED),
        "the log has more than 2 requests; take a part of it ('head -n 2'), or raise the limit"
    );
    assert_eq!(
        error(
            &LogReader::new().max_requests(1),
            format!("1,{}", "x".repeat(33))
        ),
        "the names of the keys take more than 32 bytes; choose a field with fewer values, such as 'ip'"
    );
}

#[test]
fn an_error_of_the_file_is_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = LogReader::new()
        .read(Broken, |_| ControlFlow::Continue(()))
        .expect_err("an error");
    assert!(matches!(error, LogError::Read(_)));
    assert_eq!(error.to_string(), "cannot read the log: the disk is gone");
}

#[test]
fn a_mark_of_the_byte_order_and_carriage_returns_are_no_part_of_a_line() {
    let log = "\u{feff}time,key\r\n1.5,a\r\n2.5,b\r\n";
    assert_requests(&LogReader::new(), log, &[(0, "a", 1), (1_000, "b", 1)]);
}

#[test]
fn progress_is_reported_at_each_mebibyte_and_at_the_end() {
    let log: String = (0..300_000).map(|line| format!("{line}.5,key\n")).collect();
    let mut seen = Vec::new();
    let read = LogReader::new().read(log.as_bytes(), |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    });
    assert_eq!(read.expect("a log").requests.len(), 300_000);
    let last = seen.last().expect("progress");
    assert_eq!(
        (last.bytes, last.lines, last.requests),
        (log.len() as u64, 300_000, 300_000)
    );
    assert_eq!(seen.len(), log.len() / (1 << 20) + 1);
    assert!(seen.is_sorted_by_key(|progress| (progress.bytes, progress.requests)));
}

#[test]
fn a_reading_that_is_ended_has_the_requests_so_far() {
    let log: String = (0..300_000).map(|line| format!("{line}.5,key\n")).collect();
    let mut seen = Vec::new();
    let read = LogReader::new().read(log.as_bytes(), |progress| {
        seen.push(progress);
        ControlFlow::Break(())
    });
    let read = read.expect("a part of the log");
    let lines = log[..1 << 20].matches('\n').count();
    assert!((lines..300_000).contains(&read.requests.len()));
    assert_eq!(read.lines, read.requests.len() as u64);
    assert_eq!(read.malformed.count, 0);
    assert_eq!((seen[0].lines, seen.len()), (read.lines, 2));
}

#[test]
fn a_log_is_replayed_against_a_limit_for_each_key() {
    let log: String = (0..100)
        .map(|line| format!("{}.5,busy\n{line}.6,calm\n{line}.7,busy\n", line))
        .collect();
    let log = read(&LogReader::new(), &log);
    let simulation = Simulation::new(1, log.span() + Duration::from_nanos(1))
        .traffic(Traffic::new("log", log.arrivals()));
    let config: KeyedLimiterConfig = "keyed token 1/s burst 1".parse().expect("a limiter");
    let outcome = simulation.run("1/s for each key", |time| {
        let limiter = config.build_on(Clock::from(time), 100);
        Ok::<_, Infallible>(LimiterPolicy::keyed(limiter.expect("a limiter")))
    });
    let outcome = outcome.expect("infallible");
    assert_eq!(outcome.counts.operations, 300);
    let refused = |key: u64| outcome.keys[key].attempts - outcome.keys[key].admitted;
    assert_eq!(
        (log.keys.name(0).as_deref(), refused(0)),
        (Some("busy"), 100)
    );
    assert_eq!((log.keys.name(1).as_deref(), refused(1)), (Some("calm"), 0));
}

#[test]
fn durations_are_read_from_lines_columns_and_fields() {
    let millis = |reader: &DurationReader, text: &str| -> Vec<u128> {
        let read = reader
            .read(text.as_bytes())
            .unwrap_or_else(|error| panic!("{error}: {text}"));
        read.durations.iter().map(Duration::as_millis).collect()
    };
    let reader = DurationReader::new();
    assert_eq!(
        millis(&reader, "12ms\n# a comment\n0.5\n2s\n0\n"),
        [12, 500, 2_000, 0]
    );
    assert_eq!(millis(&reader, "any name\n0.25\n"), [250]);
    assert_eq!(
        millis(&reader, "path,duration\n/a,0.25\n/b,1ms\n"),
        [250, 1]
    );
    assert_eq!(
        millis(
            &DurationReader::new().column("took_s"),
            "took_s,path\n0.25,/a\n"
        ),
        [250]
    );
    assert_eq!(
        millis(&DurationReader::new().column("2"), "/a;0.25\n/b;1\n"),
        [250, 1_000]
    );
    assert_eq!(
        millis(&reader, "{\"duration\":0.25}\n{\"duration\":\"3ms\"}\n"),
        [250, 3]
    );
}

#[test]
fn durations_that_cannot_be_read_are_counted_or_an_error() {
    let text = "1ms\nsoon\n-1\n2parsecs\n1e3\n";
    let read = DurationReader::new().read(text.as_bytes()).expect("a file");
    assert_eq!((read.durations.len(), read.malformed.count), (1, 4));
    let error = |reader: DurationReader, text: &str| {
        reader.read(text.as_bytes()).expect_err(text).to_string()
    };
    assert_eq!(
        error(DurationReader::new().strict(true), text),
        "line 2: field '1' is not a duration such as '12ms', or in seconds: 'soon'; correct it, or allow malformed lines, which are then skipped and counted"
    );
    assert_eq!(
        error(DurationReader::new(), "a,b\n1,2\n"),
        "the log has no field 'duration'; choose one of: a, b"
    );
    assert!(error(DurationReader::new(), "").contains("is empty"));
    assert!(error(DurationReader::new(), "name\n").contains("is empty"));
    assert!(error(DurationReader::new(), "name\nsoon\n").contains("line 2"));
}

#[test]
fn recorded_durations_have_their_mean_exactly() {
    let nanos = |values: &[u64]| {
        values
            .iter()
            .copied()
            .map(Duration::from_nanos)
            .collect::<Vec<_>>()
    };
    let large = u64::MAX / 2;
    assert_eq!(
        Distribution::empirical(nanos(&[large, large - 2])).mean(),
        Duration::from_nanos(large - 1)
    );
    assert_eq!(
        Distribution::empirical(nanos(&[1, 2])).mean(),
        Duration::from_nanos(2)
    );
    assert_eq!(
        Distribution::empirical(nanos(&[1, 1, 2])).mean(),
        Duration::from_nanos(1)
    );
    assert_eq!(Distribution::empirical([]).mean(), Duration::ZERO);
}

/// Requests in the order of their times: microseconds, key and cost.
fn written() -> impl Strategy<Value = Vec<(u64, String, u64)>> {
    let request = (0..1_000_000_000_u64, "[ -~äß\u{1f642}]{0,12}", 0..=u64::MAX);
    prop::collection::vec(request, 1..40).prop_map(|mut requests| {
        requests.sort_by_key(|request| request.0);
        requests
    })
}

#[track_caller]
fn assert_round_trip(reader: &LogReader, text: &str, written: &[(u64, String, u64)]) {
    let log = reader
        .clone()
        .strict(true)
        .read(text.as_bytes(), |_| ControlFlow::Continue(()))
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    let begin = written[0].0;
    let expected: Vec<_> = written
        .iter()
        .map(|(at, key, cost)| (u128::from(at - begin), key.clone(), *cost))
        .collect();
    let read = log.requests.iter().map(|request| {
        let key = log.keys.name(request.key).expect("a name").into_owned();
        (request.at.as_micros(), key, request.cost)
    });
    assert_eq!(read.collect::<Vec<_>>(), expected);
    let names: std::collections::BTreeSet<_> = written.iter().map(|(_, key, _)| key).collect();
    assert_eq!(log.keys.len(), names.len());
}

proptest! {
    #[test]
    fn json_lines_are_read_as_they_were_written(requests in written()) {
        let text: String = requests.iter().map(|(at, key, cost)| {
            format!("{{\"cost\": {cost}, \"key\": {key:?}, \"ts\": {}.{:06}}}\n", 1_700_000_000 + at / 1_000_000, at % 1_000_000)
        }).collect();
        assert_round_trip(&LogReader::new(), &text, &requests);
    }

    #[test]
    fn a_csv_is_read_as_it_was_written(requests in written()) {
        let text: String = requests.iter().map(|(at, key, cost)| {
            format!("\"{}\",{cost},2026-11-23T10:{:02}:{:02}.{:06}Z\n", key.replace('"', "\"\""), at / 60_000_000, at / 1_000_000 % 60, at % 1_000_000)
        }).collect();
        let requests: Vec<_> = requests.into_iter().map(|(at, key, cost)| (at, key.trim().to_owned(), cost)).collect();
        assert_round_trip(&LogReader::new(), &format!("key,cost,time\n{text}"), &requests);
    }

    #[test]
    fn an_access_log_is_read_as_it_was_written(requests in written()) {
        let word = |key: &str| {
            let key = key.trim().replace(['"', '\\', '?', ' '], "_");
            if key.is_empty() { "-".to_owned() } else { key }
        };
        let requests: Vec<_> = requests.into_iter().map(|(at, key, cost)| (at, word(&key), cost)).collect();
        let text: String = requests.iter().map(|(at, key, cost)| {
            let (minute, second) = (at / 60_000_000, at / 1_000_000 % 60);
            format!("192.0.2.1 - - [23/Nov/2026:10:{minute:02}:{second:02}.{:06} +0100] \"GET {key} HTTP/1.1\" 200 {cost} \"-\" \"x\"\n", at % 1_000_000)
        }).collect();
        assert_round_trip(&LogReader::new().key("path").cost("bytes"), &text, &requests);
    }

    #[test]
    fn spreading_keeps_each_request_in_its_second(seconds in prop::collection::vec(0..20_u64, 1..200)) {
        let mut seconds = seconds;
        seconds.sort_unstable();
        let text: String = seconds.iter().map(|second| format!("{}\n", 1_700_000_000 + second)).collect();
        let log = read(&LogReader::new(), &text);
        prop_assert!(log.requests.is_sorted_by_key(|request| request.at));
        let read: Vec<u64> = log.requests.iter().map(|request| request.at.as_secs() + seconds[0]).collect();
        prop_assert_eq!(&read, &seconds);
        for (one, next) in log.requests.iter().zip(&log.requests[1..]) {
            prop_assert!(next.at > one.at, "no two are in one burst");
        }
    }
}
