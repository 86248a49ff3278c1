//! `RateLimitQuotaService/StreamRateLimitQuotas`: reports of an Envoy to assignments.

use super::messages::WholeSeconds;
use super::next;
use super::quota_messages::{
    AbandonAction, Action, BucketAction, BucketId, QuotaAssignmentAction, RateLimitQuotaResponse,
    RateLimitQuotaUsageReports, RateLimitStrategy, Strategy, TokenBucket, blanket,
};
use crate::http::Site;
use crate::limits::DecideLimits;
use crate::rlqs::{Answer, Assignment, QuotaStream, TIME_TO_LIVE, Usage};
use crate::trace::{Operation, Parent, Traced};
use futures_util::stream::{Stream, try_unfold};
use prost::Message;
use std::sync::Arc;
use tonic::{Status, Streaming};

pub(super) const SERVICE: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService";
const OPERATION: Operation = Operation::Grpc {
    service: SERVICE,
    method: "StreamRateLimitQuotas",
};
pub(super) const STREAM_RATE_LIMIT_QUOTAS: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

/// Answers the reports of one Envoy, each when it comes: Envoy reports every 5 s, and for each new bucket.
pub(super) fn answers(
    site: Arc<Site>,
    reports: Streaming<RateLimitQuotaUsageReports>,
    parent: Option<Parent>,
) -> impl Stream<Item = Result<RateLimitQuotaResponse, Status>> + Send {
    let talk = Talk {
        stream: RlqsStream::open(&site.limits()),
        site,
        reports,
        parent,
    };
    try_unfold(talk, |mut talk| async {
        let answer = talk.next().await?;
        Ok(answer.map(|answer| (answer, talk)))
    })
}

struct Talk {
    /// `None`: there are too many.
    stream: Option<RlqsStream>,
    site: Arc<Site>,
    reports: Streaming<RateLimitQuotaUsageReports>,
    /// Of the spans of all reports.
    parent: Option<Parent>,
}

impl Talk {
    /// Returns the next answer. `None`: the client has ended the stream.
    async fn next(&mut self) -> Result<Option<RateLimitQuotaResponse>, Status> {
        let Some(stream) = &mut self.stream else {
            return Err(Status::resource_exhausted("too many streams"));
        };
        loop {
            let idle_time = self.site.bounds.idle_time;
            let Some(report) = next(&mut self.reports, idle_time, "no report").await? else {
                return Ok(None);
            };
            let mut traced = match &self.site.tracer {
                Some(tracer) => tracer.begin(OPERATION, self.parent),
                None => Traced::not_sampled(),
            };
            let answer = stream.answer(&self.site.limits(), report);
            traced.status_of(&answer);
            drop(traced);
            let answer = answer?;
            if !answer.bucket_action.is_empty() {
                return Ok(Some(answer));
            }
        }
    }
}

/// One Envoy, apart from its connection: a report goes in, and an answer comes out. Public for fuzzing.
#[doc(hidden)]
#[derive(Debug)]
pub struct RlqsStream {
    stream: QuotaStream,
    /// That of the first report.
    domain: String,
}

impl RlqsStream {
    /// Opens a stream. `None`: there are too many.
    pub fn open(limits: &DecideLimits) -> Option<Self> {
        Some(Self {
            stream: limits.quotas().open()?,
            domain: String::new(),
        })
    }

    /// Answers a `RateLimitQuotaUsageReports` by a `RateLimitQuotaResponse`. `None`: the report ends the stream.
    pub fn answer_bytes(&mut self, limits: &DecideLimits, report: &[u8]) -> Option<Vec<u8>> {
        let report = RateLimitQuotaUsageReports::decode(report).ok()?;
        Some(self.answer(limits, report).ok()?.encode_to_vec())
    }

    /// Answers a report. It has no actions if there is nothing to say.
    fn answer(
        &mut self,
        limits: &DecideLimits,
        report: RateLimitQuotaUsageReports,
    ) -> Result<RateLimitQuotaResponse, Status> {
        if self.domain.is_empty() {
            self.domain = report.domain;
        } else if !report.domain.is_empty() && report.domain != self.domain {
            let what = "a stream has one domain; open another stream";
            return Err(Status::invalid_argument(what));
        }
        if self.domain.is_empty() {
            return Err(Status::invalid_argument("the first report has no domain"));
        }
        let mut actions = Vec::with_capacity(report.bucket_quota_usages.len());
        for usage in report.bucket_quota_usages {
            let id = usage.bucket_id.filter(|id| !id.bucket.is_empty());
            let id = id.ok_or_else(|| Status::invalid_argument("a bucket has no id"))?;
            let usage = Usage {
                allowed: usage.num_requests_allowed,
                denied: usage.num_requests_denied,
                is_new: usage.time_elapsed.is_none_or(|time| time.seconds == 0),
            };
            let answer = self.stream.report(limits, &self.domain, &id.bucket, usage);
            actions.extend(answer.map(|answer| action(id, answer)));
        }
        Ok(RateLimitQuotaResponse {
            bucket_action: actions,
        })
    }
}

fn action(id: BucketId, answer: Answer) -> BucketAction {
    let strategy = match answer {
        Answer::Abandon => None,
        Answer::AllowAll => Some(Strategy::BlanketRule(blanket::ALLOW_ALL)),
        Answer::Assign(Assignment::DenyAll | Assignment::Keep) => {
            Some(Strategy::BlanketRule(blanket::DENY_ALL))
        }
        Answer::Assign(Assignment::Bucket {
            max_tokens,
            tokens_per_fill,
            interval_s,
        }) => Some(Strategy::TokenBucket(TokenBucket {
            max_tokens,
            tokens_per_fill: Some(tokens_per_fill),
            fill_interval: Some(seconds(interval_s)),
        })),
    };
    let action = match strategy {
        None => Action::Abandon(AbandonAction {}),
        Some(strategy) => Action::Assign(QuotaAssignmentAction {
            assignment_time_to_live: Some(seconds(TIME_TO_LIVE.as_secs())),
            rate_limit_strategy: Some(RateLimitStrategy {
                strategy: Some(strategy),
            }),
        }),
    };
    BucketAction {
        bucket_id: Some(id),
        action: Some(action),
    }
}

fn seconds(seconds: u64) -> WholeSeconds {
    WholeSeconds {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
    }
}
