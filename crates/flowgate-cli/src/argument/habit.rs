//! What users of other tools type, and what to type here: oha, hey, wrk, wrk2, bombardier, ab, vegeta, curl.
//!
//! Most of it works as it is. This is about the rest: flags that mean something else here, that are spelled otherwise,
//! or that do not exist. Each is answered in one line.

use super::{duration, rate};

/// What others call the rate.
const RATE: &[&str] = &[
    "-R",
    "--rps",
    "--qps",
    "--rate-limit",
    "--overallRate",
    "--throughput",
];

/// Flags that `load` does not have, and what to do instead.
const UNKNOWN: &[(&[&str], &str)] = &[
    (
        &["-r", "--redirect"],
        "redirects are not followed; for a rate, type -q 1000/s",
    ),
    (
        &["-w", "--workers"],
        "connections are -c, threads are --threads, and requests in flight at the end are always waited for",
    ),
    (
        &["-s", "--script", "--lua"],
        "scripts are not supported: type -m, -H and -d, or --urls FILE",
    ),
    (
        &["-L", "--location"],
        "redirects are not followed, and latencies are always reported: leave it out",
    ),
    (
        &["--latency", "--latencies", "-l"],
        "latencies are always reported: leave it out",
    ),
    (
        &["-4", "-6", "--ipv4", "--ipv6"],
        "type the address in the URL, http://127.0.0.1/ or http://[::1]/, and its name with --host",
    ),
    (
        &["-i", "--include", "-I", "--head"],
        "answers are counted, not shown: leave it out; for the method, type -m HEAD",
    ),
    (
        &["--wait"],
        "requests in flight at the end are always waited for: leave it out",
    ),
    (
        &["--stats", "--statistics", "--summary"],
        "there is always a report: leave it out, or type --json FILE",
    ),
    (
        &["-v", "-V", "--verbose", "--version"],
        "for the version, type flowgate --version; to see how a run goes, --progress",
    ),
    (
        &["--concurrency", "--clients", "--conn"],
        "type -c 50, or --connections 50",
    ),
    (&["--number", "--num"], "type -n 1000, or --requests 1000"),
    (
        &["--time", "--runtime", "--duration-seconds"],
        "type -z 30s, or --duration 30s",
    ),
    (
        &["--data", "--data-raw", "--data-binary"],
        "type -d TEXT, or -D FILE",
    ),
    (&["-b"], "the body is -d TEXT, or -D FILE"),
    (
        &["-f", "-F", "--form"],
        "forms are not made up: type -D FILE with -T 'multipart/form-data; boundary=…'",
    ),
    (
        &["-Z", "--body-lines"],
        "all requests have the same body: type -d TEXT, or -D FILE",
    ),
    (&["-u", "--user"], "type -a user:password"),
    (&["-U"], "type -H 'User-Agent: …'"),
    (&["--request"], "type -m POST, or --method POST"),
    (
        &["--max-time", "--connect-timeout"],
        "type -t 10s: it is for connecting and for each request",
    ),
    (
        &["-o", "--output", "--output-format", "--format"],
        "type --json FILE, --csv FILE or --html FILE; - is standard output",
    ),
    (
        &["-x", "--proxy", "--proxy-header"],
        "proxies are not supported: leave it out",
    ),
    (
        &["--unix-socket", "--vsock-addr"],
        "only TCP is supported: type a URL with host and port",
    ),
    (
        &["--cert", "--key"],
        "certificates of clients are not supported: leave it out",
    ),
    (&["--http3"], "HTTP/3 is not supported: type --http2"),
    (
        &["--http-version"],
        "type --http2; without it, HTTP/1.1 is spoken",
    ),
    (
        &["--http1.1", "--http1"],
        "HTTP/1.1 is spoken anyway: leave it out",
    ),
    (
        &["--urls-from-file", "--url-file", "--targets"],
        "type --urls FILE",
    ),
    (
        &["--rand-regex-url"],
        "URLs are not made up: type --urls FILE",
    ),
    (
        &["--burst-rate", "--burst-delay"],
        "type -q 100 --burst 20: bursts of 20, 100 per second in total",
    ),
    (
        &["--fps"],
        "the live view is drawn ten times a second; --no-tui leaves it out",
    ),
    (
        &["--no-color", "--disable-color"],
        "set the environment variable NO_COLOR, or type --no-tui",
    ),
    (
        &["--think-time"],
        "requests are sent at a rate: type -q 100, or --plan with pauses",
    ),
    (
        &["--ramp-up", "--ramp"],
        "type -q 0:1000 -z 30s: linearly from 0 to 1000/s in 30 s",
    ),
    (
        &["--threshold", "--thresholds"],
        "type --fail-if 'p99>50ms'",
    ),
];

