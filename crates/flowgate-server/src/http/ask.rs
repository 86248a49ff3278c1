//! `POST /v1/ask {"limit": "users", "key": "alice", "n": 1}`

use super::{Question, Reply, Wrong, json_reply, milliseconds, problem};
use crate::limits::DecideLimits;
use crate::trace::Traced;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    limit: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    n: Option<u64>,
}

#[derive(Serialize)]
struct Answer {
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
}

pub(super) async fn answer(
    limits: &DecideLimits,
    body: &[u8],
    traced: &mut Traced,
) -> Result<Reply, Wrong> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|error| {
        let what = format!(r#"{error}; write {{"limit": "users", "key": "alice", "n": 1}}"#);
        problem(StatusCode::BAD_REQUEST, what)
    })?;
    let question = Question {
        limit: &body.limit,
        key: body.key.as_bytes(),
        n: body.n.unwrap_or(1),
        deny: StatusCode::TOO_MANY_REQUESTS,
    };
    let answer = question.answer(limits, traced, |status| {
        let answer = Answer {
            limit: status.limit,
            remaining: status.remaining,
            reset_after_ms: milliseconds(status.reset_after),
        };
        json_reply(StatusCode::OK, &answer)
    });
    answer.await
}
