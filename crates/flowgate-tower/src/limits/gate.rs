//! The limits of a gate, one by one.

use super::{Names, Standing, standing};
use flowgate::{ConcurrencyLimit, Gate, Limiter};
use std::time::Duration;

/// How many units one token is.
pub(super) fn token_of(limiter: &dyn Limiter) -> u64 {
    match limiter.policy() {
        Some(policy) => policy.quota.scale(),
        None => limiter
            .quota_states()
            .map_or(1, |[state, _]| state.quota.scale()),
    }
}

/// Returns `n` tokens to each of its rate limiters.
pub(super) fn refund(gate: &Gate, n: u64) {
    for_each_rate(gate, |limiter| {
        limiter.refund(n.saturating_mul(token_of(limiter)));
    });
}

/// Takes `n` more tokens of each of its rate limiters.
pub(super) fn charge(gate: &Gate, n: u64) {
    for_each_rate(gate, |limiter| {
        limiter.charge(n.saturating_mul(token_of(limiter)));
    });
}

/// Changes the rate limiters of `gate`.
fn for_each_rate(gate: &Gate, change: impl Fn(&dyn Limiter)) {
    for name in gate.names() {
        gate.configure_limiter(name, &change);
    }
}

pub(super) fn standings(gate: &Gate, mut tell: impl FnMut(&Standing<'_>)) {
    for name in gate.names() {
        let of_rate = gate.inspect_limiter(name, |limiter| {
            let policy = limiter.policy();
            let states = match policy {
                Some(_) => None,
                None => limiter.quota_states(),
            };
            match states {
                Some(states) => standing::of_quotas(&Names::new(name), &states, &mut tell),
                None => tell(&Standing::of_limiter(name, limiter, policy)),
            }
        });
        if of_rate.is_none()
            && let Some(snapshot) = gate.inspect(name, ConcurrencyLimit::snapshot)
        {
            tell(&Standing::of_slots(name, snapshot));
        }
    }
}

/// The time for each token of its slowest limiter. `None` if none has a quota.
pub(super) fn each(gate: &Gate) -> Option<Duration> {
    let each = |name| gate.inspect_limiter(name, standing::each).flatten();
    // The others are budgets of longer periods. They bound how many are sent, and not how fast.
    gate.names().filter_map(each).min()
}
