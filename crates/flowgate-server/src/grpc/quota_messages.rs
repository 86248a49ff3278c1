//! The messages of `envoy/service/rate_limit_quota/v3/rlqs.proto`, as far as this server reads and writes them.
//!
//! The tests compare their bytes with Envoy's own definitions. A field that is not here is skipped.

use super::messages::WholeSeconds;
use crate::rlqs::Bucket;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitQuotaUsageReports {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) bucket_quota_usages: Vec<BucketQuotaUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketQuotaUsage {
    #[prost(message, optional, tag = "1")]
    pub(super) bucket_id: Option<BucketId>,
    /// In Envoy, whole seconds. 0 or absent if the bucket is new.
    #[prost(message, optional, tag = "2")]
    pub(super) time_elapsed: Option<WholeSeconds>,
    #[prost(uint64, tag = "3")]
    pub(super) num_requests_allowed: u64,
    #[prost(uint64, tag = "4")]
    pub(super) num_requests_denied: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketId {
    /// Text in Envoy's definition. Values of header fields need not be UTF-8, and the bytes are the same.
    #[prost(btree_map = "string, bytes", tag = "1")]
    pub(super) bucket: Bucket,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitQuotaResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) bucket_action: Vec<BucketAction>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketAction {
    #[prost(message, optional, tag = "1")]
    pub(super) bucket_id: Option<BucketId>,
    #[prost(oneof = "Action", tags = "2, 3")]
    pub(super) action: Option<Action>,
}

/// `BucketAction.bucket_action`.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Action {
    #[prost(message, tag = "2")]
    Assign(QuotaAssignmentAction),
    #[prost(message, tag = "3")]
    Abandon(AbandonAction),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QuotaAssignmentAction {
    #[prost(message, optional, tag = "2")]
    pub(super) assignment_time_to_live: Option<WholeSeconds>,
    #[prost(message, optional, tag = "3")]
    pub(super) rate_limit_strategy: Option<RateLimitStrategy>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AbandonAction {}

/// `envoy.type.v3.RateLimitStrategy`. Envoy drops `requests_per_time_unit`, which is missing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitStrategy {
    #[prost(oneof = "Strategy", tags = "1, 3")]
    pub(super) strategy: Option<Strategy>,
}

/// `RateLimitStrategy.strategy`.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Strategy {
    /// A [`blanket`].
    #[prost(int32, tag = "1")]
    BlanketRule(i32),
    #[prost(message, tag = "3")]
    TokenBucket(TokenBucket),
}

/// `envoy.type.v3.TokenBucket`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TokenBucket {
    #[prost(uint32, tag = "1")]
    pub(super) max_tokens: u32,
    /// A `google.protobuf.UInt32Value`.
    #[prost(message, optional, tag = "2")]
    pub(super) tokens_per_fill: Option<u32>,
    #[prost(message, optional, tag = "3")]
    pub(super) fill_interval: Option<WholeSeconds>,
}

/// `RateLimitStrategy.BlanketRule`.
pub(super) mod blanket {
    pub(in crate::grpc) const ALLOW_ALL: i32 = 0;
    pub(in crate::grpc) const DENY_ALL: i32 = 1;
}
