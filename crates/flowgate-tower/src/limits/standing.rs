//! How a limit stands, for the fields of a response.

use super::Names;
use flowgate::{Denied, Limiter, Policy, Quota, QuotaState, Snapshot};
use std::time::Duration;

/// The state of a limit at one instant.
#[derive(Debug)]
pub struct Standing<'a> {
    pub name: &'a str,
    /// In tokens.
    pub limit: u64,
    pub remaining: u64,
    /// [`Duration::MAX`] if no time is known.
    pub reset_after: Duration,
    pub unit: Unit,
    pub quota: Option<Quota>,
    /// The time until another token is available: exact if none remains. If some remain, the time is only there if
    /// it is a second or more.
    pub more_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Requests,
    ConcurrentRequests,
}

impl<'a> Standing<'a> {
    /// For any rate limiter that does not have two quotas.
    pub(super) fn of_limiter(name: &'a str, limiter: &dyn Limiter, policy: Option<Policy>) -> Self {
        let quota = policy.map(|policy| policy.quota);
        let is_steady = policy.is_some_and(|policy| policy.is_steady);
        let more = |n| limiter.peek_n_at(limiter.clock().now(), n);
        Self::of_rate(name, limiter.snapshot(), quota, is_steady, more)
    }

    /// For one of two quotas.
    fn of_quota(name: &'a str, state: &QuotaState) -> Self {
        let token = state.quota.scale();
        let (limit, remaining) = in_tokens(state.snapshot, token);
        // Under a second, there is nothing to report unless no token is left.
        let is_told = |wait: &Duration| remaining == 0 || *wait >= Duration::from_secs(1);
        Self {
            name,
            limit,
            remaining,
            reset_after: state.snapshot.reset_after,
            unit: Unit::Requests,
            quota: Some(state.quota),
            more_after: state.next_after.filter(is_told),
        }
    }

    /// For a rate limiter. `more` returns the time at which a number of units is available.
    pub(crate) fn of_rate(
        name: &'a str,
        snapshot: Snapshot,
        quota: Option<Quota>,
        is_steady: bool,
        more: impl FnOnce(u64) -> Result<(), Denied>,
    ) -> Self {
        let token = quota.map_or(1, |quota| quota.scale());
        // Whole tokens, so that no client is promised a token that does not exist.
        let (limit, remaining) = in_tokens(snapshot, token);
        let more_after = match remaining {
            remaining if remaining >= limit => None,
            // The bucket is full when its only token is back.
            0 if limit == 1 && is_steady => Some(snapshot.reset_after),
            0 => time_until(more(token)),
            // In whole seconds there is nothing to report.
            _ if snapshot.reset_after < Duration::from_secs(1) => None,
            // There is no debt, so the quota determines when the next token comes.
            _ if is_steady && quota.is_some_and(is_one_a_second) => None,
            remaining => {
                let more_after = time_until(more((remaining + 1).saturating_mul(token)));
                more_after.filter(|more_after| *more_after >= Duration::from_secs(1))
            }
        };
        Self {
            name,
            limit,
            remaining,
            reset_after: snapshot.reset_after,
            unit: Unit::Requests,
            quota,
            more_after,
        }
    }

    /// For a limiter that is not part of this library, as it has reported.
    pub(super) fn of_answer(
        name: &'a str,
        quota: Quota,
        remaining: u64,
        more_after: Option<Duration>,
    ) -> Self {
        Self {
            name,
            limit: quota.max_burst(),
            remaining,
            reset_after: Duration::MAX,
            unit: Unit::Requests,
            quota: Some(quota),
            more_after,
        }
    }

    pub(super) fn of_slots(name: &'a str, snapshot: Snapshot) -> Self {
        Self {
            name,
            limit: snapshot.limit,
            remaining: snapshot.remaining,
            reset_after: snapshot.reset_after,
            unit: Unit::ConcurrentRequests,
            quota: None,
            more_after: None,
        }
    }

