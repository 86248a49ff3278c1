//! One limit, divided among the buckets of Envoys. Pure: time is an argument, and nothing is sent.
//!
//! At every instant, the rates that clients may still use, together with that of the reserve, are at most the limit's rate. The
//! tokens that they may hold, together with the reserve, are at most its burst. A client gets a bucket, or a larger one, only for
//! tokens of the reserve, because Envoy fills a new bucket, and fills a larger one in proportion. So nothing is minted, and in
//! any interval of length t, all clients together admit at most burst + rate × t requests.

use flowgate::{Quota, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an assignment is valid for: three reports of Envoy, which come every 5 s.
pub(crate) const TIME_TO_LIVE: Duration = Duration::from_secs(16);
/// The longest time that a message takes to its client. Beyond it, nothing is promised.
const ON_THE_WAY: Duration = Duration::from_secs(4);
/// When the assignments of a client are certainly gone.
const GONE_AFTER: Duration = Duration::from_secs(20);
/// When an assignment may be gone before the next one arrives.
const FRESH_FOR: Duration = Duration::from_secs(12);
/// The least time between two plans, unless a client comes or goes.
const PLAN_AGAIN: Duration = Duration::from_secs(1);
/// If there are more clients than tokens of the burst, they take turns of this length.
const TURN: Duration = Duration::from_secs(60);
/// The tokens of a limit that one interval fills, at least: a share is a whole number of them.
const STEPS: u64 = 1_000;
/// An interval that has fewer, after a reload, is replaced.
const FEW_STEPS: u64 = 100;
const NANOS: u64 = 1_000_000_000;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// Nothing, until there is a share.
    DenyAll,
    /// What an assignment of before allows, until it expires. No message is sent.
    Keep,
    /// Fill a bucket of `max_tokens` with `tokens_per_fill` in each interval.
    Bucket {
        max_tokens: u32,
        tokens_per_fill: u32,
        interval_s: u64,
    },
}

/// What a client has admitted and refused since its last report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Whether the client's bucket is new, so that no assignment of before can be there.
    pub(crate) is_new: bool,
}

/// A client's bucket of a limit.
pub(crate) type Holder = u64;

/// A limit, and who has which part of it.
#[derive(Debug)]
pub(crate) struct Division {
    quota: Quota,
    /// Whole seconds, because Envoy drops the rest. Clients see no other one while they have tokens.
    interval_s: u64,
    /// Tokens of the whole limit in an interval.
    steps: u64,
    burst: u64,
    /// Tokens that no client has, in parts: `interval_s` × 10⁹ of a token. A debt, if clients admitted more than was assigned.
    reserve: i128,
    at: Timestamp,
    planned: Option<Timestamp>,
    shares: BTreeMap<Holder, Share>,
    /// What clients that are gone may still use.
    leftovers: Vec<Leftover>,
    /// The sums over `shares` and `leftovers`.
    held: Part,
}

/// A rate in steps, and the size of a bucket in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    steps: u64,
    max: u64,
}

#[derive(Debug)]
struct Share {
    /// What was sent last.
    sent: Part,
    sent_at: Timestamp,
    /// What the client may still use: the largest of what was sent and is not certainly replaced.
    held: Part,
    /// When a smaller part than before was sent, and the number of reports since.
    cut_at: Timestamp,
    reports: u8,
    /// The largest that was sent since.
    since_cut: Part,
    /// Until then, the client may have an assignment of before, which is held for it.
    kept_until: Timestamp,
    target: Part,
    /// Requests in an interval.
    demand: u64,
    reported_at: Timestamp,
    /// The most tokens that the client can have, in parts.
    tokens: i128,
}

#[derive(Debug)]
struct Leftover {
    held: Part,
    until: Timestamp,
}

/// Returns the rate of a quota in tokens of an interval, rounded down.
fn steps_in(quota: &Quota, interval_s: u64) -> u64 {
    let nanos = u128::from(interval_s) * u128::from(NANOS);
    let steps = u128::from(quota.count()) * nanos / quota.period().as_nanos();
    u64::try_from(steps)
        .unwrap_or(u64::MAX)
        .min(u32::MAX.into())
}

