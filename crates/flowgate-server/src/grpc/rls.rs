//! `RateLimitService/ShouldRateLimit`: a request of Envoy to a decision, and the decision to a response.

use super::messages::{
    DescriptorStatus, Entry, HeaderField, ListValue, RateLimit, RateLimitOverride,
    RateLimitRequest, RateLimitResponse, Struct, Value, WholeSeconds, code, unit,
};
use crate::compare::Comparer;
use crate::decision::{Descriptor, DescriptorEntry, LimitDecision, Status, Undecided};
use crate::envoy::{self, Why};
use crate::limits::DecideLimits;
use crate::trace::{Operation, Traced};
use flowgate::Quota;
use flowgate_fleet::CutOff;
use prost::bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Instant;
use tonic::Code;

pub(super) const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
pub(super) const OPERATION: Operation = Operation::Grpc {
    service: SERVICE,
    method: "ShouldRateLimit",
};
pub(super) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Decides, and waits for a store until `decided_by` at the latest.
///
/// # Errors
///
/// Returns a status if the request has no domain or no descriptors, is too large, or names a quota that cannot be kept; and if a
/// store leaves it undecided.
pub(super) async fn answer(
    limits: &DecideLimits,
    decided_by: Option<Instant>,
    other: Option<&Comparer>,
    request: &RateLimitRequest,
    traced: &mut Traced,
) -> Result<RateLimitResponse, tonic::Status> {
    let entries = entries(request).map_err(tonic::Status::invalid_argument)?;
    let descriptors = descriptors(request, &entries).map_err(tonic::Status::invalid_argument)?;
    let hits = request.hits_addend.max(1);
    let decision = limits
        .decide_until(&request.domain, &descriptors, hits.into(), decided_by)
        .await;
    traced.decided(&decision);
    let decision = decision.map_err(undecided)?;
    if let Some(other) = other {
        other.ask(&request.domain, &descriptors, hits.into(), &decision);
    }
    Ok(response(&decision, &descriptors))
}

/// An outage is not a refusal: the request was not decided.
fn undecided(undecided: Undecided) -> tonic::Status {
    let code = match undecided {
        Undecided::Unknown(_) => Code::InvalidArgument,
        Undecided::Outage | Undecided::Busy => Code::Unavailable,
        Undecided::Refund => Code::Unimplemented,
        Undecided::Assigned => Code::FailedPrecondition,
    };
    tonic::Status::new(code, undecided.to_string())
}

/// The entries of all descriptors, one after the other.
fn entries(request: &RateLimitRequest) -> Result<Vec<DescriptorEntry<'_>>, Why> {
    envoy::check(
        &request.domain,
        &request.descriptors,
        |descriptor| &descriptor.entries,
        |entry| entry.key.len() + entry.value.len(),
    )?;
    let all = request.descriptors.iter();
    let all = all.flat_map(|descriptor| &descriptor.entries);
    Ok(all.map(Entry::entry).collect())
}

fn descriptors<'a>(
    request: &RateLimitRequest,
    entries: &'a [DescriptorEntry<'a>],
) -> Result<Vec<Descriptor<'a>>, Why> {
    let mut rest = entries;
    let mut descriptors = Vec::with_capacity(request.descriptors.len());
    for descriptor in &request.descriptors {
        let (entries, others) = rest.split_at(descriptor.entries.len());
        rest = others;
        descriptors.push(Descriptor {
            entries,
            hits: descriptor.hits_addend,
            is_refund: descriptor.is_negative_hits,
            quota: descriptor.limit.as_ref().map(quota).transpose()?,
        });
    }
    Ok(descriptors)
}

impl Entry {
    fn entry(&self) -> DescriptorEntry<'_> {
        DescriptorEntry {
            key: &self.key,
            value: &self.value,
        }
    }
}

fn quota(limit: &RateLimitOverride) -> Result<Quota, Why> {
    let unit = unit::of(limit.unit).ok_or("the unit of a limit is not known")?;
    envoy::own_quota(limit.requests_per_unit.into(), unit)
}

fn response(decision: &LimitDecision<'_>, descriptors: &[Descriptor<'_>]) -> RateLimitResponse {
    let statuses = decision.statuses.iter().zip(descriptors);
    RateLimitResponse {
        overall_code: code_of(decision.is_over),
        statuses: statuses
            .map(|(status, descriptor)| descriptor_status(status, descriptor.quota.as_ref()))
            .collect(),
        response_headers_to_add: headers(decision, descriptors),
        dynamic_metadata: metadata(&decision.statuses),
    }
}

