//! `GET /limits?limit=users&key=alice`: what limits hold, how much they may have been exceeded by, and what is out.
//! `DELETE` sets a key back to full.

use super::query::pairs;
use super::{Reply, Wrong, json_reply, problem, undecided};
use crate::limits::{DecideLimits, Key, Rule, Unknown};
use crate::view::RuleView;
use hyper::StatusCode;
use serde_json::{Value, json};

/// The limit and the key that an operator asks for.
#[derive(Debug)]
pub(super) struct Wanted {
    /// `None`: all limits.
    limit: Option<String>,
    key: Option<Vec<u8>>,
}

impl Wanted {
    pub(super) fn parse(query: &str) -> Result<Self, Wrong> {
        let bad = |detail: &str| problem(StatusCode::BAD_REQUEST, detail);
        let (mut limit, mut key) = (None, None);
        for (name, value) in pairs(query) {
            let Some(value) = value else {
                return Err(bad("a `%` without two hexadecimal digits"));
            };
            match name {
                "limit" => limit = Some(String::from_utf8_lossy(&value).into_owned()),
                "key" => key = Some(value.into_owned()),
                _ => return Err(bad("unknown parameter: write limit and key")),
            }
        }
        if limit.is_none() && key.is_some() {
            return Err(bad("no limit: write /limits?limit=NAME&key=KEY"));
        }
        Ok(Self { limit, key })
    }
}

/// Returns a limit, with what is left of a key, or all limits. It reads every entry of their tables.
pub(super) fn show(limits: &DecideLimits, wanted: &Wanted) -> Result<Reply, Wrong> {
    let Some(name) = &wanted.limit else {
        let mut rules: Vec<_> = limits.rules().collect();
        rules.sort_by_key(|rule| rule.id());
        let all = rules.into_iter().map(|rule| state(limits, rule, None));
        return Ok(json_reply(StatusCode::OK, &all.collect::<Vec<_>>()));
    };
    let rule = limits.rule_of_name(name).map_err(unknown)?;
    let key = match &wanted.key {
        // A limit without keys has the empty one.
        None if rule.has_keys() => None,
        key => Some(
            rule.key_of_value(key.as_deref().unwrap_or_default())
                .map_err(unknown)?,
        ),
    };
    Ok(json_reply(
        StatusCode::OK,
        &state(limits, rule, key.as_ref()),
    ))
}

/// Sets a key back to full.
pub(super) fn reset(limits: &DecideLimits, wanted: &Wanted) -> Result<Reply, Wrong> {
    let Some(name) = &wanted.limit else {
        return Err(problem(
            StatusCode::BAD_REQUEST,
            "no limit: write /limits?limit=NAME&key=KEY",
        ));
    };
    let rule = limits.rule_of_name(name).map_err(unknown)?;
    if rule.has_keys() && wanted.key.is_none() {
        return Err(problem(
            StatusCode::BAD_REQUEST,
            "this limit has keys: write one, as &key=KEY in a URL or --key KEY of the command",
        ));
    }
    let value = wanted.key.as_deref().unwrap_or_default();
    let key = rule.key_of_value(value).map_err(unknown)?;
    let Some(was_full) = rule.reset(&key) else {
        let what = match (rule.stored(), rule.reports()) {
            (Some(_), _) => {
                "this limit is in a store: write flowgate fleet reset and the address of that store"
            }
            (_, Some(_)) => "Envoys hold parts of this limit, which cannot be set back",
            _ => "nothing is kept of this limit",
        };
        return Err(problem(StatusCode::NOT_IMPLEMENTED, what));
    };
    Ok(json_reply(
        StatusCode::OK,
        &json!({ "limit": rule.id(), "was_full": was_full }),
    ))
}

fn unknown(unknown: Unknown) -> Wrong {
    undecided(unknown.into())
}

/// Returns the state of a limit. No name of a key is in it.
fn state(limits: &DecideLimits, rule: &Rule, key: Option<&Key<'_>>) -> Value {
    let bound = rule.bound();
    let view = RuleView::bounded(rule, &bound);
    let kept = match (rule.table(), rule.stored(), rule.reports()) {
        (Some(_), ..) => "memory",
        (_, Some(_), _) => "store",
        (.., Some(_)) => "envoys",
        _ => "nothing",
    };
    let standing = key.and_then(|key| rule.standing(key, None));
    json!({
        "limit": view.id,
        "name": rule.own_name(),
        "quota": view.quota,
        "is_shadow": view.is_shadow,
        "kept": kept,
        "is_connected": rule.stored().map(|stored| stored.is_connected()),
        "keys": rule.table().map(|table| table.len()),
        "capacity": rule.table().map(|table| table.capacity()),
        "decisions": {
            "admitted": view.counts.admitted,
            "refused": view.counts.refused,
            "refused_in_shadow": view.counts.refused_in_shadow,
            "not_taken": view.counts.not_taken,
            "undecided": view.counts.undecided,
        },
        "beyond": {
            "total": view.beyond,
            "in_flight": bound.in_flight,
            "leased": bound.leased,
            "forgotten": bound.forgotten,
            "reset": bound.reset,
            "alone": bound.alone,
            "others_alone": bound.others_alone,
        },
        "assigned": rule.reports().map(|_| {
            let out = limits.quotas().out(rule, key, limits.time().clock().now());
            json!({
                "keys": out.keys,
                "buckets": out.buckets,
                "tokens": out.tokens,
                "per_second": out.per_second,
            })
        }),
        "of_key": standing.map(|standing| json!({
            "available": standing.remaining,
            "burst": standing.limit,
            "full_in_s": standing.reset_after.as_secs_f64(),
        })),
    })
}
