//! RESP as bytes, without a socket.

use crate::support::Bench;
use flowgate_server::resp_answers;
use proptest::prelude::*;

const LIMITS: &str = "{domain: api, descriptors: [{key: user, quota: 3/h, capacity: 100}]}";

fn answers(input: &[u8]) -> String {
    let bench = Bench::new(LIMITS);
    String::from_utf8(resp_answers(&bench.limits, [input])).unwrap()
}

/// As redis-cell answers: refused, limit, remaining, seconds until a retry or -1, seconds until full.
#[test]
fn cl_throttle_answers_as_redis_cell() {
    let asked = "CL.THROTTLE user 2 60 60\r\n".repeat(4) + "CL.THROTTLE user 2 60 60 0\r\n";
    let expected = [
        [0, 3, 2, -1, 1],
        [0, 3, 1, -1, 2],
        [0, 3, 0, -1, 3],
        [1, 3, 0, 1, 3],
        [0, 3, 0, -1, 3],
    ];
    let five = |five: &[i64; 5]| {
        let lines = five.map(|number| format!(":{number}\r\n"));
        format!("*5\r\n{}", lines.concat())
    };
    let expected: String = expected.iter().map(five).collect();
    assert_eq!(answers(asked.as_bytes()), expected);
    // More than ever fits: no time is of use.
    assert_eq!(
        answers(b"CL.THROTTLE user 2 60 60 9\r\n"),
        "*5\r\n:1\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"
    );
}

#[test]
fn a_wrong_command_is_an_error_and_the_connection_stays() {
    for (wrong, error) in [
        ("FOO", "-ERR unknown command 'FOO'"),
        (
            "CL.THROTTLE a 1 1",
            "-ERR wrong number of arguments for 'cl.throttle' command",
        ),
        (
            "CL.THROTTLE a -1 1 1",
            "-ERR max_burst is a whole number from 0",
        ),
        (
            "CL.THROTTLE a 1 0 1",
            "-ERR max_burst is a whole number from 0",
        ),
        (
            "CL.THROTTLE a 1 1 1 -1",
            "-ERR the quantity is a whole number from 0",
        ),
        ("CL.THROTTLE a 1 1 9223372036854775807", "-ERR "),
        ("CL.THROTTLE a 9223372036854775807 1 1", "-ERR "),
        (
            "FG.ASK",
            "-ERR wrong number of arguments for 'fg.ask' command",
        ),
        ("FG.ASK nobody x", "-ERR no limit has this name"),
        (
            "FG.ASK api.user x -1",
            "-ERR the quantity is a whole number from 0",
        ),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("HELLO 4", "-NOPROTO "),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured",
        ),
        ("CLIENT KILL", "-ERR unknown subcommand of CLIENT"),
    ] {
        let answers = answers(format!("{wrong}\r\nPING\r\n").as_bytes());
        assert!(answers.starts_with(error), "{wrong}: {answers}");
        assert!(answers.ends_with("\r\n+PONG\r\n"), "{wrong}: {answers}");
    }
}

#[test]
fn a_broken_stream_is_an_error_and_its_end() {
    for broken in [
        "*x\r\n",
        "*1\r\n:5\r\n",
        "*1\r\n$-1\r\n",
        "*65\r\n",
        "*1\r\n$70000\r\n",
        "*1\r\n$1\r\nabc",
        "*99999999999999999999",
    ] {
        let answers = answers(format!("PING\r\n{broken}\r\nPING\r\n").as_bytes());
        assert!(
            answers.starts_with("+PONG\r\n-ERR Protocol error: "),
            "{broken}: {answers}"
        );
        assert_eq!(answers.matches("PONG").count(), 1, "{broken}: {answers}");
    }
    let endless = answers(&[b'x'; 200_000]);
    assert!(
        endless.starts_with("-ERR Protocol error: too big"),
        "{endless}"
    );
}

#[test]
fn clients_can_say_what_they_say_when_they_connect() {
    let said = "CLIENT SETINFO LIB-NAME x\r\nCLIENT ID\r\nCLIENT GETNAME\r\nCOMMAND DOCS\r\nCOMMAND COUNT\r\nSELECT 0\r\n\
                ECHO hi\r\nRESET\r\nHELLO 3 SETNAME me\r\nCLIENT GETNAME\r\nQUIT\r\nPING\r\n";
    let answers = answers(said.as_bytes());
    assert!(
        answers.starts_with("+OK\r\n:1\r\n$-1\r\n*0\r\n:0\r\n+OK\r\n$2\r\nhi\r\n+RESET\r\n%7\r\n"),
        "{answers}"
    );
    assert!(
        answers.ends_with("*0\r\n_\r\n+OK\r\n"),
        "nothing after QUIT: {answers}"
    );
}

/// Words that a stream is made of, so that most of it is understood.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"*3\r\n$6\r\nFG.ASK\r\n$8\r\napi.user\r\n$1\r\na\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\n9\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"ECHO a\r\n",
        b"HELLO 3\r\n",
        b"RESET\n",
        b"\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*",
        b"$",
        b"1",
        b"-",
        b"\r",
        b"\n",
        b"\0",
        b"\xff",
        b" ",
        b"x",
    ];
    prop::collection::vec(prop::sample::select(words), 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn a_stream_is_answered_the_same_however_it_is_split(
        stream in stream(),
        cuts in prop::collection::vec(1..20usize, 1..40),
    ) {
        let [one, other] = [Bench::new(LIMITS), Bench::new(LIMITS)];
        let mut pieces = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, others) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = others;
        }
        let split = resp_answers(&one.limits, pieces);
        let in_one = resp_answers(&other.limits, [&stream[..]]);
        prop_assert_eq!(split, in_one);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bench = Bench::new(LIMITS);
        resp_answers(&bench.limits, [&bytes[..]]);
    }
}
