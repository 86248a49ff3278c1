//! One question: all descriptors or none.

use crate::counts::{Outcome, answered};
use crate::limits::{DecideLimits, Key, Rule, Table, Unknown};
use flowgate::{Denied, Quota, Snapshot, Timestamp};
use flowgate_fleet::{Admitted, Ask};
use hyper::header::{HeaderMap, HeaderValue};
use std::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use tracing::field::Empty;
use tracing::{Instrument, debug_span};

/// A key and a value of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorEntry<'a> {
    /// The key, such as `user`.
    pub key: &'a str,
    /// The value, such as `alice`. It may be empty.
    pub value: &'a [u8],
}

/// What a request is about, such as a user and a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor<'a> {
    /// The entries. A rule is found if its path has as many.
    pub entries: &'a [DescriptorEntry<'a>],
    /// The number of tokens, instead of that of the request.
    pub hits: Option<u64>,
    /// Whether the tokens are given back instead: the newest that were taken. Nothing is if the request is refused.
    pub is_refund: bool,
    /// A quota instead of the rule's, if the rule has `allow_override`.
    pub quota: Option<Quota>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct LimitDecision<'a> {
    /// Whether the request is refused. Nothing was taken then.
    pub is_over: bool,
    /// One for each descriptor, in order.
    pub statuses: Vec<Status<'a>>,
}

impl LimitDecision<'_> {
    /// Returns the least time after which the request could be admitted. `None` if it is admitted, or no time is known.
    pub fn retry_after(&self) -> Option<Duration> {
        let over = self.statuses.iter().filter(|status| status.is_over);
        let mut longest = None;
        for status in over {
            longest = longest.max(Some(status.retry_after?));
        }
        longest
    }
}

/// Why a request was neither admitted nor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undecided {
    /// No limit was found by the name.
    Unknown(Unknown),
    /// The store does not answer, and this server admits no more alone.
    Outage,
    /// Too many requests wait for the store.
    Busy,
    /// The request gives back to a limit in a store.
    Refund,
    /// Envoys decide about the limit, by the parts that they are assigned.
    Assigned,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::Outage => f.write_str("the store does not answer"),
            Self::Busy => f.write_str("too many requests wait for the store"),
            Self::Refund => {
                f.write_str("a limit in a store takes nothing back yet; run without --store")
            }
            Self::Assigned => f.write_str(
                "Envoys decide about this limit; ask RateLimitQuotaService, or remove `rlqs`",
            ),
        }
    }
}

impl std::error::Error for Undecided {}

impl Undecided {
    /// Returns why a store has not decided. `None`: it has refused.
    pub(crate) fn of(denied: &Denied) -> Option<Self> {
        if denied.is_outage() {
            Some(Self::Outage)
        } else if denied.is_queue_full() {
            Some(Self::Busy)
        } else {
            None
        }
    }
}

impl From<Unknown> for Undecided {
    fn from(unknown: Unknown) -> Self {
        Self::Unknown(unknown)
    }
}

/// The answer to one descriptor, or for one limit.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// The rule. `None` if no rule matches, or another one replaces it.
    pub rule: Option<&'a Rule>,
    /// Whether this limit refuses.
    pub is_over: bool,
    /// Whether this limit would refuse, were it not a shadow rule.
    pub is_over_in_shadow: bool,
    /// The most tokens in one burst. 0 without a limit.
    pub limit: u64,
    /// The tokens that are left.
    pub remaining: u64,
    /// The least time after which this limit would admit the request. `None` if it does, or never will.
    pub retry_after: Option<Duration>,
    /// The time until all tokens are there again.
    pub reset_after: Duration,
    /// Whether this server admitted the request without the store, as `when_cut_off` of the rule says.
    ///
    /// The store did not answer, or not in time. If a store decides about several limits together, all of them have the same.
    pub is_degraded: bool,
    /// What the table says of the key.
    seen: Option<Snapshot>,
}

