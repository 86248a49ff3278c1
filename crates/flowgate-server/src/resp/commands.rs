//! What each command answers.

use super::codec::{Replies, integer};
use crate::limits::DecideLimits;
use crate::throttle::LastQuota;
use crate::token::Token;
use crate::trace::{Operation, Traced, Tracer};
use std::time::Duration;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    is_trusted: bool,
    id: i64,
}

/// What follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Continue,
    Close,
    /// The answer of [`throttle`].
    Throttle,
    /// The answer of [`ask`], which may take time.
    Ask,
}

/// The time that stands for "never": it fits into any reply.
const MOST: i64 = i64::MAX;

impl Session {
    pub(super) fn new(id: u64, password: Option<&Token>) -> Self {
        Self {
            is_trusted: password.is_none(),
            id: id as i64,
        }
    }

    /// Answers one command, or tells who does.
    pub(super) fn answer(
        &mut self,
        words: &[&[u8]],
        limits: &DecideLimits,
        password: Option<&Token>,
        replies: &mut Replies,
    ) -> Then {
        let Some((name, arguments)) = words.split_first() else {
            return Then::Continue;
        };
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        match arguments {
            // The two that are asked most often.
            _ if self.is_trusted && is("CL.THROTTLE") => return Then::Throttle,
            _ if self.is_trusted && is("FG.ASK") => return Then::Ask,
            _ if is("QUIT") => {
                replies.simple("OK");
                return Then::Close;
            }
            _ if is("AUTH") => self.auth(arguments, password, replies),
            _ if is("HELLO") => self.hello(arguments, password, replies),
            [] if is("RESET") => {
                self.is_trusted = password.is_none();
                replies.is_resp3 = false;
                replies.simple("RESET");
            }
            _ if !self.is_trusted => replies.error("NOAUTH Authentication required."),
            [] if is("PING") => replies.simple("PONG"),
            [text] if is("PING") || is("ECHO") => replies.bulk(text),
            [database] if is("SELECT") => match integer(database) {
                Some(0) => replies.simple("OK"),
                _ => replies.error("ERR DB index is out of range"),
            },
            _ if is("CLIENT") => self.client(arguments, replies),
            // Clients ask what there is, and use what they know.
            [] if is("COMMAND") => replies.list(0),
            [word, ..] if is("COMMAND") => match word.eq_ignore_ascii_case(b"COUNT") {
                true => replies.integer(0),
                false => replies.list(0),
            },
            _ if is("INFO") => replies.bulk(info(limits).as_bytes()),
            _ => unknown(name, replies),
        }
        Then::Continue
    }

