//! Flags of other tools (oha, hey, wrk, wrk2, bombardier, ab, vegeta, curl), and what to write instead.
//!
//! Most of their flags work unchanged. This file handles the others: flags with another meaning or name, and flags that do
//! not exist. Each gets a one-line message.

use super::{duration, rate};

/// Names of the rate in other tools.
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
        "write --follow 10 to follow redirects, and -q 1000/s for a rate",
    ),
    (
        &["-w", "--workers"],
        "not supported: write -c for connections or --threads for threads",
    ),
    (
        &["-s", "--script", "--lua"],
        "scripts are not supported: use -m, -H and -d, or --urls FILE",
    ),
    (
        &["-L", "--location"],
        "write --follow 10 to follow redirects; latencies are always reported",
    ),
    (
        &["--latency", "--latencies", "-l"],
        "latencies are always reported: remove it",
    ),
    (
        &["-4", "-6", "--ipv4", "--ipv6"],
        "write the address in the URL, http://127.0.0.1/ or http://[::1]/, and the name with --host",
    ),
    (
        &["-i", "--include", "-I", "--head"],
        "responses are not shown: remove it, or write -m HEAD for the method",
    ),
    (
        &["--wait"],
        "load always waits for requests in flight: remove it",
    ),
    (
        &["--stats", "--statistics"],
        "there is always a report: remove it, or write --json FILE",
    ),
    (
        &["-v", "-V", "--verbose", "--version"],
        "write flowgate --version for the version, or --progress for the progress",
    ),
    (
        &["--concurrency", "--clients", "--conn"],
        "write -c 50, or --connections 50",
    ),
    (&["--number", "--num"], "write -n 1000, or --requests 1000"),
    (
        &["--time", "--runtime", "--duration-seconds"],
        "write -z 30s, or --duration 30s",
    ),
    (
        &["--data", "--data-raw", "--data-binary"],
        "write -d TEXT, or -D FILE",
    ),
    (&["-b"], "write -d TEXT or -D FILE for the body"),
    (
        &["-f", "-F"],
        "write --form NAME=VALUE, or --form NAME=@FILE",
    ),
    (
        &["-Z", "--body-lines"],
        "all requests have the same body: write -d TEXT, or -D FILE",
    ),
    (&["-u", "--user"], "write -a user:password"),
    (&["-U"], "write -H 'User-Agent: …'"),
    (&["--request"], "write -m POST, or --method POST"),
    (
        &["--max-time", "--connect-timeout"],
        "write -t 10s, for connecting and for each request",
    ),
    (
        &["-o", "--output", "--output-format", "--format"],
        "write --json FILE, --csv FILE or --html FILE; - is standard output",
    ),
    (
        &["-x", "--proxy-header"],
        "write --proxy http://HOST:PORT; headers for the proxy are not supported",
    ),
    (
        &["--vsock-addr"],
        "write a URL with host and port, or --unix-socket FILE",
    ),
    (&["--http3"], "HTTP/3 is not supported: write --http2"),
    (
        &["--http-version"],
        "write --http2; the default is HTTP/1.1",
    ),
    (
        &["--http1.1", "--http1"],
        "HTTP/1.1 is the default: remove it",
    ),
    (
        &["--urls-from-file", "--url-file"],
        "write --urls FILE, or --targets FILE for requests with headers and bodies",
    ),
    (
        &["--rand-regex-url"],
        "URLs are not generated: write --urls FILE",
    ),
    (
        &["--burst-rate", "--burst-delay"],
        "write -q 100 --burst 20 for bursts of 20, in total 100/s",
    ),
    (
        &["--fps"],
        "the live view is drawn ten times per second: write --no-tui to disable it",
    ),
    (
        &["--no-color", "--disable-color"],
        "set the environment variable NO_COLOR, or write --no-tui",
    ),
    (
        &["--think-time"],
        "not supported: write -q 100 for a rate, or --plan with pauses",
    ),
    (
        &["--ramp-up", "--ramp"],
        "write -q 0:1000 -z 30s for a ramp from 0 to 1000/s in 30 s",
    ),
    (&["--warmup", "--warm"], "write --warm-up 5s"),
    (
        &["--threshold", "--thresholds"],
        "write --fail-if 'p99>50ms'",
    ),
];

/// Flags that `load` would misinterpret: hey writes long names with one dash, and `-host` begins with `-h`.
const MISREAD: &[(&[&str], &str)] = &[
    (&["-h2"], "write --http2"),
    (&["-host"], "write --host"),
    (&["-cpus", "--cpus"], "write --threads"),
    (&["-disable-keepalive"], "write --disable-keepalive"),
    (
        &["-disable-compression", "--disable-compression"],
        "compression is not requested without --compressed: remove it",
    ),
    (
        &["-disable-redirects", "--disable-redirects"],
        "redirects are not followed without --follow: remove it",
    ),
    (
        &["-latency-correction", "--latency-correction"],
        "response times always count from the scheduled time: remove it",
    ),
    (
        &["-rate", "-qps", "-duration", "-connections"],
        "long names have two dashes: write --rate, --duration or --connections",
    ),
];

