//! The scripts in a real store: every answer and every record is that of the functions, and every line of them matters.

use crate::bucket::{Bucket, Given};
use crate::call::{Call, GiveBack, Reply, Request, Run, Seen};
use crate::record::Record;
use crate::redis::SOURCES;
use crate::script::engine::Engine;
use crate::script::{BEGIN_US, RESET_LASTS_MS, at_a_given_time, draw_terms};
use crate::terms::Terms;
use fastrand::Rng;
use redis::{Connection, Pipeline, RedisResult, Value};
use std::collections::HashMap;

/// A request, what it finds, and what becomes of it.
struct Decision {
    request: Request,
    now_us: u64,
    /// The records that it is about, before and afterwards.
    records: Vec<(Record, Option<Bucket>, Option<Bucket>)>,
    replies: Vec<Reply>,
}

/// Three records, and what a process has seen of them.
struct World {
    random: Rng,
    /// In some worlds, requests come one upon the other.
    is_busy: bool,
    now_us: u64,
    records: [Record; 3],
    stored: HashMap<Record, Bucket>,
    terms: HashMap<Record, Terms>,
    seen: HashMap<Record, Seen>,
    /// What may be given back.
    taken: Vec<GiveBack>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let records =
            [0_u64, 1, 2].map(|key| Record::of("all", format!("{seed}:{key}").as_bytes()));
        let terms = records.map(|record| (record, draw_terms(&mut random)));
        Self {
            is_busy: seed.is_multiple_of(2),
            random,
            now_us: BEGIN_US,
            records,
            stored: HashMap::new(),
            terms: terms.into(),
            seen: HashMap::new(),
            taken: Vec::new(),
        }
    }

    /// Lets something happen between two requests: time passes, or a fault.
    fn disturb(&mut self) {
        let record = self.random.choice(self.records).expect("three");
        if self.random.u32(0..if self.is_busy { 6 } else { 100 }) == 0 {
            self.give_back(record);
        }
        let random = &mut self.random;
        match random.u32(0..100) {
            _ if self.is_busy => {}
            0 => _ = self.stored.remove(&record),
            1 => _ = self.stored.insert(record, Bucket::reset(self.now_us)),
            2 => _ = self.terms.insert(record, draw_terms(random)),
            3 => self.now_us -= random.u64(0..10_000_000),
            _ => {}
        }
        let terms = self.terms[&record];
        let seen = self.seen.get(&record).copied().unwrap_or_default();
        let units = random.u64(1..=terms.burst);
        self.now_us += match random.u32(0..20) {
            _ if self.is_busy => random.u64(0..2),
            0 => random.u64(0..100_000_000_000),
            1..=3 => terms.wait_us(seen.debt, units),
            4 => terms.wait_us(seen.debt, units).saturating_sub(1),
            5 | 6 => seen.debt / terms.count,
            7 => seen.debt.div_ceil(terms.count),
            8..=13 => random.u64(0..1 + terms.period / terms.count),
            _ => 0,
        };
        if let Some(back) = self.taken.first()
            && self.random.u32(0..if self.is_busy { 200 } else { 50 }) == 0
        {
            // As late as it may be given back, or a microsecond later.
            self.now_us = back.taken.at_us + 600_000_000 + self.random.u64(0..2);
        }
        // Not beyond what a double holds exactly.
        if self.now_us > 2 * BEGIN_US {
            self.now_us = BEGIN_US;
        }
    }

    /// Adds the mark of units that were given back.
    fn give_back(&mut self, record: Record) {
        let to_us = self.now_us - self.random.u64(0..1_000);
        let given = Given {
            from_us: to_us - self.random.u64(0..1_000),
            to_us,
            parts: self.random.u64(1..1 << 53),
        };
        if let Some(bucket) = self.stored.get_mut(&record) {
            *bucket = bucket.given_back(given);
        }
    }

    fn call(&mut self, record: Record, all: bool) -> Call {
        let terms = self.terms[&record];
        let units = match self.random.u32(0..4) {
            0 => terms.burst,
            1 => self.random.u64(1..=terms.burst),
            2 => 1,
            _ => self.random.u64(1..=1 + terms.burst / 20).min(terms.burst),
        };
        let seen = self.seen.get(&record).filter(|_| self.random.u32(0..4) > 0);
        Call {
            record,
            terms,
            seen: seen.copied().unwrap_or_default(),
            runs: if all || self.random.bool() {
                vec![Run::of(1, units)]
            } else {
                Vec::new()
            },
        }
    }

    fn request(&mut self) -> Request {
        match self.random.u32(0..10) {
            0 => {
                let record = self.random.choice(self.records).expect("three");
                Request::Take(self.call(record, false))
            }
            1..=4 if !self.taken.is_empty() => {
                let at = self.random.usize(0..self.taken.len());
                Request::GiveBack(self.taken.remove(at))
            }
            _ => {
                let mut records = self.records;
                self.random.shuffle(&mut records);
                let some = self.random.usize(1..=records.len());
                let calls = records[..some]
                    .iter()
                    .map(|&record| self.call(record, true));
                Request::TakeAll(calls.collect())
            }
        }
    }

    fn decide(&mut self) -> Decision {
        self.disturb();
        let request = self.request();
        let stored = |record: &Record| self.stored.get(record).copied();
        let (records, replies) = match &request {
            Request::Take(call) => {
                let taken = Bucket::take(stored(&call.record), self.now_us, call);
                (vec![call.record], vec![taken])
            }
            Request::TakeAll(calls) => {
                let records: Vec<Record> = calls.iter().map(|call| call.record).collect();
                let found: Vec<_> = records.iter().map(stored).collect();
                (records, Bucket::take_all(&found, self.now_us, calls))
            }
            Request::GiveBack(back) => {
                let given = Bucket::give_back(stored(&back.record), self.now_us, back);
                (vec![back.record], vec![given])
            }
        };
        let mut decision = Decision {
            request,
            now_us: self.now_us,
            records: Vec::new(),
            replies: Vec::new(),
        };
        for (record, (reply, after)) in records.into_iter().zip(replies) {
            let before = self.stored.get(&record).copied();
            let after = after.or(before);
            self.stored.extend(after.map(|after| (record, after)));
            self.seen.insert(record, reply.seen);
            decision.records.push((record, before, after));
            decision.replies.push(reply);
        }
        if let Request::TakeAll(calls) = &decision.request
            && decision.replies[0].taken == [1]
        {
            let back = |(call, reply): (&Call, &Reply)| GiveBack {
                record: call.record,
                terms: call.terms,
                units: call.runs[0].units,
                taken: reply.seen,
            };
            let backs = calls.iter().zip(&decision.replies).map(back);
            self.taken.extend(backs);
            let few = self.taken.len().min(9);
            self.taken.drain(..self.taken.len() - few);
        }
        decision
    }
}