const fn code_of(is_over: bool) -> i32 {
    match is_over {
        true => code::OVER_LIMIT,
        false => code::OK,
    }
}

fn descriptor_status(status: &Status<'_>, own: Option<&Quota>) -> DescriptorStatus {
    let limit = envoy::current_limit(status, own);
    DescriptorStatus {
        code: code_of(status.is_over),
        current_limit: limit.map(|limit| RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, unit::number),
            name: limit.name.unwrap_or_default().to_owned(),
        }),
        limit_remaining: envoy::capped(status.remaining),
        duration_until_reset: envoy::until_reset(status).map(|seconds| WholeSeconds {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        }),
    }
}

/// The fields that Envoy adds to the response for its client: of each limit that can refuse, and the time of a retry.
fn headers(decision: &LimitDecision<'_>, descriptors: &[Descriptor<'_>]) -> Vec<HeaderField> {
    let mut fields: Vec<HeaderField> = Vec::with_capacity(3);
    for (status, descriptor) in decision.statuses.iter().zip(descriptors) {
        let Some(rule) = status.rule.filter(|rule| !rule.is_shadow()) else {
            continue;
        };
        // The table knows no quota that a request names.
        let is_own = descriptor.quota.is_some() && rule.allow_override();
        if is_own {
            continue;
        }
        let Some((policy, standing)) = status.draft(&rule.key(descriptor.entries)) else {
            continue;
        };
        let policy = policy.to_str().unwrap_or_default();
        match &mut fields[..] {
            [policies, standings] => {
                policies.add(policy);
                standings.add(&standing);
            }
            _ => {
                fields.push(HeaderField::new("ratelimit-policy", policy.to_owned()));
                fields.push(HeaderField::new("ratelimit", standing));
            }
        }
    }
    if let Some(wait) = decision.retry_after() {
        // Never 0, which would mean "now".
        let seconds = envoy::whole_seconds(wait).max(1);
        fields.push(HeaderField::new("retry-after", seconds.to_string()));
    }
    fields
}

impl HeaderField {
    const fn new(key: &'static str, value: String) -> Self {
        Self {
            key: Bytes::from_static(key.as_bytes()),
            value,
        }
    }

    /// Adds an item to a list.
    fn add(&mut self, item: &str) {
        self.value.push_str(", ");
        self.value.push_str(item);
    }
}

/// The names of the limits that refuse, of the shadow rules that would, and of the limits that were decided without their store, with what
/// decided. `None` if there are none.
fn metadata(statuses: &[Status<'_>]) -> Option<Struct> {
    let names = |is_there: fn(&Status<'_>) -> bool| {
        let there = statuses.iter().filter(move |status| is_there(status));
        there.filter_map(|status| status.rule)
    };
    let mut fields = BTreeMap::new();
    let lists = [
        ("over_limit", names(|status| status.is_over)),
        (
            "shadow_over_limit",
            names(|status| status.is_over_in_shadow),
        ),
    ];
    for (key, rules) in lists {
        let values: Vec<_> = rules.map(|rule| Value::of(rule.name())).collect();
        if !values.is_empty() {
            fields.insert(key.to_owned(), Value::from(ListValue { values }));
        }
    }
    let degraded = names(|status| status.is_degraded).filter_map(|rule| {
        let mode = match rule.stored()?.cut_off() {
            CutOff::Share(of, nodes) => Value::of(&format!("{of}/{nodes}")),
            CutOff::Admit => Value::of("admit"),
            // A shadow rule.
            _ => Value::of("deny"),
        };
        Some((rule.name().to_owned(), mode))
    });
    let degraded: BTreeMap<_, _> = degraded.collect();
    if !degraded.is_empty() {
        fields.insert(
            "degraded".to_owned(),
            Value::from(Struct { fields: degraded }),
        );
    }
    Some(Struct { fields }).filter(|metadata| !metadata.fields.is_empty())
}

impl Value {
    fn of(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            ..Self::default()
        }
    }
}

impl From<ListValue> for Value {
    fn from(list: ListValue) -> Self {
        Self {
            list: Some(list),
            ..Self::default()
        }
    }
}

impl From<Struct> for Value {
    fn from(fields: Struct) -> Self {
        Self {
            fields: Some(fields),
            ..Self::default()
        }
    }
}
