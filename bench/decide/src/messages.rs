//! Envoy's messages, as far as a server needs them that decides, and reports no more than the code.

use prost::Message;

pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
/// The number of "admitted".
pub const OK: i32 = 1;
pub const OVER_LIMIT: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
}

impl RateLimitRequest {
    /// Returns the request of all clients: one user of the domain `api`.
    pub fn of_a_user() -> RateLimitRequest {
        let entry = Entry {
            key: "user".to_owned(),
            value: "alice".to_owned(),
        };
        RateLimitRequest {
            domain: "api".to_owned(),
            descriptors: vec![Descriptor {
                entries: vec![entry],
            }],
            hits_addend: 1,
        }
    }

    /// Returns the request as the body of gRPC.
    pub fn framed(&self) -> Vec<u8> {
        let message = self.encode_to_vec();
        let mut body = vec![0];
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(&message);
        body
    }
}
