//! What to do after an answer.

use super::told;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use std::time::{Duration, SystemTime};

/// What to make of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing to complain about.
    Fine,
    /// Nothing to complain about, but nothing left either.
    Rest(Duration),
    /// Too much; for so long, if it says how long.
    Stop(Option<Duration>),
}

/// What `response` says; `now` is for dates.
pub(super) fn advice<B>(response: &Response<B>, now: SystemTime) -> Advice {
    let rest = told::rest(response.headers());
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            // It takes precedence (draft-ietf-httpapi-ratelimit-headers-11 §6).
            let value = response.headers().get(RETRY_AFTER);
            Advice::Stop(
                value
                    .and_then(|value| told::retry_after(value, now))
                    .or(rest),
            )
        }
        _ => rest.map_or(Advice::Fine, Advice::Rest),
    }
}

#[cfg(test)]
mod tests;
