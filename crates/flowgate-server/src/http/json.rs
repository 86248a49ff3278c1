//! `POST /json`: a `RateLimitRequest` of Envoy as JSON, answered as envoyproxy/ratelimit answers it.

use super::{Reply, Wrong, json_reply, problem, undecided};
use crate::bounds::{MAX_DESCRIPTORS, MAX_ENTRIES, MAX_ENTRY};
use crate::config::Unit;
use crate::decision::{Descriptor, DescriptorEntry, Status};
use crate::limits::DecideLimits;
use flowgate::Quota;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Names are as in JSON or as in the protocol buffer: both are valid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<OneDescriptor>,
    #[serde(default, alias = "hitsAddend")]
    hits_addend: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneDescriptor {
    #[serde(default)]
    entries: Vec<OneEntry>,
    limit: Option<Override>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneEntry {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    #[serde(alias = "requestsPerUnit")]
    requests_per_unit: Number,
    unit: String,
}

/// Protocol buffers write large numbers as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl Number {
    fn get(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// Why a request is refused unread.
type Why = String;

pub(super) async fn answer(limits: &DecideLimits, body: &[u8]) -> Result<Reply, Wrong> {
    let bad = |why: Why| problem(StatusCode::BAD_REQUEST, why);
    let request: Request = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    let entries = entries(&request).map_err(bad)?;
    let descriptors = descriptors(&request, &entries).map_err(bad)?;
    let hits = number(request.hits_addend.as_ref()).map_err(bad)?;
    // In a protocol buffer without presence, 0 is what is absent.
    let hits = hits.filter(|hits| *hits != 0).unwrap_or(1);
    let decision = limits.decide(&request.domain, &descriptors, hits);
    let decision = decision.await.map_err(undecided)?;
    let (code, status) = match decision.is_over {
        false => ("OK", StatusCode::OK),
        true => ("OVER_LIMIT", StatusCode::TOO_MANY_REQUESTS),
    };
    let statuses: Vec<_> = decision.statuses.iter().map(status_json).collect();
    let value = json!({ "overallCode": code, "statuses": statuses });
    Ok(json_reply(status, &value))
}

fn entries(request: &Request) -> Result<Vec<Vec<DescriptorEntry<'_>>>, Why> {
    if request.domain.is_empty() {
        return Err("rate limit domain must not be empty".to_owned());
    }
    if request.descriptors.is_empty() {
        return Err("rate limit descriptor list must not be empty".to_owned());
    }
    if request.descriptors.len() > MAX_DESCRIPTORS {
        return Err(format!("more than {MAX_DESCRIPTORS} descriptors"));
    }
    let of = |descriptor: &'_ OneDescriptor| descriptor.entries.len() > MAX_ENTRIES;
    if request.descriptors.iter().any(of) {
        return Err(format!("more than {MAX_ENTRIES} entries in a descriptor"));
    }
    let all = || {
        request
            .descriptors
            .iter()
            .flat_map(|descriptor| &descriptor.entries)
    };
    if all().any(|entry| entry.key.len() + entry.value.len() > MAX_ENTRY) {
        return Err("a key and its value are longer than 4 KiB".to_owned());
    }
    Ok(request
        .descriptors
        .iter()
        .map(|descriptor| descriptor.entries.iter().map(OneEntry::entry).collect())
        .collect())
}

impl OneEntry {
    fn entry(&self) -> DescriptorEntry<'_> {
        DescriptorEntry {
            key: &self.key,
            value: self.value.as_bytes(),
        }
    }
}

fn descriptors<'a>(
    request: &Request,
    entries: &'a [Vec<DescriptorEntry<'a>>],
) -> Result<Vec<Descriptor<'a>>, Why> {
    let of = |(descriptor, entries): (&OneDescriptor, &'a Vec<DescriptorEntry<'a>>)| {
        Ok(Descriptor {
            entries,
            hits: number(descriptor.hits_addend.as_ref())?,
            quota: descriptor.limit.as_ref().map(quota).transpose()?,
        })
    };
    request.descriptors.iter().zip(entries).map(of).collect()
}

fn number(number: Option<&Number>) -> Result<Option<u64>, Why> {
    let Some(number) = number else {
        return Ok(None);
    };
    match number.get() {
        Some(number) => Ok(Some(number)),
        None => Err("hitsAddend is a whole number from 0".to_owned()),
    }
}

fn quota(limit: &Override) -> Result<Quota, Why> {
    let is_it = |unit: &Unit| unit.name() == limit.unit;
    let unit = Unit::ALL.into_iter().find(is_it).ok_or("no such unit")?;
    let count = limit
        .requests_per_unit
        .get()
        .ok_or("requestsPerUnit is a whole number")?;
    Quota::new(count, unit.length()).map_err(|error| error.to_string())
}

/// Numbers that are 0 are left out, as in all JSON of protocol buffers.
fn status_json(status: &Status<'_>) -> Value {
    let mut fields = Map::new();
    let code = if status.is_over { "OVER_LIMIT" } else { "OK" };
    fields.insert("code".to_owned(), code.into());
    let Some(rule) = status.rule else {
        return Value::Object(fields);
    };
    if let Some((requests, unit)) = rule.per_unit() {
        let mut limit = Map::new();
        if let Some(name) = rule.own_name() {
            limit.insert("name".to_owned(), name.into());
        }
        if requests > 0 {
            limit.insert("requestsPerUnit".to_owned(), capped(requests).into());
        }
        if let Some(unit) = unit {
            limit.insert("unit".to_owned(), unit.name().into());
        }
        fields.insert("currentLimit".to_owned(), limit.into());
    }
    if status.remaining > 0 {
        fields.insert("limitRemaining".to_owned(), capped(status.remaining).into());
    }
    let wait = match status.is_over {
        true => status.retry_after,
        false => Some(status.reset_after).filter(|reset| !reset.is_zero()),
    };
    if let Some(wait) = wait {
        fields.insert("durationUntilReset".to_owned(), seconds(wait).into());
    }
    Value::Object(fields)
}

/// What a protocol buffer has room for.
fn capped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whole seconds, rounded up: Envoy drops parts of a second.
fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs() + u64::from(time.subsec_nanos() > 0))
}
