#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bounds;
mod compare;
mod config;
mod counts;
mod decision;
mod envoy;
mod grpc;
mod http;
mod limits;
mod places;
mod reload;
mod resp;
mod rlqs;
mod server;
mod throttle;
mod tls;
mod token;
mod trace;
mod view;

pub use bounds::ServerBounds;
pub use compare::{Comparison, OtherServer};
pub use config::{Config, Problem};
pub use decision::{Descriptor, DescriptorEntry, LimitDecision, Status, Undecided};
#[doc(hidden)]
pub use grpc::{RlqsStream, read_and_written, rls_answer};
#[doc(hidden)]
pub use http::json_answer;
pub use limits::{DecideLimits, DecisionTime, Rule, Unknown};
pub use reload::Reloader;
#[doc(hidden)]
pub use resp::resp_answers;
pub use server::{DecideServer, Door};
pub use tls::ServerTls;
pub use trace::DecideTraces;
pub use view::{DecideView, DecideViewer, RuleCounts, RuleView};