/// Makes the request in the store, and returns the difference to the functions.
fn compare(
    connection: &mut Connection,
    hashes: &[String; 4],
    decisions: &[Decision],
) -> Result<(), String> {
    let mut calls = Pipeline::new();
    for Decision {
        request,
        now_us,
        records,
        ..
    } in decisions
    {
        for (record, before, _) in records {
            match before {
                Some(bucket) => calls
                    .cmd("SET")
                    .arg(record.to_string())
                    .arg(bucket.to_string()),
                None => calls.cmd("DEL").arg(record.to_string()),
            };
            if before.is_some_and(|bucket| bucket.void_us > 0) {
                calls.arg("PX").arg(RESET_LASTS_MS);
            }
            calls.ignore();
        }
        calls.add_command(request.command(hashes.each_ref().map(String::as_str)));
        calls.arg(&[now_us / 1_000_000, now_us % 1_000_000]);
        for (record, ..) in records {
            calls.cmd("GET").arg(record.to_string());
            calls.cmd("PTTL").arg(record.to_string());
        }
    }
    let seen: Vec<Value> = calls.query(connection).map_err(|error| error.to_string())?;
    let mut seen = seen.into_iter();
    for decision in decisions {
        let mut next = || seen.next().ok_or("too few answers");
        let numbers: Vec<u64> =
            redis::from_redis_value(next()?).map_err(|error| error.to_string())?;
        let replies = decision.request.read(&numbers);
        if replies.as_ref() != Some(&decision.replies) {
            return Err(format!(
                "{replies:?} instead of {:?} for {:?}",
                decision.replies, decision.request
            ));
        }
        for ((_, before, after), reply) in decision.records.iter().zip(&decision.replies) {
            let text: Option<String> =
                redis::from_redis_value(next()?).map_err(|error| error.to_string())?;
            let lasts_ms: i64 =
                redis::from_redis_value(next()?).map_err(|error| error.to_string())?;
            if text != after.map(|after| after.to_string()) {
                let request = &decision.request;
                return Err(format!("{text:?} instead of {after:?} for {request:?}"));
            }
            let Some(after) = after.filter(|_| before != after && lasts_ms >= 0) else {
                continue;
            };
            let was_void = before.is_some_and(|before| before.void_us > 0);
            let is_right = match decision.request {
                _ if was_void => lasts_ms >= RESET_LASTS_MS - 10_000,
                // As long as a process may remember the debt before.
                Request::GiveBack(_) => after.before(reply.taken[0]).paid_ms().contains(&lasts_ms),
                _ => after.paid_ms().contains(&lasts_ms),
            };
            if !is_right {
                return Err(format!("it lasts for {lasts_ms} ms: {after:?}"));
            }
        }
    }
    Ok(())
}

