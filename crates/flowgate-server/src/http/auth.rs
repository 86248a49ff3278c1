//! `GET /auth?limit=users&key=alice&n=1&deny=403`: a question as a URL, for nginx's `auth_request`.

use super::query::pairs;
use super::{Question, Reply, Wrong, problem, text};
use crate::limits::DecideLimits;
use hyper::StatusCode;
use std::borrow::Cow;

pub(super) async fn answer(limits: &DecideLimits, query: &str) -> Result<Reply, Wrong> {
    let bad = |detail: &str| problem(StatusCode::BAD_REQUEST, detail);
    let (mut limit, mut key) = (None, Cow::default());
    let (mut n, mut deny) = (1, StatusCode::TOO_MANY_REQUESTS);
    for (name, value) in pairs(query) {
        let Some(value) = value else {
            return Err(bad("a `%` without two hexadecimal digits"));
        };
        let word = || std::str::from_utf8(&value).unwrap_or_default();
        match name {
            "limit" => limit = Some(String::from_utf8_lossy(&value).into_owned()),
            "n" => {
                let number = word().parse();
                n = number.map_err(|_| bad("`n` is a whole number from 0"))?;
            }
            "deny" => {
                deny = match word() {
                    "403" => StatusCode::FORBIDDEN,
                    "429" => StatusCode::TOO_MANY_REQUESTS,
                    _ => return Err(bad("`deny` is 429, or 403 for nginx")),
                }
            }
            "key" => key = value,
            _ => return Err(bad("unknown parameter: write limit, key, n and deny")),
        }
    }
    let Some(limit) = limit else {
        return Err(bad("no limit: write /auth?limit=NAME&key=KEY"));
    };
    let question = Question {
        limit: &limit,
        key: &key,
        n,
        deny,
    };
    let answer = question.answer(limits, |_| text(StatusCode::OK, ""));
    answer.await
}