    /// The refill of a whole number of seconds, as tokens and seconds.
    ///
    /// The number of tokens is at least the limit, and at most 1 % less than the quota allows. `None` if there is no quota,
    /// or if the seconds do not fit into a `u64`.
    pub fn quota_and_window(&self) -> Option<(u64, u64)> {
        let quota = self.quota?;
        let limit = self.limit;
        let period_ns = quota.period().as_nanos();
        let tokens = u128::from(quota.count().max(1));
        // Less than a token.
        if limit == 0 {
            return Some((0, 1));
        }
        // Both at most 2⁶⁴ · 10⁹.
        let fills_ns = period_ns.checked_mul(limit.into())?;
        let tokens_ns = tokens * NS_PER_SECOND;
        let seconds = u64::try_from(fills_ns.div_ceil(tokens_ns)).ok()?.max(1);
        // Rounding up is at most 1 % then, if it rounds at all.
        if fills_ns == u128::from(seconds) * tokens_ns || seconds > MOST_SCALED {
            return Some((limit, seconds));
        }
        // The least number of seconds that give whole tokens.
        let whole = period_ns / greatest_common_divisor(tokens_ns, period_ns);
        if let Ok(whole @ 1..=MOST_SCALED) = u64::try_from(whole) {
            let window = seconds.next_multiple_of(whole);
            let flows_in = tokens_ns.checked_mul(window.into())? / period_ns;
            return Some((u64::try_from(flows_in).unwrap_or(u64::MAX), window));
        }
        // A number of refills such that rounding up is at most 1 %.
        let times = (u128::from(MOST_SCALED) * tokens_ns).div_ceil(fills_ns);
        let window = times.checked_mul(fills_ns)?.div_ceil(tokens_ns);
        let quota = times.checked_mul(limit.into())?;
        Some((
            u64::try_from(quota).unwrap_or(u64::MAX),
            u64::try_from(window).ok()?,
        ))
    }
}

const NS_PER_SECOND: u128 = 1_000_000_000;

/// The longest window that is chosen such that its quota is a whole number, in seconds.
const MOST_SCALED: u64 = 100;

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

/// The time after which `answer` would be yes; 1 ns if it is yes already.
fn time_until(answer: Result<(), Denied>) -> Option<Duration> {
    match answer {
        Ok(()) => Some(Duration::from_nanos(1)),
        Err(denied) => denied.retry_after(),
    }
}

/// Whether a token takes one second or less.
fn is_one_a_second(quota: Quota) -> bool {
    quota.period() <= Duration::from_secs(quota.count())
}

/// The limit and what remains, in tokens.
fn in_tokens(snapshot: Snapshot, token: u64) -> (u64, u64) {
    match token {
        1 => (snapshot.limit, snapshot.remaining),
        token => (snapshot.limit / token, snapshot.remaining / token),
    }
}

/// Reports the state of `limiter`, each of its quotas separately.
pub(crate) fn of_limiter(
    names: &Names,
    limiter: &dyn Limiter,
    mut tell: impl FnMut(&Standing<'_>),
) {
    let policy = limiter.policy();
    if policy.is_none()
        && let Some(states) = limiter.quota_states()
    {
        of_quotas(names, &states, tell);
        return;
    }
    tell(&Standing::of_limiter(&names.limit, limiter, policy));
}

/// Reports the state of each of two quotas.
pub(super) fn of_quotas(
    names: &Names,
    states: &[QuotaState; 2],
    mut tell: impl FnMut(&Standing<'_>),
) {
    for (name, state) in names.quotas.iter().zip(states) {
        tell(&Standing::of_quota(name, state));
    }
}

/// The time for each token of `limiter`, by its faster quota.
///
/// `None` without a quota.
pub fn each(limiter: &dyn Limiter) -> Option<Duration> {
    match limiter.policy() {
        Some(policy) => Some(each_of(policy.quota)),
        None => limiter
            .quota_states()?
            .map(|state| each_of(state.quota))
            .into_iter()
            .min(),
    }
}

/// The time for each token.
pub(super) fn each_of(quota: Quota) -> Duration {
    let each = quota.period().as_nanos() / u128::from(quota.count().max(1));
    Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX))
}