/// Compares the scripts with the functions in `calls` random requests.
fn compare_all(engine: &Engine, scripts: &[String; 4], calls: u64) -> Result<(), String> {
    let mut connection = engine.connect().expect("a connection");
    let mut hashes = [const { String::new() }; 4];
    for (hash, script) in hashes.iter_mut().zip(scripts) {
        let mut load = redis::cmd("SCRIPT");
        let loaded: RedisResult<String> = load.arg("LOAD").arg(script).query(&mut connection);
        *hash = loaded.map_err(|error| error.to_string())?;
    }
    for seed in 0..calls / 200 {
        let mut world = World::new(seed);
        let decisions: Vec<Decision> = (0..200).map(|_| world.decide()).collect();
        compare(&mut connection, &hashes, &decisions)?;
    }
    Ok(())
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_c2_c3_the_scripts_of_several_limits_answer_and_store_as_the_functions_do() {
    let calls = std::env::var("FLOWGATE_OPS").ok();
    let calls = calls.map_or(100_000, |calls| calls.parse().expect("a number"));
    let scripts = SOURCES.map(at_a_given_time);
    assert_eq!(compare_all(&Engine::start(), &scripts, calls), Ok(()));
}

/// A part of a script, and a mistake in its place that the comparison has to notice.
const MISTAKES: [(&str, &str); 68] = [
    // bucket.lua
    (
        "time[1] * 1000000 + time[2]\n-- What",
        "time[1] * 1000000\n-- What",
    ),
    (
        "  if at > now then return owed end\n  if now - at >= owed / rate then return 0 end\n  return owed - (now - at) * rate\nend\n-- Returns a",
        "  if now - at >= owed / rate then return 0 end\n  return owed - (now - at) * rate\nend\n-- Returns a",
    ),
    (
        "then return 0 end\n  return owed - (now - at) * rate\nend\n-- Returns a",
        "then return 1 end\n  return owed - (now - at) * rate\nend\n-- Returns a",
    ),
    (
        "  return owed - (now - at) * rate\nend\n-- Returns a",
        "  return owed - (now - at)\nend\n-- Returns a",
    ),
    ("debt = 0, void = 0,", "debt = 1, void = 0,"),
    ("void = 0, reset", "void = 1, reset"),
    ("reset = 0, given", "reset = 1, given"),
    ("if not record then return bucket end", ""),
    ("(%d+)(.*)$'", "(%d)(.*)$'"),
    ("if marks ~= '' then", "if false then"),
    (
        "local void, reset, given = string",
        "local reset, void, given = string",
    ),
    ("void + 0, reset + 0, given\n", "void + 0, reset + 0, ''\n"),
    (
        "at + 0, old_count + 0, old_period + 0\n  bucket",
        "at + 1, old_count + 0, old_period + 0\n  bucket",
    ),
    (
        "left(was + 0, at, old_count)\n  bucket",
        "left(was + 0, at, count)\n  bucket",
    ),
    (
        "old_count == count and old_period == period",
        "old_count == count",
    ),
    (
        "old_count == count and old_period == period",
        "old_period == period",
    ),
    (
        "bucket.changed = at > now or not bucket.same",
        "bucket.changed = not bucket.same",
    ),
    (
        "bucket.changed = at > now or not bucket.same",
        "bucket.changed = at > now",
    ),
    (
        "math.floor(bucket.debt / old_period)",
        "math.ceil(bucket.debt / old_period)",
    ),
    (
        "(bucket.debt - units * old_period) / old_period * period",
        "0",
    ),
    (
        "bucket.debt = math.min(units * period",
        "bucket.debt = math.max(units * period",
    ),
    (
        "bucket.debt, now, bucket.count, bucket.period",
        "bucket.debt, now, bucket.period, bucket.count",
    ),
    (
        "math.ceil(owed / bucket.count / 1000) + 10000",
        "math.ceil(owed / bucket.count / 1000)",
    ),
    (
        "  if bucket.void > 0 then\n    text",
        "  if bucket.reset > 0 then\n    text",
    ),
    (".. bucket.given\n", ".. ''\n"),
    ("math.max(lasts, redis.call('PTTL', bucket.key))", "lasts"),
    // take.lua
    ("local at = 6 * i - 6", "local at = 0"),
    (
        "tonumber(ARGV[at + 4]), seen_at, count",
        "tonumber(ARGV[at + 4]), now, count",
    ),
    (
        "if bucket.void > 0 and seen_at <= bucket.void",
        "if bucket.void > 0 and seen_at < bucket.void",
    ),
    (
        "if bucket.void > 0 and seen_at <= bucket.void then seen = 0 end",
        "",
    ),
    ("math.max(seen - bucket.debt, 0)", "seen - bucket.debt"),
    (
        "then bucket.debt, bucket.changed = seen, true end",
        "then bucket.debt = seen end",
    ),
    ("ARGV[at + 6] * period", "tonumber(ARGV[at + 6])"),
    ("enough = enough and bucket.cost", "enough = bucket.cost"),
    ("bucket.cost <= burst", "bucket.cost < burst"),
    (
        "if enough then bucket.debt",
        "if bucket.cost <= bucket.debt then bucket.debt",
    ),
    (
        "bucket.debt + bucket.cost, true end",
        "bucket.debt + bucket.cost, bucket.changed end",
    ),
    (
        "if bucket.changed and bucket.debt > 0",
        "if bucket.debt > 0",
    ),
    // give_back.lua
    ("memory, most = 600000000, 6", "memory, most = 600000001, 6"),
    ("memory, most = 600000000, 6", "memory, most = 600000000, 5"),
    (
        "left(tonumber(ARGV[4]), taken_at, count)",
        "tonumber(ARGV[4])",
    ),
    ("if from <= taken_at and", "if from < taken_at and"),
    ("if from <= taken_at and", "if"),
    ("and taken_at <= to then", "and taken_at < to then"),
    ("and taken_at <= to then", "then"),
    (
        "owed = owed - parts end",
        "owed = math.min(owed, parts) end",
    ),
    ("if to + memory >= now then recent", "if true then recent"),
    ("owed = math.max(owed, 0)\n", ""),
    ("math.min(owed, tonumber(ARGV[3]))", "tonumber(ARGV[3])"),
    ("taken_at > now or taken_at + memory", "taken_at + memory"),
    ("or taken_at + memory < now", ""),
    ("bucket.reset >= taken_at", "bucket.reset > taken_at"),
    ("if not bucket.same or", "if"),
    ("or is_late or", "or"),
    ("or bucket.debt < owed then", "then"),
    ("if before > owed then", "if true then"),
    ("if before > owed then", "if before > owed + 1 then"),
    ("{taken_at, now, parts}", "{now, now, parts}"),
    ("{taken_at, now, parts}", "{taken_at, taken_at, parts}"),
    ("if #recent > most then", "if #recent > most + 1 then"),
    ("math.min(old[1], next[1])", "next[1]"),
    ("math.max(old[2], next[2])", "old[2]"),
    ("math.min(old[3] + next[3], 2 ^ 53 - 1)", "next[3]"),
    ("math.min(old[3] + next[3], 2 ^ 53 - 1)", "old[3] + next[3]"),
    ("before - parts, now, ''", "before, now, ''"),
    ("before - parts, now, ''", "before - parts, bucket.void, ''"),
    (
        "before - parts, now, ''",
        "before - parts, now, bucket.given",
    ),
    ("store(bucket, before)", "store(bucket, bucket.debt)"),
];

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_mistake_in_any_line_of_the_scripts_of_several_limits_is_noticed() {
    let engine = Engine::start();
    let mut missed = Vec::new();
    for (line, mistake) in MISTAKES {
        let mut scripts = SOURCES.map(at_a_given_time);
        // The part that both scripts begin with is in both.
        let mut found = 0;
        for script in &mut scripts[2..] {
            found += script.matches(line).count();
            *script = script.replace(line, mistake);
        }
        assert!((1..=2).contains(&found), "{line:?}: {found}");
        if compare_all(&engine, &scripts, 20_000).is_ok() {
            missed.push((line, mistake));
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
