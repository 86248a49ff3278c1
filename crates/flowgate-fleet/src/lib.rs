//! Rate limits that several processes share.
//!
//! The limits are kept in Redis or Valkey.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod call;
mod cut_off;
mod error;
mod fleet;
mod limit;
mod link;
mod record;
mod redis;
mod strict;
mod terms;

pub use cut_off::CutOff;
pub use error::FleetError;
pub use fleet::{Fleet, FleetBuilder, FleetLimitBuilder};
pub use limit::{Admitted, Ask, FleetLimit};