impl<'a> Status<'a> {
    /// No rule refuses.
    const fn free(rule: Option<&'a Rule>) -> Self {
        Self {
            rule,
            is_over: false,
            is_over_in_shadow: false,
            limit: 0,
            remaining: match rule {
                // As envoyproxy/ratelimit reports it.
                Some(_) => u32::MAX as u64,
                None => 0,
            },
            retry_after: None,
            reset_after: Duration::ZERO,
            is_degraded: false,
            seen: None,
        }
    }
}

impl Status<'_> {
    /// Adds the fields of the limit and this key, whose quota is that of the rule.
    pub(crate) fn describe(&self, key: &Key<'_>, headers: &mut HeaderMap) {
        if let Some(rule) = self.rule {
            rule.describe(key, self.seen, headers);
        }
    }

    /// Returns the values of the same fields.
    pub(crate) fn draft(&self, key: &Key<'_>) -> Option<(HeaderValue, String)> {
        self.rule?.draft(key, self.seen)
    }

    fn outcome(&self, is_request_over: bool) -> Outcome {
        match (self.is_over, self.is_over_in_shadow) {
            (true, _) => Outcome::Refused,
            (_, true) => Outcome::RefusedInShadow,
            _ if is_request_over => Outcome::NotTaken,
            _ => Outcome::Taken,
        }
    }
}

/// What admitted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The limit: here, or in the store.
    Limit,
    /// This server, without the store.
    Alone,
}

impl By {
    pub(crate) fn of(admitted: Admitted) -> Self {
        match admitted.is_degraded() {
            true => Self::Alone,
            false => Self::Limit,
        }
    }
}

/// The answer of one limit.
pub(crate) type Answer = Result<By, Denied>;

/// A limit that a request asks.
struct Asked<'a> {
    rule: &'a Rule,
    key: Key<'a>,
    n: u64,
    is_refund: bool,
    own: Option<Quota>,
}

impl<'a> Asked<'a> {
    fn look(&self) -> Answer {
        self.in_memory(|table, n| table.look(&self.key, n, self.own))
    }

    fn take(&self) -> Answer {
        self.in_memory(|table, n| table.take(&self.key, n, self.own))
    }

    fn in_memory(&self, ask: impl FnOnce(&Table, u64) -> Result<(), Denied>) -> Answer {
        match (self.rule.table(), self.n) {
            (_, 0) => Ok(By::Limit),
            _ if self.is_refund => Ok(By::Limit),
            (Some(table), n) => ask(table, n).map(|()| By::Limit),
            (None, n) => Err(Denied::never(n, 0)),
        }
    }

    /// Takes from this limit alone, wherever it is.
    async fn take_alone(&self, deadline: Option<Instant>) -> Result<Answer, Undecided> {
        let (Some(stored), 1..) = (self.rule.stored(), self.n) else {
            return Ok(self.take());
        };
        // Decisions in memory are small futures.
        match Box::pin(stored.take(&self.key, self.n, deadline)).await {
            Err(_) if self.rule.is_shadow() => Ok(Ok(By::Alone)),
            Err(undecided) => {
                answered(self.rule, self.n, Outcome::Undecided);
                Err(undecided)
            }
            decided => decided,
        }
    }

    fn give_back(&self) {
        if let (Some(table), 1..) = (self.rule.table(), self.n) {
            table.give_back(&self.key, self.n, self.own);
        }
    }

    fn status(&self, answer: &Answer) -> Status<'a> {
        let mut status = Status {
            remaining: 0,
            ..Status::free(Some(self.rule))
        };
        if let Some(seen) = self.rule.standing(&self.key, self.own) {
            status.limit = seen.limit;
            status.remaining = seen.remaining;
            status.reset_after = seen.reset_after;
            status.seen = seen.seen;
        }
        status.is_degraded = *answer == Ok(By::Alone);
        if let Err(denied) = answer {
            status.is_over = !self.rule.is_shadow();
            status.is_over_in_shadow = self.rule.is_shadow();
            status.retry_after = denied.retry_after();
        }
        status
    }
}

