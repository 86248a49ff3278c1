//! The script of windows.

use super::{BEGIN_US, Decision, calls, compare_all, draw_run, missed};
use crate::bucket::Bucket;
use crate::call::{Call, Seen};
use crate::kept::Kept;
use crate::record::Record;
use crate::script::engine::Engine;
use crate::terms::{Kind, Terms};
use fastrand::Rng;

const SCRIPT: &str = include_str!("../window.lua");

const QUOTAS: [&str; 10] = [
    "1/s",
    "10/s",
    "10/2s",
    "12/s",
    "50/1500us",
    "1000000/s",
    "3/min",
    "7/11s",
    "1000/day",
    "1000/s units 3",
];

/// `len` calls to a limit without a window at first, mostly near the values at which the answer changes.
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
        // A store that has lost its records, a reset, a clock that was set back, a long rest, and the moments around the end of a window.
        if random.u32(0..60) == 0 {
            stored = None;
        }
        if random.u32(0..60) == 0 {
            stored = Some(Kept::Bucket(Bucket::reset(now_us)));
        }
        let end_us = terms.kind.end_us(seen.began_us, terms.period);
        let wait_us = end_us.saturating_sub(now_us);
        now_us = match random.u32(0..20) {
            0 => now_us - random.u64(0..10_000_000),
            1 => now_us - random.u64(0..3 * terms.period),
            2 => now_us + random.u64(0..100_000_000_000),
            3 | 4 => now_us + wait_us,
            5 | 6 => now_us + wait_us.saturating_sub(1),
            7 => now_us + wait_us + terms.period,
            8..=10 => now_us + random.u64(0..1 + terms.period / 4),
            11 => now_us.saturating_sub(1),
            _ => now_us,
        };
        // Not beyond what a double holds exactly.
        if !(BEGIN_US / 2..2 * BEGIN_US).contains(&now_us) {
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
        let (reply, changed) = carried_out.expect("the record of a window");
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

fn draw_terms(random: &mut Rng) -> Terms {
    let quota = random.choice(QUOTAS).expect("there are some");
    let kind = random.choice([Kind::Window, Kind::AlignedWindow]);
    let quota = quota.parse().expect("a quota");
    Terms::of_window(quota, kind.expect("two")).expect("it is exact")
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_c2_c3_the_script_of_windows_answers_and_stores_as_the_function_does() {
    let script = super::at_a_given_time(SCRIPT);
    let compared = compare_all(&Engine::start(), &script, history, calls(), 1);
    assert_eq!(compared, Ok(()));
}

/// A part of the script, and a mistake in its place that the comparison has to notice.
const MISTAKES: [(&str, &str); 44] = [
    ("* 1000000 +", "* 1000000 -"),
    (
        "tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]",
        "tonumber(ARGV[2]), tonumber(ARGV[1]), ARGV[3]",
    ),
    ("ARGV[3] == '1'", "ARGV[3] ~= '1'"),
    (
        "local used, began, changed, reset = 0, 0, false",
        "local used, began, changed, reset = 1, 0, false",
    ),
    ("aligned and 'a' or 'w'", "aligned and 'w' or 'a'"),
    ("if aligned then at = at - math.fmod(at, period) end", ""),
    (
        "at = at - math.fmod(at, period)",
        "at = at + math.fmod(at, period)",
    ),
    ("return at + period", "return at + period - 1"),
    ("math.min(at, now + period)", "at"),
    ("math.min(at, now + period)", "math.min(at, now)"),
    (
        "local record = redis.call('GET', KEYS[1])",
        "local record = false",
    ),
    (
        "'^([wa]):(%d+):(%d+):(%d+):(%d+):?(%d*)$'",
        "'^([wa]):(%d+):(%d+):(%d+):%d*(%d):?(%d*)$'",
    ),
    (
        "was_kind, was, at, was_limit, was_period, reset = string",
        "was_kind, was, at, was_limit, was_period = string",
    ),
    ("began = dated(at + 0)", "began = at + 0"),
    (
        "if now < ending(began) then used",
        "if now <= ending(began) then used",
    ),
    ("then used = was + 0 end", "then used = was + 1 end"),
    ("changed = began < at + 0 or was_kind", "changed = was_kind"),
    ("or was_kind ~= kind or", "or"),
    ("or was_limit + 0 ~= limit or", "or"),
    ("or was_period + 0 ~= period", ""),
    ("'^0:%d+:1:1:%d+:(%d+)$'", "'^0:(%d+):1:1:%d+$x'"),
    ("dated(tonumber(ARGV[5]))\n", "tonumber(ARGV[5])\n"),
    ("if now >= ending(seen_began) or", "if"),
    ("now >= ending(seen_began)", "now > ending(seen_began)"),
    (
        "<= tonumber(reset) then seen = 0",
        "< tonumber(reset) then seen = 0",
    ),
    (
        "tonumber(ARGV[5]) <= tonumber(reset)",
        "tonumber(ARGV[5]) <= tonumber(reset) + 1000",
    ),
    ("math.max(seen - used, 0)", "seen - used"),
    ("if seen > used then", "if seen > used + 1 then"),
    (
        "if used == 0 then began = seen_began end",
        "began = seen_began",
    ),
    (
        "used, changed = seen, true",
        "used, changed = seen, changed",
    ),
    (
        "for run = 6, #ARGV, 3 do",
        "for run = 6, math.min(#ARGV, 11), 3 do",
    ),
    (
        "tonumber(ARGV[run]), tonumber(ARGV[run + 1])",
        "tonumber(ARGV[run + 1]), tonumber(ARGV[run])",
    ),
    ("tonumber(ARGV[run + 2])\n", "tonumber(ARGV[8])\n"),
    (
        "math.floor((limit - used) / units)",
        "math.ceil((limit - used) / units)",
    ),
    ("if taken < least then", "if taken <= least then"),
    ("if taken > 0 then", "if taken > 1 then"),
    ("if used == 0 then began = now end", "began = now"),
    (
        "used, changed = used + taken * units, true",
        "used, changed = used + taken * units, changed",
    ),
    ("if used == 0 then began = 0 end", ""),
    ("if changed and used > 0 then", "if used > 0 then"),
    (
        "kind, used, began, limit, period)",
        "kind, used, began, period, limit)",
    ),
    ("/ 1000) + 10000", "/ 1000) + 0"),
    ("text .. ':' .. reset", "text"),
    (
        "math.max(lasts, redis.call('PTTL', KEYS[1]))",
        "math.min(lasts, redis.call('PTTL', KEYS[1]))",
    ),
];

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_mistake_in_any_line_of_the_script_of_windows_is_noticed() {
    let missed = missed(SCRIPT, history, &MISTAKES);
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
