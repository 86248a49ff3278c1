//! What both doors for Envoy's messages have in common: JSON and protocol buffers.

use crate::bounds::{MAX_DESCRIPTORS, MAX_ENTRIES, MAX_ENTRY};
use crate::config::Unit;
use crate::decision::Status;
use crate::limits::per_unit;
use flowgate::Quota;
use std::time::Duration;

/// Why a request is refused without a decision.
pub(crate) type Why = String;

/// Checks the domain and the sizes of a request. `entries` returns those of a descriptor, `length` the bytes of an entry.
pub(crate) fn check<D, E>(
    domain: &str,
    descriptors: &[D],
    entries: impl Fn(&D) -> &[E],
    length: impl Fn(&E) -> usize,
) -> Result<(), Why> {
    if domain.is_empty() {
        return Err("rate limit domain must not be empty".to_owned());
    }
    if descriptors.is_empty() {
        return Err("rate limit descriptor list must not be empty".to_owned());
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(format!("more than {MAX_DESCRIPTORS} descriptors"));
    }
    if descriptors
        .iter()
        .any(|one| entries(one).len() > MAX_ENTRIES)
    {
        return Err(format!("more than {MAX_ENTRIES} entries in a descriptor"));
    }
    let mut all = descriptors.iter().flat_map(entries);
    if all.any(|entry| length(entry) > MAX_ENTRY) {
        return Err("a key and its value are longer than 4 KiB".to_owned());
    }
    Ok(())
}

/// Returns the quota that a descriptor names for itself.
pub(crate) fn own_quota(requests: u64, unit: Unit) -> Result<Quota, Why> {
    Quota::new(requests, unit.length()).map_err(|error| error.to_string())
}

/// The limit of a status, as envoyproxy/ratelimit reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentLimit<'a> {
    /// The name in the configuration.
    pub(crate) name: Option<&'a str>,
    pub(crate) requests_per_unit: u32,
    /// `None`: the quota is of no such unit.
    pub(crate) unit: Option<Unit>,
}

/// Returns the limit of a status. `own` is the descriptor's quota, which counts where the rule allows it.
pub(crate) fn current_limit<'a>(
    status: &Status<'a>,
    own: Option<&Quota>,
) -> Option<CurrentLimit<'a>> {
    let rule = status.rule?;
    let own = own.filter(|_| rule.allow_override());
    let (requests, unit) = own.map(per_unit).or_else(|| rule.per_unit())?;
    Some(CurrentLimit {
        name: rule.own_name(),
        requests_per_unit: capped(requests),
        unit,
    })
}

/// Returns the seconds until a retry, or else until the limit is full: whole and rounded up, because Envoy drops parts of a second.
pub(crate) fn until_reset(status: &Status<'_>) -> Option<u64> {
    let wait = match status.is_over {
        true => status.retry_after,
        false => Some(status.reset_after).filter(|reset| !reset.is_zero()),
    };
    wait.map(whole_seconds)
}

/// Returns whole seconds, rounded up.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Returns a number as far as the messages have room for it.
pub(crate) fn capped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