    /// `AUTH [user] password`
    fn auth(&mut self, arguments: &[&[u8]], password: Option<&Token>, replies: &mut Replies) {
        match (arguments, password) {
            ([_] | [_, _], None) => replies.error(
                "ERR AUTH <password> called without any password configured. Are you sure your configuration is correct?",
            ),
            ([given] | [b"default", given], Some(password)) if password.is(given) => {
                self.is_trusted = true;
                replies.simple("OK");
            }
            ([_] | [_, _], Some(_)) => {
                replies.error("WRONGPASS invalid username-password pair or user is disabled.");
            }
            _ => replies.error(&wrong_number("auth")),
        }
    }

    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`
    fn hello(&mut self, arguments: &[&[u8]], password: Option<&Token>, replies: &mut Replies) {
        let mut is_resp3 = replies.is_resp3;
        let mut rest = arguments;
        if let [version, others @ ..] = rest {
            is_resp3 = match integer(version) {
                Some(2) => false,
                Some(3) => true,
                _ => return replies.error("NOPROTO unsupported protocol version"),
            };
            rest = others;
        }
        while let [word, others @ ..] = rest {
            rest = match others {
                [user, given, others @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                    let is_it = |password: &Token| *user == b"default" && password.is(given);
                    if !password.is_some_and(is_it) {
                        return replies.error(
                            "WRONGPASS invalid username-password pair or user is disabled.",
                        );
                    }
                    self.is_trusted = true;
                    others
                }
                [_, others @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => others,
                _ => return replies.error("ERR Syntax error in HELLO"),
            };
        }
        if !self.is_trusted {
            return replies.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        replies.is_resp3 = is_resp3;
        replies.map(7);
        for (key, value) in [
            ("server", "flowgate"),
            ("version", env!("CARGO_PKG_VERSION")),
        ] {
            replies.bulk(key.as_bytes());
            replies.bulk(value.as_bytes());
        }
        for (key, value) in [("proto", if is_resp3 { 3 } else { 2 }), ("id", self.id)] {
            replies.bulk(key.as_bytes());
            replies.integer(value);
        }
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            replies.bulk(key.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"modules");
        replies.list(0);
    }

    /// What client libraries send when they connect.
    fn client(&self, arguments: &[&[u8]], replies: &mut Replies) {
        let Some((word, _)) = arguments.split_first() else {
            return replies.error(&wrong_number("client"));
        };
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        match () {
            () if is("ID") => replies.integer(self.id),
            () if is("GETNAME") => replies.null(),
            () if is("SETNAME") || is("SETINFO") => replies.simple("OK"),
            () => replies.error("ERR unknown subcommand of CLIENT"),
        }
    }
}

/// Begins the span of a command. A client of Redis names no parent.
pub(super) fn trace(tracer: Option<&Tracer>, command: &'static str) -> Traced {
    match tracer {
        Some(tracer) => tracer.begin(Operation::Resp(command), None),
        None => Traced::not_sampled(),
    }
}

/// Answers `CL.THROTTLE key max_burst count period [n]`.
pub(super) fn throttle(
    words: &[&[u8]],
    limits: &DecideLimits,
    last: &mut LastQuota,
    replies: &mut Replies,
    traced: &mut Traced,
) {
    if limits.has_store() {
        return replies.error(
            "ERR CL.THROTTLE is in the memory of one server; use FG.ASK, or run without --store",
        );
    }
    let (key, numbers) = match words {
        [_, key, numbers @ ..] if (3..=4).contains(&numbers.len()) => (key, numbers),
        _ => return replies.error(&wrong_number("cl.throttle")),
    };
    let number = |place: usize, least: i64| {
        let text: &&[u8] = numbers.get(place)?;
        integer(text)
            .filter(|number| *number >= least)
            .map(i64::unsigned_abs)
    };
    let (Some(max_burst), Some(count), Some(period)) = (number(0, 0), number(1, 1), number(2, 1))
    else {
        return replies.error(
            "ERR max_burst is a whole number from 0, count and period are whole numbers from 1",
        );
    };
    let n = match numbers.len() {
        3 => Some(1),
        _ => number(3, 0),
    };
    let Some(n) = n else {
        return replies.error("ERR the quantity is a whole number from 0");
    };
    let named = (max_burst, count, Duration::from_secs(period));
    match limits.throttle(key, named, last, n) {
        Err(error) => replies.error(&format!("ERR {error}")),
        Ok(told) => {
            traced.throttled(told.is_limited);
            let retry = told.retry_after.map_or(-1, seconds);
            let reset = seconds(told.reset_after);
            reply(
                replies,
                told.is_limited,
                [told.limit, told.remaining],
                [retry, reset],
            );
        }
    }
}

/// Answers `FG.ASK limit key [n]`.
pub(super) async fn ask(
    words: &[&[u8]],
    limits: &DecideLimits,
    replies: &mut Replies,
    traced: &mut Traced,
) {
    let (name, key, n) = match *words {
        [_, name, key] => (name, key, Some(1)),
        [_, name, key, n] => (name, key, integer(n).and_then(|n| u64::try_from(n).ok())),
        _ => return replies.error(&wrong_number("fg.ask")),
    };
    let Some(n) = n else {
        return replies.error("ERR the quantity is a whole number from 0");
    };
    let Ok(name) = std::str::from_utf8(name) else {
        return replies.error("ERR no limit has this name");
    };
    let asked = limits.ask(name, key, n).await;
    traced.asked(&asked);
    match asked {
        Err(undecided) => replies.error(&format!("ERR {undecided}")),
        Ok(status) => {
            let retry = status.retry_after.map_or(-1, milliseconds);
            let reset = milliseconds(status.reset_after);
            reply(
                replies,
                status.is_over,
                [status.limit, status.remaining],
                [retry, reset],
            );
        }
    }
}

/// The five integers of redis-cell.
fn reply(replies: &mut Replies, is_limited: bool, amounts: [u64; 2], times: [i64; 2]) {
    replies.list(5);
    replies.integer(is_limited.into());
    for amount in amounts {
        replies.integer(i64::try_from(amount).unwrap_or(MOST));
    }
    for time in times {
        replies.integer(time);
    }
}

/// Seconds, rounded up.
fn seconds(time: Duration) -> i64 {
    let seconds = time
        .as_secs()
        .saturating_add((time.subsec_nanos() > 0).into());
    i64::try_from(seconds).unwrap_or(MOST)
}

/// Milliseconds, rounded up.
fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(MOST)
}

fn wrong_number(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn unknown(name: &[u8], replies: &mut Replies) {
    let shown: String = String::from_utf8_lossy(name).chars().take(64).collect();
    replies.error(&format!(
        "ERR unknown command '{shown}', or wrong number of arguments for it"
    ));
}

fn info(limits: &DecideLimits) -> String {
    format!(
        "# Server\r\nflowgate_version:{}\r\nredis_mode:standalone\r\nlimits:{}\r\nkey_memory_bytes:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        limits.len(),
        limits.bytes(),
    )
}
