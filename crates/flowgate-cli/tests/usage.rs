//! Arguments that make no sense: one line that says what to type, and the right exit code.

mod support;

use support::run;

#[test]
fn bad_arguments_are_answered_in_one_line() {
    let table: &[(i32, &[&str], &str)] = &[
        (2, &["load"], "type --rate 1000/s"),
        (2, &["load", "--rate"], "--rate <RATE>"),
        (2, &["load", "-q", "0"], "1 or more"),
        (2, &["load", "-q", "0/s"], "1 or more"),
        (2, &["load", "-q", "1e99"], "1e99"),
        (2, &["load", "-q", "NaN"], "NaN"),
        (2, &["load", "-q", "inf"], "inf"),
        (2, &["load", "-q", "-5"], "-5"),
        (2, &["load", "-q", ""], "type 1000/s"),
        (2, &["load", "-q", "5/fortnight"], "fortnight"),
        (2, &["load", "-q", "100/s burst 20"], "type 100/s"),
        (2, &["load", "-q", "10MiB/s"], "bytes"),
        (2, &["load", "-q", "10", "-z", "5"], "type 5s"),
        (2, &["load", "-q", "10", "-z", "soon"], "type 5s"),
        (2, &["load", "-q", "10", "-z", "0s"], "longer than 0"),
        (2, &["load", "-q", "10", "-z", "-1s"], "type 5s"),
        (2, &["load", "-q", "10", "-z", "1000years"], "584 years"),
        (2, &["load", "-q", "1/y", "-n", "1000"], "584 years"),
        (2, &["load", "-q", "10", "-n", "0"], "at least 1"),
        (2, &["load", "-q", "10", "-n", "many"], "at least 1"),
        (2, &["load", "-q", "10", "-c", "0"], "from 1 to 20000"),
        (2, &["load", "-q", "10", "-c", "20001"], "from 1 to 20000"),
        (2, &["load", "-q", "10", "--timeout", "10"], "type 10s"),
        (2, &["load", "-q", "10", "-m", "G T"], "type GET"),
        (
            2,
            &["load", "-q", "10", "-H", "colonless"],
            "type -H 'Name: value'",
        ),
        (
            2,
            &["load", "-q", "10", "localhost:80"],
            "type http://localhost:80",
        ),
        (2, &["load", "-q", "10", "http://"], "http://127.0.0.1"),
        (2, &["load", "-q", "10", "ftp://x/"], "begins with http://"),
        (
            2,
            &["load", "-q", "10", "http://h/", "http://i/"],
            "unexpected argument",
        ),
        (2, &["load", "--rat", "10"], "'--rate'"),
        (2, &["laod"], "'load'"),
        (
            1,
            &["load", "-q", "10", "https://127.0.0.1/"],
            "TLS, which is not supported yet",
        ),
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
    for word in [
        "Exit codes",
        "--rate",
        "--duration",
        "--connections",
        "HELD",
        "limited",
    ] {
        assert!(out.contains(word), "{word} is not in:\n{out}");
    }
    let (exit, out, _) = run(&["--version"]);
    assert_eq!(
        (exit, out.as_str()),
        (0, concat!("flowgate ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}
