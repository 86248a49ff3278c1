//! The messages of `envoy/service/ratelimit/v3/rls.proto`, as far as this server reads and writes them.
//!
//! The tests compare their bytes with Envoy's own definitions. A field that is not here is skipped.

use prost::Message;
use prost::bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
    /// 0 cannot be told from an absent number, which means 1.
    #[prost(uint32, tag = "3")]
    pub(super) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<RateLimitOverride>,
    /// A `google.protobuf.UInt64Value`: 0 is a number, too.
    #[prost(message, optional, tag = "3")]
    pub(super) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(super) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    /// Text in Envoy's definition. Values of header fields need not be UTF-8, and the bytes are the same.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    /// A [`unit`].
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitResponse {
    /// A [`code`].
    #[prost(int32, tag = "1")]
    pub(super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<HeaderField>,
    #[prost(message, optional, tag = "6")]
    pub(super) dynamic_metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptorStatus {
    /// A [`code`].
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<WholeSeconds>,
}

/// `RateLimitResponse.RateLimit`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    /// A [`unit`].
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderField {
    /// Text in Envoy's definition, and the bytes are the same. Names are not allocated.
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// `google.protobuf.Duration`, without parts of a second.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WholeSeconds {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`: a text, fields or a list.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(string, optional, tag = "3")]
    pub(super) text: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub(super) fields: Option<Struct>,
    #[prost(message, optional, tag = "6")]
    pub(super) list: Option<ListValue>,
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ListValue {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<Value>,
}

/// `RateLimitResponse.Code`.
pub(super) mod code {
    pub(in crate::grpc) const OK: i32 = 1;
    pub(in crate::grpc) const OVER_LIMIT: i32 = 2;
}

/// `RateLimitResponse.RateLimit.Unit`. `RateLimitUnit` has the same numbers, and no week.
pub(super) mod unit {
    use crate::config::Unit;

    /// The number of a unit. 0 is unknown.
    pub(in crate::grpc) const fn number(unit: Unit) -> i32 {
        match unit {
            Unit::Second => 1,
            Unit::Minute => 2,
            Unit::Hour => 3,
            Unit::Day => 4,
            Unit::Month => 5,
            Unit::Year => 6,
            Unit::Week => 7,
        }
    }

    pub(in crate::grpc) fn of(sought: i32) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| number(*unit) == sought)
    }
}
