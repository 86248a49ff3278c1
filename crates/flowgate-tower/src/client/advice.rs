//! What a response asks of its client.

use super::countdown::Sight;
use super::reset::Reset;
use super::told::{self, Item};
use crate::ResponseHead;
use http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use http::{Response, StatusCode};
use std::time::{Duration, SystemTime};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// What to make of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// The request was let through, and more may follow.
    Fine,
    /// The request was let through, and nothing is left.
    Rest(Rest),
    /// The request was refused.
    Stop(Stop),
}

/// The time until there is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// The least that it can be: `t` is rounded up.
    pub(super) certain: Duration,
    /// The most that it can be, by the server's own rate.
    pub(super) full: Duration,
    /// The most that it can be.
    pub(super) most: Duration,
    /// The server's time for each request.
    pub(super) each: Option<Duration>,
}

impl Rest {
    /// Whether `full` is known to be of use: it is exact, or bounded by the server's own rate.
    pub(super) fn is_bounded(&self) -> bool {
        self.each.is_some() || self.certain == self.full
    }

    /// As `full`, with `times` as much for what rounding up can have added.
    pub(super) fn longer(&self, times: u32) -> Duration {
        let rounded = self.full.saturating_sub(self.certain);
        let longer = rounded.saturating_mul(times).saturating_add(self.certain);
        longer.min(self.most)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stop {
    /// The time after which to ask again, if the response has one.
    pub(super) time: Option<Duration>,
    /// The server's time for each request.
    pub(super) each: Option<Duration>,
}

/// Whether the server refused the request, because of a limit or of overload.
pub(super) fn is_refusal(response: ResponseHead<'_>) -> bool {
    let is_http = matches!(
        response.status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    is_http || is_grpc_refusal(response.headers)
}

/// What `response` asks for. `now` is for dates. `RateLimit` is only read if it `heeds_rate_limit`.
pub(super) fn advice<B>(response: &Response<B>, now: SystemTime, heeds_rate_limit: bool) -> Advice {
    let headers = response.headers();
    let rest = heeds_rate_limit.then(|| rest(headers)).flatten();
    let pushback = match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => None,
        _ if is_grpc_refusal(headers) => headers.get(GRPC_PUSHBACK),
        _ => return rest.map_or(Advice::Fine, Advice::Rest),
    };
    let exactly = rest.filter(|rest| rest.certain == rest.full);
    let time = match pushback {
        // One that is negative or cannot be read asks not to try again, and has no time.
        Some(text) => text
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .map(|millis| exact(Duration::from_millis(millis), exactly, MILLISECOND)),
        // It takes precedence (draft-ietf-httpapi-ratelimit-headers-11 §6).
        None => headers
            .get(RETRY_AFTER)
            .and_then(|value| told::retry_after(value, now))
            .map(|told| exact(told, exactly, SECOND))
            .or(rest.map(|rest| rest.full)),
    };
    let each = rest.and_then(|rest| rest.each);
    Advice::Stop(Stop { time, each })
}

/// What a response tells of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) sight: Option<Sight>,
    pub(super) reset: Option<Reset>,
}

impl Heard {
    pub(super) fn of(headers: &HeaderMap, heeds_rate_limit: bool) -> Self {
        match heeds_rate_limit {
            true => Self {
                sight: sight(headers),
                reset: told::reset(headers),
            },
            false => Self::default(),
        }
    }
}

/// What remains of the limit of which the least does, if its `t` is too coarse for its policy.
fn sight(headers: &HeaderMap) -> Option<Sight> {
    let sights = told::standings(headers).filter_map(|standing| {
        let remaining = standing.remaining?;
        let policy = told::policy_of(headers, standing)?;
        (policy.each < SECOND).then_some(Sight { remaining, policy })
    });
    sights.min_by_key(|sight| sight.remaining)
}

/// The exact time if `told` is that time rounded up to units, and at least 1 unit; else `told`.
fn exact(told: Duration, exactly: Option<Rest>, unit: Duration) -> Duration {
    let is_rounded = |rest: &Rest| {
        let units = rest.full.as_nanos().div_ceil(unit.as_nanos()).max(1);
        units * unit.as_nanos() == told.as_nanos()
    };
    exactly.filter(is_rounded).map_or(told, |rest| rest.full)
}

/// Whether this is a response of trailers alone, which are then headers, that says RESOURCE_EXHAUSTED or UNAVAILABLE.
fn is_grpc_refusal(headers: &HeaderMap) -> bool {
    let status = headers.get(GRPC_STATUS);
    status.is_some_and(|status| matches!(status.as_bytes(), b"8" | b"14"))
}

/// The longest of the times of those limits of which nothing is left.
fn rest(headers: &HeaderMap) -> Option<Rest> {
    let used_up = told::standings(headers).filter(|standing| standing.remaining == Some(0));
    let rests = used_up.filter_map(|standing| rest_of(headers, standing));
    rests.max_by_key(|rest| (rest.full, rest.certain))
}

fn rest_of(headers: &HeaderMap, standing: Item<'_>) -> Option<Rest> {
    let policy = told::policy_of(headers, standing);
    let window = policy.map_or(Duration::MAX, |policy| policy.window);
    let each = policy.map(|policy| policy.each);
    let (certain, full, most) = match (standing.exactly(), standing.more_after) {
        // A window in segments takes longer than its length, but not twice as long.
        (Some(exactly), _) => {
            let exactly = exactly.min(window.saturating_mul(2));
            (exactly, exactly, exactly)
        }
        (None, Some(seconds)) => {
            let certain = Duration::from_secs(seconds.saturating_sub(1));
            let second = Duration::from_secs(seconds) - certain;
            // The policy's own rate bounds what rounding up can have added.
            let rounded = each.map_or(second, |each| each.min(second));
            let full = certain.saturating_add(rounded);
            let most = Duration::from_secs(seconds);
            (certain.min(window), full.min(window), most.min(window))
        }
        (None, None) => return None,
    };
    Some(Rest {
        certain,
        full,
        most,
        each,
    })
}

#[cfg(test)]
mod tests;
