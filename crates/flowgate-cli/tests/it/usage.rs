//! Arguments that make no sense: one line that says what to type, and the right exit code.

use crate::support::{finished, flowgate, run};

#[test]
fn bad_arguments_are_answered_in_one_line() {
    let table: &[(i32, &[&str], &str)] = &[
        (2, &["load"], "write --rate 1000/s"),
        (2, &["load", "--rate"], "--rate <RATE>"),
        (2, &["load", "-q", "0"], "must be more than 0"),
        (2, &["load", "-q", "0/s"], "must be more than 0"),
        (2, &["load", "-q", "10hz"], "write 10/s"),
        (2, &["load", "-q", "10", "-t", "-1"], "longer than 0"),
        (
            2,
            &["load", "-q", "10", "-n", "99999999999999999999"],
            "from 1 to 18446744073709551615",
        ),
        (
            2,
            &["load", "-q", "10", "-H", "Content-Length: 5"],
            "remove it, and write -d TEXT",
        ),
        (
            2,
            &["load", "-q", "10", "-H", "Transfer-Encoding: chunked"],
            "remove it, and write -d TEXT",
        ),
        (
            2,
            &["load", "-q", "100", "--burst", "300", "-z", "2s"],
            "300 is more than the 200 requests of the run",
        ),
        (
            2,
            &["load", "-q", "100", "--burst", "21", "-n", "20"],
            "21 is more than the 20 requests of the run",
        ),
        (
            2,
            &["load", "-q", "100", "--burst", "21", "-n", "20", "-z", "9s"],
            "21 is more than the 20 requests of the run",
        ),
        (
            2,
            &["load", "-q", "5", "--fail-if", "p99.5>5ms"],
            "write --percentiles 99.5, too",
        ),
        (
            2,
            &["load", "-q", "5", "--percentiles", "p99"],
            "write 50,95,99.9",
        ),
        (
            2,
            &["load", "-q", "5", "--percentiles", "100"],
            "write 50,95,99.9",
        ),
        (
            2,
            &["load", "-q", "5", "--percentiles"],
            "--percentiles <LIST>",
        ),
        (
            2,
            &["load", "-q", "5", "--max-errors", "101%"],
            "write 0.1%",
        ),
        (2, &["load", "-q", "5", "--max-errors", "-1%"], "write 0.1%"),
        (2, &["load", "-q", "5", "--max-errors", "few"], "write 0.1%"),
        (2, &["load", "-q", "5", "--warm-up", "5"], "write 5s"),
        (2, &["load", "-q", "5", "--warm-up", "0s"], "longer than 0"),
        (
            2,
            &["load", "-q", "5", "--warmup", "5s"],
            "write --warm-up 5s",
        ),
        (2, &["load", "-q", "5", "--log", ""], "write a path, or -"),
        (
            2,
            &["load", "-q", "5", "--log", "x", "--json", "x"],
            "--json and --log both write to x",
        ),
        (
            1,
            &["load", "-q", "5", "--log", "/no/such/directory/x"],
            "--log: cannot write /no/such/directory/x: ",
        ),
        (
            2,
            &["load", "-q", "5", "--unix-socket", "x"],
            "need a URL, for the host and the path: write http://localhost/",
        ),
        (
            1,
            &[
                "load",
                "-q",
                "5",
                "http://h/",
                "--unix-socket",
                "/no/such/socket",
            ],
            "cannot connect to /no/such/socket: could not connect",
        ),
        (
            2,
            &[
                "load",
                "-q",
                "5",
                "http://h/",
                "--unix-socket",
                "x",
                "--connect-to",
                "h:1",
            ],
            "cannot be used with",
        ),
        (
            2,
            &["load", "-q", "5", "http://h/", "--connect-to", "h"],
            "write 127.0.0.1:8080",
        ),
        (
            2,
            &["load", "-q", "5", "http://h/", "--connect-to", "h:0"],
            "write 127.0.0.1:8080",
        ),
        (
            2,
            &["load", "-q", "5", "--urls", "-", "-D", "-"],
            "only one input can be standard input",
        ),
        (
            2,
            &["load", "-q", "5", "-D", "/dev/zero"],
            "/dev/zero has more than 256 MiB",
        ),
        (
            2,
            &["load", "-q", "5", "--urls", "/dev/zero"],
            "/dev/zero has more than 256 MiB",
        ),
        (
            2,
            &["load", "--replay", "/dev/zero"],
            "/dev/zero has more than 256 MiB",
        ),
        (
            2,
            &["report", "/dev/zero"],
            "/dev/zero has more than 64 MiB",
        ),
        (
            2,
            &["report", "-", "-"],
            "only one input can be standard input",
        ),
        (
            2,
            &["load", "-q", "5", "--fail-if", "err>1"],
            "is never true",
        ),
        (2, &["load", "--limiter", "token"], "write \"token 100/s\""),
        (2, &["load", "--limiter", ""], "write token, leaky,"),
        (
            2,
            &["load", "-q", "5", "http://me:sesame@h/"],
            "write http://h/ -a me:…",
        ),
        (
            2,
            &["load", "-q", "5", "http://h/", "http://me:sesame@h/"],
            "http://…@h/; write several into a file",
        ),
        (
            2,
            &["load", "-q", "5", "--json", "http://me:sesame@h/"],
            "a URL, not a file",
        ),
        (
            2,
            &["load", "-q", "5", "--json=http://me:sesame@h/"],
            "http://…@h/",
        ),
        (
            2,
            &["http://me:sesame@h/"],
            "write flowgate load http://…@h/",
        ),
        (2, &["help"], "write flowgate --help"),
        (2, &["help", "load"], "write flowgate load --help"),
        (2, &["help", "me"], "write flowgate --help"),
        (2, &["version"], "write flowgate --version"),
        (2, &["-v"], "write flowgate --version"),
        (2, &["load", "-q", "1e99"], "1e99"),
        (2, &["load", "-q", "NaN"], "NaN"),
        (2, &["load", "-q", "inf"], "inf"),
        (2, &["load", "-q", "-5"], "-5"),
        (2, &["load", "-q", ""], "write 1000/s"),
        (2, &["load", "-q", "5/fortnight"], "fortnight"),
        (2, &["load", "-q", "100/s burst 20"], "write 100/s"),
        (2, &["load", "-q", "10MiB/s"], "bytes"),
        (2, &["load", "-q", "10", "-z", "5"], "write 5s"),
        (2, &["load", "-q", "10", "-z", "soon"], "write 5s"),
        (2, &["load", "-q", "10", "-z", "0s"], "longer than 0"),
        (2, &["load", "-q", "10", "-z", "-1s"], "longer than 0"),
        (2, &["load", "-q", "10", "-z", "1000years"], "584 years"),
        (2, &["load", "-q", "1/y", "-n", "1000"], "584 years"),
        (2, &["load", "-q", "10", "-n", "0"], "number from 1 to"),
        (2, &["load", "-q", "10", "-n", "many"], "number from 1 to"),
        (2, &["load", "-q", "10", "-c", "0"], "from 1 to 20000"),
        (2, &["load", "-q", "10", "-c", "20001"], "from 1 to 20000"),
        (2, &["load", "-q", "10", "--timeout", "0"], "write 1h"),
        (2, &["load", "-q", "10", "-t", "soon"], "not a time"),
        (2, &["load", "-q", "10", "--threads", "0"], "from 1 to 1024"),
        (
            2,
            &["load", "-q", "10", "-p", "0", "--http2"],
            "from 1 to 10000",
        ),
        (2, &["load", "-q", "10", "-p", "5"], "add --http2"),
        (
            2,
            &["load", "-q", "10", "--http2", "--disable-keepalive"],
            "cannot be used with '--disable-keepalive'",
        ),
        (
            2,
            &["load", "-q", "10", "-a", "me"],
            "write -a user:password",
        ),
        (2, &["load", "-q", "10", "-T", ""], "write a value"),
        (
            2,
            &["load", "-q", "10", "-d", "x", "-D", "y"],
            "cannot be used with '--body-file",
        ),
        (
            1,
            &["load", "-q", "10", "-D", "/no/such/file"],
            "--body-file: cannot read /no/such/file: ",
        ),
        (
            1,
            &["load", "-q", "10", "--urls", "/no/such/file"],
            "--urls: cannot read /no/such/file: ",
        ),
        (
            2,
            &["load", "--urls", "file", "http://h/"],
            "cannot be used with '[URL]'",
        ),
        (2, &["load", "-z", "5s"], "write --rate 1000/s"),
        (
            2,
            &["load", "--poisson", "http://h/"],
            "--poisson needs a rate",
        ),
        (
            2,
            &["load", "--late", "skip", "http://h/"],
            "--late needs a rate",
        ),
        (
            2,
            &["load", "-q", "5", "--late", "never"],
            "not queue, skip or a time",
        ),
        (
            2,
            &["load", "-z", "5s", "-n", "5", "http://h/"],
            "--duration and --requests exclude each other",
        ),
        (
            2,
            &["load", "--at-most", "2/s", "-z", "5s", "-n", "5"],
            "--duration and --requests exclude each other",
        ),
        (
            2,
            &["load", "--at-most", "2/s", "-q", "5"],
            "'--at-most <RATE>' cannot be used with '--rate",
        ),
        (
            2,
            &["load", "--at-most", "2/s", "--limiter", "token 5/s"],
            "cannot be used with",
        ),
        (
            2,
            &["load", "--at-most", "2/s", "--poisson"],
            "'--at-most <RATE>' cannot be used with '--poisson'\n",
        ),
        (2, &["load", "--at-most", "0"], "must be more than 0"),
        (
            2,
            &["load", "--limiter", "tokens 5/s"],
            "is no limiter; write token, leaky",
        ),
        (
            2,
            &["load", "-q", "5", "--margin", "1ms"],
            "write --at-most 2/s --margin 1ms",
        ),
        (2, &["load", "-q", "5", "--json"], "--json <FILE>"),
        (
            2,
            &["load", "-q", "5", "--json", "http://h/"],
            "a URL, not a file",
        ),
        (
            2,
            &["load", "-q", "5", "--json", "x", "--csv", "x"],
            "--json and --csv both write to x",
        ),
        (
            2,
            &[
                "load",
                "-q",
                "5",
                "-D",
                "Cargo.toml",
                "--json",
                "./Cargo.toml",
            ],
            "--json would overwrite the input ./Cargo.toml",
        ),
        (
            2,
            &[
                "load",
                "-q",
                "5",
                "-D",
                "Cargo.toml",
                "--summary",
                "./Cargo.toml",
            ],
            "--summary would overwrite the input ./Cargo.toml",
        ),
        (
            2,
            &[
                "verify",
                "https://127.0.0.1:9/",
                "--cert",
                "Cargo.toml",
                "--json",
                "./Cargo.toml",
            ],
            "--json would overwrite the input ./Cargo.toml",
        ),
        (
            2,
            &["load", "-q", "5", "-j", "--json", "x"],
            "cannot be used with",
        ),
        (
            2,
            &["load", "-q", "5", "--fail-if", "p100>5ms"],
            "write one of p50",
        ),
        (2, &["load", "-q", "5", "--fail-if", "p99>50"], "write 50ms"),
        (2, &["load", "-q", "10", "-m", "G T"], "write GET"),
        (
            2,
            &["load", "-q", "10", "-H", "colonless"],
            "write -H 'Name: value'",
        ),
        (
            2,
            &["load", "-q", "10", "localhost:80"],
            "write http://localhost:80",
        ),
        (2, &["load", "-q", "10", "http://"], "http://127.0.0.1"),
        (2, &["load", "-q", "10", "ftp://x/"], "begins with http://"),
        (
            2,
            &["load", "-q", "10", "http://h/", "http://i/"],
            "--urls FILE",
        ),
        (2, &["load", "--rat", "10"], "'--rate'"),
        (2, &["laod"], "'load'"),
        (
            2,
            &["http://h/", "-q", "5"],
            "write flowgate load http://h/",
        ),
        (2, &["-q", "5"], "write flowgate load -q"),
        (2, &["report"], "<FILE>"),
        (2, &["completions"], "<SHELL>"),
        (2, &["completions", "sh"], "'sh'"),
        (
            1,
            &["load", "-q", "10", "http://no-such-host.invalid/"],
            "no-such-host.invalid",
        ),
    ];
    for (code, arguments, expected) in table {
        let (exit, out, err) = run(arguments);
        assert_eq!(exit, *code, "{arguments:?}: {err}");
        assert_eq!(out, "", "{arguments:?}");
        assert!(
            err.contains(expected),
            "{arguments:?} does not say {expected:?}: {err}"
        );
        assert!(
            err.starts_with("flowgate: ") && err.ends_with('\n'),
            "{err:?}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(!err.contains("sesame"), "a password: {err}");
    }
}

/// Word for word: what somebody reads who came from another tool.
#[test]
fn what_other_tools_call_otherwise_is_answered_in_one_line() {
    let table: &[(&[&str], &str)] = &[
        (
            &["-d", "30s", "http://h/"],
            "-d is the body, as in hey, oha and curl: write -z 30s for a duration, or --body 30s for a body",
        ),
        (
            &["http://h/", "-d", "10"],
            "-d is the body, as in hey, oha and curl: write -z 10s for a duration, or --body 10 for a body",
        ),
        (
            &["-t12", "-c400", "-d30s", "http://h/"],
            "-t is the timeout, as in hey and oha: write --threads 12 for threads, or -t 12s for a timeout; \
             -d is the body, as in hey, oha and curl: write -z 30s for a duration, or --body 30s for a body",
        ),
        (
            &["-R", "100", "http://h/"],
            "-R: the total rate is -q: write -q 100",
        ),
        (
            &["--rps", "http://h/"],
            "--rps: the total rate is -q: write -q 1000/s",
        ),
        (
            &["--rate-limit=100", "http://h/"],
            "--rate-limit: the total rate is -q: write -q 100",
        ),
        (
            &["-4", "http://h/"],
            "-4: write the address in the URL, http://127.0.0.1/ or http://[::1]/, and the name with --host",
        ),
        (
            &["-L", "http://h/"],
            "-L: write --follow 10 to follow redirects; latencies are always reported",
        ),
        (
            &["-i", "http://h/"],
            "-i: responses are not shown: remove it, or write -m HEAD for the method",
        ),
        (
            &["--wait", "http://h/"],
            "--wait: load always waits for requests in flight: remove it",
        ),
        (
            &["--stat", "http://h/"],
            "unexpected argument '--stat' found",
        ),
        (
            &["--frobnicate", "http://h/"],
            "unexpected argument '--frobnicate' found",
        ),
        (
            &["-d", "@file", "http://h/"],
            "-d does not read files: write -D file (or --body '@…' for a body that begins with @)",
        ),
        (
            &["-w", "5", "http://h/"],
            "-w: not supported: write -c for connections or --threads for threads",
        ),
        (
            &["-o", "csv", "http://h/"],
            "-o: write --json FILE, --csv FILE or --html FILE; - is standard output",
        ),
        (
            &["-x", "http://proxy:3128", "http://h/"],
            "-x: write --proxy http://HOST:PORT; headers for the proxy are not supported",
        ),
        (&["-h2", "http://h/"], "-h2: write --http2"),
        (
            &["-c", "0", "http://h/"],
            "invalid value '0' for '--connections <COUNT>': not a whole number from 1 to 20000: write 50",
        ),
        (
            &["-H", "Foo", "http://h/"],
            "invalid value 'Foo' for '--header <HEADER>': a colon is missing: write -H 'Name: value'",
        ),
    ];
    for (arguments, expected) in table {
        let (exit, out, err) = run(&[&["load"], *arguments].concat());
        assert_eq!((exit, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert_eq!(err, format!("flowgate: {expected}\n"), "{arguments:?}");
    }
}

#[test]
fn the_name_alone_and_help_show_examples() {
    for arguments in [&[][..], &["--help"], &["-h"]] {
        let (exit, out, err) = run(arguments);
        assert_eq!((exit, err.as_str()), (0, ""), "{arguments:?}");
        assert!(
            out.contains("flowgate load --rate 1000/s --duration 5s"),
            "{out}"
        );
    }
    let (exit, out, _) = run(&["load", "--help"]);
    assert_eq!(exit, 0);
    let (exit, short, _) = run(&["load", "-h"]);
    assert_eq!(exit, 0);
    assert!(out.contains(short.lines().last().expect("a line")), "{out}");
    for line in short.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    for word in [
        "\nRate:\n",
        "\nRequests:\n",
        "\nConnections:\n",
        "\nOutput:\n",
        "--fail-if",
        "Exit codes",
        "--rate",
        "--duration",
        "--connections",
        "RATE HELD",
        "limited",
    ] {
        assert!(out.contains(word), "{word} is not in:\n{out}");
    }
    // What is written by hand is not broken again.
    for verb in [&["load"][..], &["pace"], &["report"], &[]] {
        let mut command = flowgate(&[verb, &["--help"]].concat());
        let (_, out, _) = finished(command.env("COLUMNS", "200").output().expect("it runs"));
        let (_, examples) = out.split_once("\nExamples:\n").unwrap_or_default();
        for line in examples.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    let (exit, out, _) = run(&["--version"]);
    assert_eq!(
        (exit, out.as_str()),
        (0, concat!("flowgate ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}