/// Tokens that would be taken for something else here: hey writes long names with one dash, where `-host` begins with
/// `-h`.
const MISREAD: &[(&[&str], &str)] = &[
    (&["-h2"], "type --http2"),
    (&["-host"], "type --host"),
    (&["-cpus", "--cpus"], "type --threads"),
    (&["-disable-keepalive"], "type --disable-keepalive"),
    (
        &["-disable-compression", "--disable-compression"],
        "compression is never asked for: leave it out",
    ),
    (
        &["-disable-redirects", "--disable-redirects"],
        "redirects are never followed: leave it out",
    ),
    (
        &["-latency-correction", "--latency-correction"],
        "response times always count from the scheduled time: leave it out",
    ),
    (
        &["-rate", "-qps", "-duration", "-connections"],
        "long names have two dashes here",
    ),
];

/// What to type instead of a flag that does not exist. Behind it may be its value.
pub(crate) fn instead_of(flag: &str, value: Option<&str>) -> Option<String> {
    if RATE.contains(&flag) {
        let is_rate = |text: &&str| rate::parse(text).is_ok();
        let rate = value.filter(is_rate).unwrap_or("1000/s");
        return Some(format!(
            "{flag}: the rate of all requests together is -q: type -q {rate}"
        ));
    }
    look_up(UNKNOWN, flag)
}

/// The value of a flag among these arguments: behind it, or next to it.
pub(crate) fn value_among<'a>(flag: &str, arguments: &'a [String]) -> Option<&'a str> {
    let is_short = flag.len() == 2;
    arguments.iter().enumerate().find_map(|(index, argument)| {
        match argument.strip_prefix(flag)? {
            "" => arguments.get(index + 1).map(String::as_str),
            behind => match behind.strip_prefix('=') {
                None if is_short => Some(behind),
                behind => behind,
            },
        }
    })
}

/// What to type instead of a rate with a flag, which `pace` does not have.
pub(crate) fn rate_of_pace(arguments: &[String]) -> Option<String> {
    let flag = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .find_map(|argument| {
            let mut flags = ["-q", "-r", "--rate"]
                .into_iter()
                .chain(RATE.iter().copied());
            flags.find(|flag| begins(argument, flag))
        })?;
    let rate = value_among(flag, arguments).filter(|text| rate::parse(text).is_ok());
    Some(format!(
        "{flag}: the rate needs no flag: type flowgate pace {}",
        rate.unwrap_or("2/s")
    ))
}

/// What to type instead of arguments that exist, but surely mean something else than was meant. To be asked before they
/// are read.
pub(crate) fn misread(arguments: &[String]) -> Option<String> {
    let has = |names: &[&str]| {
        arguments
            .iter()
            .any(|argument| names.iter().any(|name| begins(argument, name)))
    };
    let mut answers = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        if argument == "--" {
            break;
        }
        answers.extend(look_up(MISREAD, argument));
        let body = value_of("-d", argument, arguments.get(index + 1));
        if let Some(file) = body.and_then(|text| text.strip_prefix('@')) {
            let file = match file {
                "" => "FILE",
                "-" => "/dev/stdin",
                file => file,
            };
            answers.push(format!(
                "-d does not read files: type -D {file} (a body that begins with @ is --body '@…')"
            ));
        }
        if let Some(text) = body
            && !has(&[
                "-z",
                "--duration",
                "-n",
                "--requests",
                "-m",
                "--method",
                "-X",
                "-T",
            ])
            && let Some(time) = looks_like_a_time(text)
        {
            answers.push(format!(
                "-d is the body, as in hey, oha and curl: did you mean -z {time}? (a body it is with --body {text})"
            ));
        }
        // wrk's own examples have no space there; those of hey and oha do.
        if let Some(threads) = argument.strip_prefix("-t")
            && !threads.is_empty()
            && threads.bytes().all(|byte| byte.is_ascii_digit())
        {
            answers.push(format!(
                "-t is the time limit of a request, as in hey and oha: type -t {threads}s; \
                 for threads, --threads {threads}"
            ));
        }
    }
    (!answers.is_empty()).then(|| answers.join("; "))
}

fn look_up(table: &[(&[&str], &str)], flag: &str) -> Option<String> {
    let (_, answer) = table.iter().find(|(flags, _)| flags.contains(&flag))?;
    Some(format!("{flag}: {answer}"))
}

/// Whether an argument is this flag, alone, with `=`, or, if it is a short one, with its value behind it.
fn begins(argument: &str, name: &str) -> bool {
    match argument.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with('=') || !name.starts_with("--"),
        None => false,
    }
}

/// The value of a short flag: behind it, or next to it.
fn value_of<'a>(flag: &str, argument: &'a str, next: Option<&'a String>) -> Option<&'a str> {
    match argument.strip_prefix(flag)? {
        "" => next.map(String::as_str),
        behind => Some(behind.trim_start_matches('=')),
    }
}

