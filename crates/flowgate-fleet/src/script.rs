//! The scripts in a real store: every answer and every record is that of [`Kept`], and every line of them matters.

mod windows;

#[path = "../tests/it/support/engine.rs"]
#[expect(dead_code, reason = "other tests stop the store and start it again")]
pub(crate) mod engine;

use crate::bucket::{Bucket, Given};
use crate::call::{Call, Reply, Run, Seen};
use crate::kept::Kept;
use crate::record::Record;
use crate::redis::TAKE;
use crate::terms::{Kind, Terms};
use engine::Engine;
use fastrand::Rng;
use redis::{Connection, Pipeline, RedisResult};

/// The time at which a history begins: in 2023.
pub(crate) const BEGIN_US: u64 = 1_700_000_000_000_000;

const QUOTAS: [&str; 10] = [
    "1/s burst 1",
    "100/s burst 10",
    "1000/s burst 50",
    "1000000000/s burst 1000000",
    "3/min burst 10",
    "7/11s burst 3",
    "999983/day burst 1000",
    "1/day burst 3",
    "1/day burst 104248",
    "1000/s burst 7 units 3",
];

/// One call, and what becomes of it.
struct Decision {
    before: Option<Kept>,
    call: Call,
    now_us: u64,
    reply: Reply,
    /// The record afterwards.
    after: Option<Kept>,
    is_written: bool,
}

/// `len` calls to a bucket that is full at first, mostly near the values at which the answer changes.
fn history(random: &mut Rng, len: usize) -> Vec<Decision> {
    let mut terms = draw_terms(random);
    let mut now_us = BEGIN_US;
    let mut stored = None;
    // What one process has seen last, and another one earlier.
    let (mut seen, mut older) = (Seen::default(), Seen::default());
    let decide = |_| {
        if random.u32(0..40) == 0 {
            terms = draw_terms(random);
        }
        // A store that has lost its records, a clock that was set back, a long rest, and the moments around an answer's wait.
        if random.u32(0..60) == 0 {
            stored = None;
        }
        if random.u32(0..60) == 0 {
            stored = Some(Kept::Bucket(Bucket::reset(now_us)));
        }
        if random.u32(0..60) == 0 {
            let void_us = now_us - random.u64(0..1_000);
            let given = Given {
                from_us: void_us - random.u64(0..1_000),
                to_us: void_us,
                parts: random.u64(1..1 << 53),
            };
            stored = match stored {
                Some(Kept::Bucket(bucket)) => Some(Kept::Bucket(bucket.given_back(given))),
                other => other,
            };
        }
        let wait_us = terms.wait_us(seen.debt, random.u64(1..=terms.burst));
        now_us = match random.u32(0..20) {
            0 => now_us - random.u64(0..10_000_000),
            1 => now_us + random.u64(0..100_000_000_000),
            2..=5 => now_us + wait_us,
            6 | 7 => now_us + wait_us.saturating_sub(1),
            8..=10 => now_us + seen.debt / terms.count,
            11 => now_us + seen.debt.div_ceil(terms.count),
            12..=16 => now_us + random.u64(0..1 + terms.period / terms.count),
            _ => now_us,
        };
        // Not beyond what a double holds exactly.
        if now_us > 2 * BEGIN_US {
            now_us = BEGIN_US;
        }
        let call = Call {
            record: Record::of("script", b""),
            terms,
            seen: random.choice([seen, older, Seen::default()]).expect("one"),
            runs: (0..random.u32(0..4))
                .map(|_| draw_run(random, &terms))
                .collect(),
        };
        if random.u32(0..8) == 0 {
            older = seen;
        }
        let before = stored;
        let carried_out = Kept::take(before, now_us, &call);
        let (reply, changed) = carried_out.expect("the record of a bucket");
        seen = reply.seen;
        stored = changed.or(stored);
        Decision {
            before,
            call,
            now_us,
            reply,
            after: stored,
            is_written: changed.is_some(),
        }
    };
    (0..len).map(decide).collect()
}

pub(crate) fn draw_terms(random: &mut Rng) -> Terms {
    let quota = random.choice(QUOTAS).expect("there are some");
    Terms::of(quota.parse().expect("a quota")).expect("it is exact")
}

fn draw_run(random: &mut Rng, terms: &Terms) -> Run {
    let units = match random.u32(0..3) {
        0 => 1,
        1 => terms.burst,
        _ => random.u64(1..=terms.burst),
    };
    let times = random.u64(1..=2 + terms.burst / units);
    let least = match random.u32(0..3) {
        0 => 1,
        1 => times,
        _ => random.u64(1..=times),
    };
    Run {
        times,
        units,
        least,
    }
}

/// The script with the time as its last two arguments: seconds and microseconds.
pub(crate) fn at_a_given_time(script: &str) -> String {
    let time = "redis.call('TIME')";
    assert_eq!(script.matches(time).count(), 1);
    script.replace(time, "{table.remove(ARGV, #ARGV - 1), table.remove(ARGV)}")
}

