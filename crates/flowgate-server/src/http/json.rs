//! `POST /json`: a `RateLimitRequest` of Envoy as JSON, answered as envoyproxy/ratelimit answers it.

use super::{Reply, Wrong, json_reply, problem, undecided};
use crate::compare::Comparer;
use crate::config::Unit;
use crate::decision::{Descriptor, DescriptorEntry, Status};
use crate::envoy::{self, Why};
use crate::limits::DecideLimits;
use crate::trace::Traced;
use flowgate::Quota;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Names are as in JSON or as in the protocol buffer: both are valid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    #[serde(borrow, default)]
    domain: Cow<'a, str>,
    #[serde(borrow, default)]
    descriptors: Vec<OneDescriptor<'a>>,
    #[serde(default, alias = "hitsAddend")]
    hits_addend: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneDescriptor<'a> {
    #[serde(borrow, default)]
    entries: Vec<OneEntry<'a>>,
    limit: Option<Override>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number>,
    #[serde(default, alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneEntry<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
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

pub(super) async fn answer(
    limits: &DecideLimits,
    other: Option<&Comparer>,
    body: &[u8],
    traced: &mut Traced,
) -> Result<Reply, Wrong> {
    let bad = |why: Why| problem(StatusCode::BAD_REQUEST, why);
    let request: Request<'_> =
        serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    envoy::check(
        &request.domain,
        &request.descriptors,
        |descriptor| &descriptor.entries,
        |entry| entry.key.len() + entry.value.len(),
    )
    .map_err(bad)?;
    let entries = entries(&request);
    let descriptors = descriptors(&request, &entries).map_err(bad)?;
    let hits = number(request.hits_addend.as_ref()).map_err(bad)?;
    // In a protocol buffer without presence, 0 is what is absent.
    let hits = hits.filter(|hits| *hits != 0).unwrap_or(1);
    let decision = limits.decide(&request.domain, &descriptors, hits);
    let decision = decision.await;
    traced.decided(&decision);
    let decision = decision.map_err(undecided)?;
    if let Some(other) = other {
        other.ask(&request.domain, &descriptors, hits, &decision);
    }
    let (code, status) = match decision.is_over {
        false => ("OK", StatusCode::OK),
        true => ("OVER_LIMIT", StatusCode::TOO_MANY_REQUESTS),
    };
    let statuses = decision.statuses.iter().zip(&descriptors);
    let response = Response {
        overall_code: code,
        statuses: statuses
            .map(|(status, descriptor)| OneStatus::of(status, descriptor.quota.as_ref()))
            .collect(),
    };
    Ok(json_reply(status, &response))
}

/// Answers a request by limits in memory, for fuzzing: the status and the body.
///
/// `None`: it is refused without a decision.
#[doc(hidden)]
pub fn json_answer(limits: &DecideLimits, request: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut traced = Traced::not_sampled();
    let reply = answer(limits, None, request, &mut traced).now_or_never()?;
    let reply = reply.ok()?;
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().now_or_never()?.ok()?;
    Some((status, body.to_bytes().into()))
}

fn entries<'a>(request: &'a Request<'_>) -> Vec<Vec<DescriptorEntry<'a>>> {
    let all = request.descriptors.iter();
    all.map(|descriptor| descriptor.entries.iter().map(OneEntry::entry).collect())
        .collect()
}

impl OneEntry<'_> {
    fn entry(&self) -> DescriptorEntry<'_> {
        DescriptorEntry {
            key: &self.key,
            value: self.value.as_bytes(),
        }
    }
}

fn descriptors<'a>(
    request: &Request<'_>,
    entries: &'a [Vec<DescriptorEntry<'a>>],
) -> Result<Vec<Descriptor<'a>>, Why> {
    let of = |(descriptor, entries): (&OneDescriptor<'_>, &'a Vec<DescriptorEntry<'a>>)| {
        Ok(Descriptor {
            entries,
            hits: number(descriptor.hits_addend.as_ref())?,
            is_refund: descriptor.is_negative_hits,
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
    let unit = Unit::ALL.into_iter().find(is_it).ok_or_else(|| {
        let units = Unit::ALL.map(Unit::name).join(", ");
        format!("no unit `{}`: write one of {units}", limit.unit)
    })?;
    let count = limit
        .requests_per_unit
        .get()
        .ok_or("requestsPerUnit is a whole number")?;
    envoy::own_quota(count, unit)
}

/// Numbers that are 0 are left out, as in all JSON of protocol buffers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    overall_code: &'static str,
    statuses: Vec<OneStatus<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneStatus<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<OneLimit<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneLimit<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> OneStatus<'a> {
    fn of(status: &Status<'a>, own: Option<&Quota>) -> Self {
        let current = envoy::current_limit(status, own);
        Self {
            code: if status.is_over { "OVER_LIMIT" } else { "OK" },
            current_limit: current.map(|current| OneLimit {
                name: current.name,
                requests_per_unit: current.requests_per_unit,
                unit: current.unit.map(Unit::name),
            }),
            duration_until_reset: envoy::until_reset(status).map(|seconds| format!("{seconds}s")),
            limit_remaining: envoy::capped(status.remaining),
        }
    }
}