/// Returns what to write instead of a flag that does not exist, and may be followed by `value`.
pub(crate) fn instead_of(flag: &str, value: Option<&str>) -> Option<String> {
    if RATE.contains(&flag) {
        let is_rate = |text: &&str| rate::parse(text).is_ok();
        let rate = value.filter(is_rate).unwrap_or("1000/s");
        return Some(format!("{flag}: the total rate is -q: write -q {rate}"));
    }
    look_up(UNKNOWN, flag)
}

/// Returns the value of a flag among these arguments: attached to it, or next to it.
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

/// Returns what to write instead of a rate with a flag, which `pace` does not have.
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
        "{flag}: the rate needs no flag: write flowgate pace {}",
        rate.unwrap_or("2/s")
    ))
}

/// Returns what to write instead of valid arguments that certainly have another meaning than intended.
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
                file => file,
            };
            answers.push(format!(
                "-d does not read files: write -D {file} (or --body '@…' for a body that begins with @)"
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
                "-d is the body, as in hey, oha and curl: write -z {time} for a duration, or --body {text} for a body"
            ));
        }
        // The examples of wrk have no space here; those of hey and oha have one.
        if let Some(threads) = argument.strip_prefix("-t")
            && !threads.is_empty()
            && threads.bytes().all(|byte| byte.is_ascii_digit())
        {
            answers.push(format!(
                "-t is the timeout, as in hey and oha: write --threads {threads} for threads, \
                 or -t {threads}s for a timeout"
            ));
        }
    }
    (!answers.is_empty()).then(|| answers.join("; "))
}

fn look_up(table: &[(&[&str], &str)], flag: &str) -> Option<String> {
    let (_, answer) = table.iter().find(|(flags, _)| flags.contains(&flag))?;
    Some(format!("{flag}: {answer}"))
}

/// Returns whether an argument is this flag: alone, with `=`, or, for a short flag, with its value attached.
fn begins(argument: &str, name: &str) -> bool {
    match argument.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with('=') || !name.starts_with("--"),
        None => false,
    }
}

/// Returns the value of a short flag: attached to it, or next to it.
fn value_of<'a>(flag: &str, argument: &'a str, next: Option<&'a String>) -> Option<&'a str> {
    match argument.strip_prefix(flag)? {
        "" => next.map(String::as_str),
        behind => Some(behind.trim_start_matches('=')),
    }
}

/// Returns the value for `-z`. A bare number is seconds, as in wrk and bombardier.
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
            ("-d 30s http://h/", "write -z 30s for a duration"),
            ("-d30s http://h/", "write -z 30s for a duration"),
            ("-d=30s http://h/", "write -z 30s for a duration"),
            ("-d 10 http://h/", "write -z 10s for a duration"),
            ("-d 1m30s -q 5 http://h/", "write -z 1m30s for a duration"),
            (
                "-t12 http://h/",
                "write --threads 12 for threads, or -t 12s",
            ),
            (
                "-t12 -c400 -d30s http://h/",
                "-t 12s for a timeout; -d is the body",
            ),
            ("-h2 http://h/", "-h2: write --http2"),
            ("-host example.org http://h/", "-host: write --host"),
            ("-cpus 2 http://h/", "--threads"),
            ("-disable-keepalive http://h/", "write --disable-keepalive"),
            ("--latency-correction http://h/", "from the scheduled time"),
            ("-rate 5 http://h/", "two dashes"),
            ("-d @file -m POST http://h/", "write -D file (or"),
            ("-d@a.json http://h/", "write -D a.json (or"),
            ("-d @- http://h/", "write -D - (or"),
            ("-d @", "write -D FILE"),
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
            ("-R", "write -q 1000/s"),
            ("--rps", "write -q 1000/s"),
            ("--rate-limit", "write -q 1000/s"),
            ("-w", "--threads"),
            ("-o", "--csv FILE"),
            ("-U", "-H 'User-Agent"),
            ("-x", "write --proxy http://HOST:PORT"),
        ] {
            let answer = instead_of(flag, None).unwrap_or_default();
            assert!(answer.starts_with(&format!("{flag}: ")), "{answer}");
            assert!(answer.contains(expected), "{answer}");
        }
        assert_eq!(instead_of("--rate", None), None);
        assert_eq!(instead_of("--frobnicate", None), None);
        for (value, expected) in [("100", "write -q 100"), ("http://h/", "write -q 1000/s")] {
            let answer = instead_of("-R", Some(value)).unwrap_or_default();
            assert!(answer.ends_with(expected), "{answer}");
        }
    }

    #[test]
    fn a_rate_of_pace_needs_no_flag() {
        for (line, expected) in [
            (
                "-q 2",
                Some("-q: the rate needs no flag: write flowgate pace 2"),
            ),
            (
                "-q2/s",
                Some("-q: the rate needs no flag: write flowgate pace 2/s"),
            ),
            (
                "--rate 30/min",
                Some("--rate: the rate needs no flag: write flowgate pace 30/min"),
            ),
            (
                "--rate=3/s",
                Some("--rate: the rate needs no flag: write flowgate pace 3/s"),
            ),
            (
                "-R",
                Some("-R: the rate needs no flag: write flowgate pace 2/s"),
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

        let mut command = crate::subcommand::Command::command();
        command.build();
        let load = command.find_subcommand("load").expect("a subcommand");
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