/// As `-z` takes it: a bare number is seconds, as wrk and bombardier have it.
fn looks_like_a_time(text: &str) -> Option<String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && text != "0" {
        return Some(format!("{text}s"));
    }
    duration::parse(text).is_ok().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Option<String> {
        let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        misread(&arguments)
    }

    #[test]
    fn what_means_something_else_is_answered() {
        for (line, expected) in [
            ("-d 30s http://h/", "did you mean -z 30s?"),
            ("-d30s http://h/", "did you mean -z 30s?"),
            ("-d=30s http://h/", "did you mean -z 30s?"),
            ("-d 10 http://h/", "did you mean -z 10s?"),
            ("-d 1m30s -q 5 http://h/", "did you mean -z 1m30s?"),
            ("-t12 http://h/", "-t 12s; for threads, --threads 12"),
            ("-t12 -c400 -d30s http://h/", "--threads 12; -d is the body"),
            ("-h2 http://h/", "-h2: type --http2"),
            ("-host example.org http://h/", "-host: type --host"),
            ("-cpus 2 http://h/", "--threads"),
            ("-disable-keepalive http://h/", "type --disable-keepalive"),
            ("--latency-correction http://h/", "from the scheduled time"),
            ("-rate 5 http://h/", "two dashes"),
            ("-d @file -m POST http://h/", "type -D file (a body"),
            ("-d@a.json http://h/", "type -D a.json (a body"),
            ("-d @- http://h/", "type -D /dev/stdin"),
            ("-d @", "type -D FILE"),
        ] {
            let answer = ask(line).unwrap_or_default();
            assert!(answer.contains(expected), "{line}: {answer}");
            assert!(!answer.contains('\n'), "{answer}");
        }
    }

    #[test]
    fn what_means_the_same_is_left_alone() {
        for line in [
            "",
            "-d 30s -z 10s http://h/",
            "-d 10 -n 5 http://h/",
            "-d 10 -n5 http://h/",
            "-d 10 -m POST http://h/",
            "-d 10 --method=PUT http://h/",
            "-d hello http://h/",
            "-d 0 http://h/",
            "-d {} http://h/",
            "-d",
            "--body 30s http://h/",
            "--body @file http://h/",
            "-d me@example.org http://h/",
            "--limiter 30s",
            "-t 12 http://h/",
            "-t 12s -t12s http://h/",
            "--threads 12 http://h/",
            "-- -h2",
        ] {
            assert_eq!(ask(line), None, "{line}");
        }
    }

    #[test]
    fn what_does_not_exist_is_answered() {
        for (flag, expected) in [
            ("-R", "type -q 1000/s"),
            ("--rps", "type -q 1000/s"),
            ("--rate-limit", "type -q 1000/s"),
            ("-w", "--threads"),
            ("-o", "--csv FILE"),
            ("-U", "-H 'User-Agent"),
            ("-x", "proxies are not supported"),
        ] {
            let answer = instead_of(flag, None).unwrap_or_default();
            assert!(answer.starts_with(&format!("{flag}: ")), "{answer}");
            assert!(answer.contains(expected), "{answer}");
        }
        assert_eq!(instead_of("--rate", None), None);
        assert_eq!(instead_of("--frobnicate", None), None);
        for (value, expected) in [("100", "type -q 100"), ("http://h/", "type -q 1000/s")] {
            let answer = instead_of("-R", Some(value)).unwrap_or_default();
            assert!(answer.ends_with(expected), "{answer}");
        }
    }

    #[test]
    fn a_rate_of_pace_needs_no_flag() {
        for (line, expected) in [
            (
                "-q 2",
                Some("-q: the rate needs no flag: type flowgate pace 2"),
            ),
            (
                "-q2/s",
                Some("-q: the rate needs no flag: type flowgate pace 2/s"),
            ),
            (
                "--rate 30/min",
                Some("--rate: the rate needs no flag: type flowgate pace 30/min"),
            ),
            (
                "--rate=3/s",
                Some("--rate: the rate needs no flag: type flowgate pace 3/s"),
            ),
            (
                "-R",
                Some("-R: the rate needs no flag: type flowgate pace 2/s"),
            ),
            ("-0 2/s --precise", None),
            ("-5", None),
        ] {
            let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(rate_of_pace(&arguments).as_deref(), expected, "{line}");
        }
    }

    /// What exists must not be answered with something else, and nothing is answered twice.
    #[test]
    fn the_tables_agree_with_the_arguments() {
        use clap::CommandFactory;

        let mut command = crate::verb::Command::command();
        command.build();
        let load = command.find_subcommand("load").expect("a verb");
        let mut seen = Vec::new();
        let of_rate = (RATE, "-q");
        for (flags, answer) in UNKNOWN.iter().chain(MISREAD).chain([&of_rate]) {
            assert!(!answer.is_empty() && !answer.ends_with('.'), "{answer}");
            for flag in *flags {
                assert!(!seen.contains(flag), "{flag} twice");
                seen.push(flag);
                let exists = load.get_arguments().any(|argument| {
                    let long = argument.get_long().map(|long| format!("--{long}"));
                    let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
                    long.as_deref() == Some(flag)
                        || shorts.iter().any(|short| format!("-{short}") == **flag)
                });
                assert!(!exists, "{flag} exists");
            }
        }
    }
}
