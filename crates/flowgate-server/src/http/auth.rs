//! `GET /auth?limit=users&key=alice&n=1&deny=403`: a question as a URL, for nginx's `auth_request` and the like.
//!
//! Where the URL cannot have the key, `header=x-user` names the field of the request that is the key.

use super::query::pairs;
use super::{Question, Reply, Wrong, problem, text};
use crate::limits::DecideLimits;
use crate::trace::Traced;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName};

pub(super) async fn answer(
    limits: &DecideLimits,
    query: &str,
    headers: &HeaderMap,
    traced: &mut Traced,
) -> Result<Reply, Wrong> {
    let bad = |detail: &str| problem(StatusCode::BAD_REQUEST, detail);
    let (mut limit, mut key) = (None, None);
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
            "key" | "header" if key.is_some() => {
                return Err(bad("more than one key: write one of key and header"));
            }
            "key" => key = Some(value),
            // As an empty variable of a proxy, a field that is missing is the empty key.
            "header" => {
                let name = HeaderName::from_bytes(&value);
                let name =
                    name.map_err(|_| bad("`header` is the name of a field, such as x-user"))?;
                key = Some(field(headers, &name).into());
            }
            _ => {
                return Err(bad(
                    "unknown parameter: write limit, key or header, n and deny",
                ));
            }
        }
    }
    let Some(limit) = limit else {
        return Err(bad("no limit: write /auth?limit=NAME&key=KEY"));
    };
    let question = Question {
        limit: &limit,
        key: key.as_deref().unwrap_or_default(),
        n,
        deny,
    };
    let answer = question.answer(limits, traced, |_| text(StatusCode::OK, ""));
    answer.await
}

/// Returns the value of the first field of this name.
fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a [u8] {
    headers.get(name).map_or(&[], |value| value.as_bytes())
}