/// For how many milliseconds a store keeps a record whose debt was lowered.
pub(crate) const RESET_LASTS_MS: i64 = 1_000_000_000;

/// Makes all calls of `history` to `key`, each after what it found there, and returns the first difference.
fn compare(
    connection: &mut Connection,
    hash: &str,
    key: &str,
    history: &[Decision],
) -> Result<(), String> {
    let mut calls = Pipeline::new();
    for Decision {
        before,
        call,
        now_us,
        ..
    } in history
    {
        match before {
            Some(kept) => calls.cmd("SET").arg(key).arg(kept.to_string()),
            None => calls.cmd("DEL").arg(key),
        };
        if before.is_some_and(|kept| is_marked(&kept)) {
            calls.arg("PX").arg(RESET_LASTS_MS);
        }
        calls.cmd("EVALSHA").arg(hash).arg(1).arg(key);
        calls.arg(&numbers(&call.terms));
        calls.arg(&[call.seen.debt, call.seen.since_us(call.terms.kind)]);
        for run in &call.runs {
            calls.arg(run.times).arg(run.units).arg(run.least);
        }
        calls.arg(&[now_us / 1_000_000, now_us % 1_000_000]);
        calls.cmd("GET").arg(key).cmd("PTTL").arg(key);
    }
    let seen: Vec<redis::Value> = calls.query(connection).map_err(|error| error.to_string())?;
    for (decision, seen) in history.iter().zip(seen.chunks(4)) {
        type Seen = (Vec<u64>, Option<String>, i64);
        let seen = redis::Value::Array(seen[1..].to_vec());
        let seen: Seen = redis::from_redis_value(seen).map_err(|error| error.to_string())?;
        let (answer, record, lasts_ms) = seen;
        let Decision {
            call,
            now_us,
            reply,
            after,
            is_written,
            ..
        } = decision;
        let since_us = match call.terms.kind {
            Kind::Bucket => reply.reset_us,
            _ => reply.seen.began_us,
        };
        let mut expected = vec![reply.seen.at_us, reply.seen.debt, reply.healed, since_us];
        expected.extend(&reply.taken);
        if after.is_some() && record.as_deref().and_then(Kept::parse) != *after {
            return Err(format!("{record:?} is read as something else"));
        }
        if (&answer, &record) != (&expected, &after.map(|after| after.to_string())) {
            return Err(format!(
                "{answer:?} and {record:?} instead of {expected:?} and {after:?} for {call:?}"
            ));
        }
        // What the script has not stored does not expire.
        if let Some(after) = after
            && *is_written != (lasts_ms >= 0)
            && !is_marked(after)
        {
            return Err(format!("it lasts for {lasts_ms} ms: {is_written}"));
        }
        if let Some(after) = after
            && lasts_ms >= 0
            && if is_marked(after) {
                lasts_ms < RESET_LASTS_MS - 10_000
            } else {
                let expected = match after {
                    Kept::Bucket(bucket) => bucket.paid_ms(),
                    Kept::Window(window) => window.lasts_ms(*now_us),
                };
                !expected.contains(&lasts_ms)
            }
        {
            return Err(format!("it lasts for {lasts_ms} ms: {after:?}"));
        }
    }
    Ok(())
}

/// The numbers of a call that state the quota.
fn numbers(terms: &Terms) -> [u64; 3] {
    match terms.kind {
        Kind::Bucket => [terms.count, terms.period, terms.burst],
        Kind::Window => [terms.burst, terms.period, 0],
        Kind::AlignedWindow => [terms.burst, terms.period, 1],
    }
}

/// Returns whether a record lasts on after a reset, or after units were given back.
fn is_marked(kept: &Kept) -> bool {
    match kept {
        Kept::Bucket(bucket) => bucket.void_us > 0,
        Kept::Window(window) => window.reset_us > 0,
    }
}

/// Draws calls, each of which finds what the one before it has left.
type History = fn(&mut Rng, usize) -> Vec<Decision>;

/// Compares the script with the function in `calls` random calls.
fn compare_all(
    engine: &Engine,
    script: &str,
    history: History,
    calls: u64,
    seed: u64,
) -> Result<(), String> {
    let mut connection = engine.connect().expect("a connection");
    let mut load = redis::cmd("SCRIPT");
    let hash: RedisResult<String> = load.arg("LOAD").arg(script).query(&mut connection);
    let hash = hash.map_err(|error| error.to_string())?;
    let mut random = Rng::with_seed(seed);
    for number in 0..calls / 200 {
        let key = format!("{seed}:{number}:{hash}");
        compare(&mut connection, &hash, &key, &history(&mut random, 200))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_c2_c3_the_script_answers_and_stores_as_the_function_does() {
    let script = at_a_given_time(TAKE);
    let compared = compare_all(&Engine::start(), &script, history, calls(), 1);
    assert_eq!(compared, Ok(()));
}

/// How many calls are compared.
fn calls() -> u64 {
    let calls = std::env::var("FLOWGATE_OPS").ok();
    calls.map_or(100_000, |calls| calls.parse().expect("a number"))
}

/// Returns the mistakes in a script that the comparison does not notice.
fn missed<'a>(source: &str, history: History, mistakes: &[(&'a str, &str)]) -> Vec<&'a str> {
    let engine = Engine::start();
    let script = at_a_given_time(source);
    let is_missed = |&(line, mistake): &(&str, &str)| {
        assert_eq!(script.matches(line).count(), 1, "{line:?}");
        let broken = script.replace(line, mistake);
        compare_all(&engine, &broken, history, 20_000, 1).is_ok()
    };
    let missed = mistakes.iter().filter(|mistake| is_missed(mistake));
    missed.map(|(line, _)| *line).collect()
}