impl DecideLimits {
    /// Admits a request and takes from all of its limits, or takes nothing.
    ///
    /// `hits` is the number of tokens of descriptors without their own. If it is 0, nothing is taken.
    ///
    /// The future is ready when it is polled first, unless the limits are in a [store](Self::in_store).
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// use flowgate::ManualClock;
    /// use flowgate_server::{Config, Descriptor, DescriptorEntry, DecideLimits, DecisionTime};
    ///
    /// let text = "{domain: api, descriptors: [{key: user, quota: 2/min}, {key: site, quota: 3/min}]}";
    /// let limits = DecideLimits::new(&Config::parse("api", text)?, &DecisionTime::from_epoch(ManualClock::new()))?;
    /// let user = [DescriptorEntry { key: "user", value: b"alice" }];
    /// let site = [DescriptorEntry { key: "site", value: b"a" }];
    /// let of = |entries| Descriptor { entries, ..Descriptor::default() };
    ///
    /// for is_over in [false, false, true] {
    ///     // The third is refused by the user's limit, and the site's keeps its last token.
    ///     assert_eq!(limits.decide("api", &[of(&user), of(&site)], 1).await?.is_over, is_over);
    /// }
    /// assert_eq!(limits.decide("api", &[of(&site)], 0).await?.statuses[0].remaining, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Undecided`] if a store does not answer, or would have to take something back, or Envoys decide about a limit. Nothing
    /// is taken then.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have taken tokens of a limit in a store.
    pub fn decide<'a>(
        &'a self,
        domain: &str,
        descriptors: &'a [Descriptor<'a>],
        hits: u64,
    ) -> impl Future<Output = Result<LimitDecision<'a>, Undecided>> {
        self.decide_until(domain, descriptors, hits, None)
    }

    /// Decides as [`decide`](Self::decide) does, and waits for a store until `deadline` at the latest.
    ///
    /// After that, this server decides without the store, as `when_cut_off` of each rule says. What the store has taken by then, or takes
    /// later, stays taken if the request is admitted.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// use flowgate_fleet::LocalStore;
    /// use flowgate_server::{Config, Descriptor, DescriptorEntry, DecideLimits, DecisionTime};
    /// use std::time::{Duration, Instant};
    ///
    /// let text = "{domain: api, descriptors: [{key: user, quota: 100/min, when_cut_off: admit}]}";
    /// let store = LocalStore::new(flowgate::Clock::system());
    /// let fleet = store.fleet().timeout(Duration::from_secs(60)).open()?;
    /// let limits = DecideLimits::in_store(&Config::parse("api", text)?, &DecisionTime::system(), &fleet)?;
    /// let entries = [DescriptorEntry { key: "user", value: b"alice" }];
    /// let user = [Descriptor { entries: &entries, ..Descriptor::default() }];
    ///
    /// store.pause(); // it is slow
    /// let decision = limits.decide_by("api", &user, 1, Instant::now() + Duration::from_millis(5)).await?;
    /// assert!(!decision.is_over && decision.statuses[0].is_degraded);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Undecided`] in the same cases as [`decide`](Self::decide): [`Undecided::Outage`] if this server admits no more alone.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have taken tokens of a limit in a store.
    pub fn decide_by<'a>(
        &'a self,
        domain: &str,
        descriptors: &'a [Descriptor<'a>],
        hits: u64,
        deadline: Instant,
    ) -> impl Future<Output = Result<LimitDecision<'a>, Undecided>> {
        self.decide_until(domain, descriptors, hits, Some(deadline))
    }

    pub(crate) async fn decide_until<'a>(
        &'a self,
        domain: &str,
        descriptors: &'a [Descriptor<'a>],
        hits: u64,
        deadline: Option<Instant>,
    ) -> Result<LimitDecision<'a>, Undecided> {
        let begun = self.time().clock().now();
        let find = |descriptor: &Descriptor<'a>| self.find(domain, descriptor.entries);
        let mut rules: Vec<_> = descriptors.iter().map(find).collect();
        let unmatched = rules.iter().filter(|rule| rule.is_none());
        unmatched.for_each(|_| self.counts().unmatched());
        replace(&mut rules);
        if rules.iter().flatten().any(|rule| rule.reports().is_some()) {
            return Err(Undecided::Assigned);
        }
        let limited = |(rule, descriptor): (&Option<&'a Rule>, &Descriptor<'a>)| {
            let rule = rule.filter(|rule| !rule.is_unlimited())?;
            Some(Asked {
                rule,
                key: rule.key(descriptor.entries),
                n: descriptor.hits.unwrap_or(hits),
                is_refund: descriptor.is_refund,
                own: descriptor.quota.filter(|_| rule.allow_override()),
            })
        };
        let asked: Vec<_> = rules.iter().zip(descriptors).map(limited).collect();
        let span = debug_span!("decision", domain, over = Empty);
        let answers = self
            .take_all(&asked, deadline)
            .instrument(span.clone())
            .await?;
        let limits = asked.iter().flatten();
        let is_over = limits.clone().zip(&answers).any(refuses);
        span.record("over", is_over);
        if !is_over {
            let refunds = limits.filter(|limit| limit.is_refund);
            refunds.for_each(Asked::give_back);
        }
        let mut answers = answers.into_iter();
        let mut statuses = Vec::with_capacity(descriptors.len());
        for (asked, rule) in asked.iter().zip(rules) {
            statuses.push(match asked {
                Some(asked) => {
                    let answer = answers.next().unwrap_or(Ok(By::Limit));
                    asked.status(&answer)
                }
                None => Status::free(rule),
            });
        }
        for (asked, status) in asked.iter().zip(&statuses) {
            if let Some(asked) = asked
                && !asked.is_refund
            {
                answered(asked.rule, asked.n, status.outcome(is_over));
            }
        }
        self.took(begun);
        Ok(LimitDecision { is_over, statuses })
    }

    /// Counts the time since `begun`.
    pub(crate) fn took(&self, begun: Timestamp) {
        let now = self.time().clock().now();
        self.counts().took(now.saturating_duration_since(begun));
    }

    /// Takes from all limits or from none. Returns an answer for each limit that is asked.
    async fn take_all(
        &self,
        asked: &[Option<Asked<'_>>],
        deadline: Option<Instant>,
    ) -> Result<Vec<Answer>, Undecided> {
        let mut each = asked.iter().flatten();
        if let (Some(only), None) = (each.next(), each.next()) {
            if only.is_refund && only.rule.stored().is_some() {
                return Err(Undecided::Refund);
            }
            return Ok(vec![only.take_alone(deadline).await?]);
        }
        let limits: Vec<_> = asked.iter().flatten().collect();
        let is_stored = |limit: &&&Asked<'_>| limit.rule.stored().is_some();
        if limits.iter().filter(is_stored).any(|limit| limit.is_refund) {
            return Err(Undecided::Refund);
        }
        match limits.iter().any(|limit| is_stored(&limit)) {
            true => Box::pin(take_from_store(&limits, deadline)).await,
            false => Ok(self.take_together(&limits)),
        }
    }

    /// Takes from all limits in memory or from none.
    fn take_together(&self, limits: &[&Asked<'_>]) -> Vec<Answer> {
        let lock = &self.several;
        // It guards no data that a panic could leave half changed.
        let _one_at_a_time = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answers: Vec<_> = limits.iter().map(|limit| limit.look()).collect();
        if limits.iter().copied().zip(&answers).any(refuses) {
            return answers;
        }
        for place in 0..limits.len() {
            if answers[place].is_err() {
                continue;
            }
            answers[place] = limits[place].take();
            // A request for a single limit was faster, or the same key is asked twice.
            if refuses((limits[place], &answers[place])) {
                let taken = limits.iter().zip(&answers).take(place);
                let taken = taken.filter(|(limit, answer)| answer.is_ok() && !limit.is_refund);
                taken.for_each(|(limit, _)| limit.give_back());
                break;
            }
        }
        answers
    }

    /// Decides about `n` tokens of a limit by its name or id, and a key.
    ///
    /// The key is the value of the only entry that the limit leaves open. A limit for all has the empty key. If `n` is 0, nothing
    /// is taken.
    ///
    /// ```
    /// use flowgate_server::{Config, DecideLimits, DecisionTime};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let text = "{domain: api, descriptors: [{key: user, quota: 2/min}]}";
    /// let limits = DecideLimits::new(&Config::parse("api", text)?, &DecisionTime::system())?;
    /// let status = limits.ask("api.user", b"alice", 1).await?;
    /// assert_eq!((status.is_over, status.remaining), (false, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Undecided`] if there is no such limit, it does not have one open entry, Envoys decide about it, or a store does not
    /// answer.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have taken tokens of a limit in a store.
    pub async fn ask<'a>(
        &'a self,
        name: &str,
        key: &'a [u8],
        n: u64,
    ) -> Result<Status<'a>, Undecided> {
        let begun = self.time().clock().now();
        let (rule, key) = self.named(name, key)?;
        if rule.is_unlimited() {
            return Ok(Status::free(Some(rule)));
        }
        if rule.reports().is_some() {
            return Err(Undecided::Assigned);
        }
        let asked = Asked {
            rule,
            key,
            n,
            is_refund: false,
            own: None,
        };
        let span = debug_span!("decision", limit = rule.id(), over = Empty);
        let status = asked.status(&asked.take_alone(None).instrument(span.clone()).await?);
        span.record("over", status.is_over);
        answered(rule, n, status.outcome(status.is_over));
        self.took(begun);
        Ok(status)
    }
}