/// Returns the shortest interval of whole seconds that fills [`STEPS`] tokens.
fn interval_of(quota: &Quota) -> u64 {
    let nanos = u128::from(STEPS) * quota.period().as_nanos();
    let per_second = u128::from(quota.count()) * u128::from(NANOS);
    u64::try_from(nanos.div_ceil(per_second)).unwrap_or(u64::MAX)
}

fn since(now: Timestamp, earlier: Timestamp) -> Duration {
    now.saturating_duration_since(earlier)
}

impl Division {
    /// Begins with a limit that no client has a part of.
    pub(crate) fn new(quota: Quota, now: Timestamp) -> Self {
        let mut division = Self {
            quota,
            interval_s: interval_of(&quota),
            steps: 0,
            burst: 0,
            reserve: 0,
            at: now,
            planned: None,
            shares: BTreeMap::new(),
            leftovers: Vec::new(),
            held: Part::default(),
        };
        division.set_quota(quota);
        division.reserve = division.parts(division.burst);
        division
    }

    fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
        self.steps = steps_in(&quota, self.interval_s);
        self.burst = quota.max_burst().min(u32::MAX.into());
        self.planned = None;
    }

    /// Takes a report of a client, and returns what it may do now and how many requests it admitted beyond what it could.
    ///
    /// `least` is the number of clients to leave room for.
    pub(crate) fn report(
        &mut self,
        now: Timestamp,
        holder: Holder,
        usage: Usage,
        quota: Quota,
        least: usize,
    ) -> (Assignment, u64) {
        self.advance(now);
        if quota != self.quota {
            self.set_quota(quota);
        }
        let beyond = self.account(now, holder, usage);
        let is_fresh = |share: &Share| since(now, share.sent_at) <= FRESH_FOR;
        if !self.shares.get(&holder).is_some_and(is_fresh) {
            // The client's bucket may be gone. Then, it fills the next one.
            self.begin(now, holder, usage.is_new);
        }
        self.confirm(now, holder);
        let is_planned = |at: Timestamp| since(now, at) < PLAN_AGAIN;
        if !self.planned.is_some_and(is_planned) {
            self.plan(now, least);
        }
        (self.assign(now, holder), beyond)
    }

    /// Notes that a client's bucket is no longer used. It may go on with its share until that expires.
    pub(crate) fn end(&mut self, holder: Holder) {
        if let Some(share) = self.shares.remove(&holder) {
            self.planned = None;
            if share.held != Part::default() {
                let until = share.sent_at + GONE_AFTER;
                let held = share.held;
                self.leftovers.push(Leftover { held, until });
            }
        }
    }

    /// Returns whether this division is as a new one.
    pub(crate) fn is_idle(&mut self, now: Timestamp) -> bool {
        self.advance(now);
        self.expire(now);
        let is_full = self.reserve >= self.parts(self.burst);
        self.shares.is_empty() && self.leftovers.is_empty() && is_full
    }

    /// Returns the tokens, and the tokens per second, that clients may still use.
    pub(crate) fn out(&mut self, now: Timestamp) -> (u64, f64) {
        self.expire(now);
        let Part { steps, max } = self.held;
        (max, steps as f64 / self.interval_s as f64)
    }

    /// Returns the number of clients that may have a part.
    pub(crate) fn clients(&mut self, now: Timestamp) -> usize {
        self.expire(now);
        self.shares.len() + self.leftovers.len()
    }

    /// Tokens in parts.
    fn parts(&self, tokens: u64) -> i128 {
        i128::from(tokens) * i128::from(self.interval_s) * i128::from(NANOS)
    }

    /// Fills the reserve at the rate that no client has.
    fn advance(&mut self, now: Timestamp) {
        let free = self.steps.saturating_sub(self.held.steps);
        let nanos = since(now, self.at).as_nanos() as i128;
        self.at = self.at.max(now);
        // A burst that a reload has made smaller may be held as it was, until clients are told.
        let room = self.parts(self.burst.saturating_sub(self.held.max));
        self.reserve = (self.reserve + i128::from(free) * nanos).min(room);
    }

    /// Counts what a client has admitted. Returns the requests that it could not have admitted by its assignments: they are a
    /// debt of the reserve.
    fn account(&mut self, now: Timestamp, holder: Holder, usage: Usage) -> u64 {
        let token = self.parts(1);
        // A client may report any number.
        let allowed = usage.allowed.min(u32::MAX.into());
        let share = self.shares.get_mut(&holder);
        // A client that comes back was assigned a part before, which it has paid for.
        let is_charged = share.is_some() || usage.is_new;
        let beyond = match share {
            None => allowed,
            Some(share) => {
                let time = since(now, share.reported_at);
                share.reported_at = share.reported_at.max(now);
                let filled = i128::from(share.held.steps) * time.as_nanos() as i128;
                let most = i128::from(share.held.max) * token;
                let tokens = share.tokens + filled - i128::from(allowed) * token;
                // Times on the way differ, so a part of a token is not counted yet.
                let beyond = if tokens < 0 { -tokens / token } else { 0 };
                share.tokens = (tokens + beyond * token).min(most);
                let seen = share.demand_of(usage, time, self.interval_s);
                share.demand = (share.demand + seen).div_ceil(2);
                beyond as u64
            }
        };
        let debt = -self.parts(self.burst);
        if is_charged {
            self.reserve = (self.reserve - self.parts(beyond)).max(debt);
        }
        beyond
    }

    fn begin(&mut self, now: Timestamp, holder: Holder, is_new: bool) {
        self.end(holder);
        self.planned = None;
        let share = Share {
            sent: Part::default(),
            sent_at: now,
            held: Part::default(),
            cut_at: now,
            reports: 0,
            since_cut: Part::default(),
            kept_until: if is_new { now } else { now + TIME_TO_LIVE },
            target: Part::default(),
            // Its first report has a single request. Until the next one, it gets an equal part.
            demand: self.steps,
            reported_at: now,
            tokens: 0,
        };
        self.shares.insert(holder, share);
    }

    /// Gives up what a client certainly no longer has: two reports have come since, or the time to live is over.
    fn confirm(&mut self, now: Timestamp, holder: Holder) {
        let Some(share) = self.shares.get_mut(&holder) else {
            return;
        };
        share.reports = share.reports.saturating_add(1);
        let time = since(now, share.cut_at);
        // A report that was on its way does not count, so there are two, and time for a message.
        if time >= GONE_AFTER || (share.reports >= 2 && time >= ON_THE_WAY) {
            let since_cut = share.since_cut;
            hold(&mut self.held, share, since_cut);
        }
    }

    fn expire(&mut self, now: Timestamp) {
        let held = &mut self.held;
        self.leftovers.retain(|leftover| {
            let is_there = leftover.until > now;
            if !is_there {
                held.steps -= leftover.held.steps;
                held.max -= leftover.held.max;
            }
            is_there
        });
        let is_gone = |share: &Share| since(now, share.sent_at) >= GONE_AFTER;
        self.shares.retain(|_, share| {
            if is_gone(share) {
                hold(held, share, Part::default());
            }
            !is_gone(share)
        });
    }

    /// Decides which part each client should have.
    fn plan(&mut self, now: Timestamp, least: usize) {
        self.expire(now);
        if self.held == Part::default() && self.needs_interval() {
            self.replace_interval();
        }
        self.planned = Some(now);
        let clients = self.shares.len() as u64;
        let Some(first) = self.first_of_turn(now) else {
            return;
        };
        let places = (least as u64).max(clients);
        // Steps that do are given up, so that the interval can change.
        let (steps, burst) = match self.needs_interval() {
            true => (0, 0),
            false => (self.steps, self.burst),
        };
        for (place, share) in (0..).zip(self.shares.values_mut()) {
            let is_its_turn = (place + clients - first) % clients < burst;
            share.target = Part {
                steps: 0,
                max: (burst / places).max(is_its_turn.into()),
            };
        }
        let on_turn = self
            .shares
            .values_mut()
            .filter(|share| share.target.max > 0);
        let mut by_demand: Vec<_> = on_turn.collect();
        by_demand.sort_by_key(|share| share.demand);
        // Those with the least demand get what they ask for, and a quarter more, or an eighth of an equal part. The others get
        // the rest, in equal parts.
        let floor = (steps / places / 8).max(1);
        let (mut rest, mut others) = (steps, by_demand.len() as u64);
        for share in &mut by_demand {
            let wanted = share.demand.saturating_add(share.demand / 4).max(floor);
            share.target.steps = wanted.min(rest / others);
            rest -= share.target.steps;
            others -= 1;
        }
        let mut others = by_demand.len() as u64;
        for share in by_demand {
            let part = rest / others;
            share.target.steps += part;
            rest -= part;
            others -= 1;
            if places > clients {
                share.target.steps = share.target.steps.min(steps / places);
            }
        }
    }

    /// Returns the place of the client whose turn it is first. `None`: there are no clients.
    fn first_of_turn(&self, now: Timestamp) -> Option<u64> {
        let turn = u128::from(now.as_nanos()) / TURN.as_nanos();
        let place = (turn * u128::from(self.burst)).checked_rem(self.shares.len() as u128)?;
        Some(place as u64)
    }

    /// Returns whether a reload has left an interval that fits the rate badly.
    fn needs_interval(&self) -> bool {
        let fits = FEW_STEPS..u64::from(u32::MAX);
        !fits.contains(&self.steps) && self.interval_s != interval_of(&self.quota)
    }

    /// No client has a token, so the interval can be another one.
    fn replace_interval(&mut self) {
        let before = i128::from(self.interval_s);
        self.interval_s = interval_of(&self.quota);
        let now = i128::from(self.interval_s);
        self.reserve = self.reserve / before * now;
        for share in self.shares.values_mut() {
            share.tokens = 0;
            share.demand = (i128::from(share.demand) * now / before).min(u32::MAX.into()) as u64;
        }
        self.set_quota(self.quota);
    }

    /// Moves a client's part toward its target. What others may still use is not given away.
    fn assign(&mut self, now: Timestamp, holder: Holder) -> Assignment {
        let token = self.parts(1);
        let free = self.steps.saturating_sub(self.held.steps);
        let debt = (-self.reserve).max(0) / token / self.shares.len().max(1) as i128;
        let Some(share) = self.shares.get_mut(&holder) else {
            return Assignment::DenyAll;
        };
        let (target, before) = (share.target, share.sent);
        let affordable = (self.reserve / token).max(0) as u64;
        let mut part = before;
        part.max = target.max.min(before.max + affordable);
        // What the reserve lacks for the rest, it earns in 5 s, or with a quarter of the share.
        let lacking = u128::from(target.max - part.max) + debt as u128;
        let withheld = lacking * u128::from(self.interval_s) / 5;
        let withheld = withheld.min(u128::from(target.steps / 4)) as u64;
        let goal = target.steps - withheld;
        if goal > before.steps {
            part.steps = goal.min(share.held.steps + free);
        } else if before.steps - goal > before.steps / 16 {
            part.steps = goal;
        }
        if part.steps == 0 || part.max == 0 {
            part = Part::default();
        }
        let bought = i128::from(part.max.saturating_sub(before.max)) * token;
        self.reserve -= bought;
        share.tokens += bought;
        if part.or(before) != part {
            (share.cut_at, share.reports, share.since_cut) = (now, 0, part);
        }
        share.since_cut = part.or(share.since_cut);
        (share.sent, share.sent_at) = (part, now);
        let held = part.or(share.held);
        hold(&mut self.held, share, held);
        match part.max {
            0 if before == part && now < share.kept_until => Assignment::Keep,
            0 => Assignment::DenyAll,
            max => Assignment::Bucket {
                max_tokens: max as u32,
                tokens_per_fill: part.steps as u32,
                interval_s: self.interval_s,
            },
        }
    }
}

impl Part {
    /// Returns the larger rate and the larger size.
    fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps),
            max: self.max.max(other.max),
        }
    }
}

impl Share {
    /// Requests in an interval, by a report.
    fn demand_of(&self, usage: Usage, time: Duration, interval_s: u64) -> u64 {
        let requests = u128::from(usage.allowed) + u128::from(usage.denied);
        let nanos = time.as_nanos().max(NANOS.into());
        let demand = requests * u128::from(interval_s) * u128::from(NANOS) / nanos;
        u64::try_from(demand)
            .unwrap_or(u64::MAX)
            .min(u32::MAX.into())
    }
}

/// Notes what a client may use, and the sum of all.
fn hold(sum: &mut Part, share: &mut Share, held: Part) {
    sum.steps = sum.steps - share.held.steps + held.steps;
    sum.max = sum.max - share.held.max + held.max;
    share.held = held;
}