/// A part of the script, and a mistake in its place that the comparison has to notice.
const MISTAKES: [(&str, &str); 43] = [
    ("* 1000000 +", "* 1000000 -"),
    (
        "tonumber(ARGV[1]), tonumber(ARGV[2])",
        "tonumber(ARGV[2]), tonumber(ARGV[1])",
    ),
    ("= burst * period, 0,", "= burst * period, 1,"),
    ("= burst * period,", "= burst * period - 1,"),
    (
        "local function left(owed, at, rate)",
        "local function left(owed, rate, at)",
    ),
    ("if at > now then return owed end", ""),
    (
        "now - at >= owed / rate then",
        "now - at >= owed / rate - 1 then",
    ),
    (
        "return owed - (now - at) * rate",
        "return owed - (now - at) * count",
    ),
    (
        "local record = redis.call('GET', KEYS[1])",
        "local record = false",
    ),
    ("if record then", "if record and #ARGV > 6 then"),
    (
        "old_period, void, reset, given =",
        "old_period, reset, void, given =",
    ),
    (
        "'^(%d+):(%d+):(%d+):(%d+):?(%d*)",
        "'^(%d+):(%d+):%d*(%d):(%d+):?(%d*)",
    ),
    (
        "at + 0, old_count + 0, old_period + 0",
        "at + 1, old_count + 0, old_period + 0",
    ),
    ("left(was + 0, at, old_count)", "left(was + 0, at, count)"),
    (
        "changed = at > now or old_count ~= count or",
        "changed = old_count ~= count or",
    ),
    ("or old_count ~= count or", "or"),
    ("or old_period ~= period", ""),
    (
        "  if old_period ~= period then",
        "  if old_period < period then",
    ),
    (
        "math.floor(debt / old_period)",
        "math.ceil(debt / old_period)",
    ),
    (
        "- units * old_period) / old_period * period",
        "- units * old_period) / period * old_period",
    ),
    ("rest + rest / 2 ^ 50", "rest + 1"),
    (
        "units * period + math.ceil(",
        "units * period + math.floor(",
    ),
    (", 2 ^ 53 - 1)", ", 2 ^ 60)"),
    (
        "tonumber(ARGV[4]), tonumber(ARGV[5]), count)",
        "tonumber(ARGV[4]), now, count)",
    ),
    (
        "<= tonumber(void) then seen = 0",
        "< tonumber(void) then seen = 0",
    ),
    (
        "<= tonumber(void) then seen = 0",
        "<= tonumber(void) + 1000 then seen = 0",
    ),
    ("tonumber(reset) or 0}", "tonumber(void) or 0}"),
    ("math.max(seen - debt, 0)", "seen - debt"),
    ("if seen > debt then", "if seen > debt + 1000 then"),
    (
        "debt, changed = seen, true",
        "debt, changed = seen, changed",
    ),
    (
        "for run = 6, #ARGV, 3 do",
        "for run = 6, math.min(#ARGV, 11), 3 do",
    ),
    (
        "tonumber(ARGV[run]), ARGV[run + 1] * period",
        "tonumber(ARGV[run + 1]), ARGV[run] * period",
    ),
    ("tonumber(ARGV[run + 2])\n", "tonumber(ARGV[8])\n"),
    ("if taken < least then", "if taken <= least then"),
    (
        "math.floor((full - debt) / cost)",
        "math.ceil((full - debt) / cost)",
    ),
    ("if taken > 0 then", "if taken > 1 then"),
    (
        "debt, changed = debt + taken * cost, true",
        "debt, changed = debt + taken * cost, changed",
    ),
    ("if changed and debt > 0 then", "if debt > 0 then"),
    ("debt, now, count, period)", "debt, now, period, count)"),
    ("+ 10000\n", "+ 0\n"),
    (
        "text .. ':' .. void .. ':' .. reset",
        "text .. ':' .. reset .. ':' .. void",
    ),
    (".. reset .. given", ".. reset"),
    (
        "math.max(lasts, redis.call('PTTL', KEYS[1]))",
        "math.min(lasts, redis.call('PTTL', KEYS[1]))",
    ),
];

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_mistake_in_any_line_of_the_script_is_noticed() {
    let missed = missed(TAKE, history, &MISTAKES);
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