/// Takes from all limits in a store or from none. Shadow rules are asked after that, if the request is admitted.
async fn take_from_store(
    limits: &[&Asked<'_>],
    deadline: Option<Instant>,
) -> Result<Vec<Answer>, Undecided> {
    let here = |limit: &&Asked<'_>| match limit.rule.stored() {
        Some(_) => Ok(By::Limit),
        // It admits nothing.
        None => limit.look(),
    };
    let mut answers: Vec<_> = limits.iter().map(here).collect();
    if limits.iter().copied().zip(&answers).any(refuses) {
        return Ok(answers);
    }
    let (mut places, mut asks) = (Vec::new(), Vec::new());
    for (place, limit) in limits.iter().enumerate() {
        if let Some(stored) = limit.rule.stored().filter(|_| !limit.rule.is_shadow()) {
            places.push(place);
            asks.push(stored.ask(&limit.key, limit.n));
        }
    }
    let span = debug_span!("call", limits = asks.len());
    let all = match deadline {
        Some(deadline) => Ask::all(asks).within(until(deadline)),
        None => Ask::all(asks),
    };
    match all.instrument(span).await {
        Ok(admitted) => {
            for &place in &places {
                answers[place] = Ok(By::of(admitted));
            }
        }
        Err(denied) => {
            if let Some(undecided) = Undecided::of(&denied) {
                for &place in &places {
                    answered(limits[place].rule, limits[place].n, Outcome::Undecided);
                }
                return Err(undecided);
            }
            for &(at, denied) in denied.limits() {
                answers[places[at]] = Err(denied);
            }
            return Ok(answers);
        }
    }
    for (place, limit) in limits.iter().enumerate() {
        if limit.rule.stored().is_some() && limit.rule.is_shadow() {
            answers[place] = limit.take_alone(deadline).await?;
        }
    }
    Ok(answers)
}

/// Returns how long it is until then.
pub(crate) fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn refuses((limit, answer): (&Asked<'_>, &Answer)) -> bool {
    answer.is_err() && !limit.rule.is_shadow()
}

/// Removes rules that others replace by name.
fn replace(rules: &mut [Option<&Rule>]) {
    let is_replaced = |rules: &[Option<&Rule>], name: &str| {
        let mut there = rules.iter().flatten();
        there.any(|rule| rule.replaces().iter().any(|replaced| replaced == name))
    };
    if rules
        .iter()
        .flatten()
        .all(|rule| rule.replaces().is_empty())
    {
        return;
    }
    let is_gone = |rule: &&Rule| rule.own_name().is_some_and(|name| is_replaced(rules, name));
    let gone: Vec<_> = rules
        .iter()
        .map(|rule| rule.as_ref().is_some_and(is_gone))
        .collect();
    for (rule, is_gone) in rules.iter_mut().zip(gone) {
        if is_gone {
            *rule = None;
        }
    }
}
