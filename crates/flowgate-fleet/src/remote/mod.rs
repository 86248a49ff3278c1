//! A decision server as the authority of a fleet: the way to it, and its own side.
//!
//! ```text
//!   call.rs ──▶ client.rs ──▶ one stream of messages (wire.rs) ──▶ door.rs ──▶ the server's own fleet
//! ```

mod client;
mod door;
mod wire;

pub(crate) use client::{Connection, Server};
pub use wire::{LeaseAnswers, LeaseRequests};

/// The gRPC method whose stream has [`LeaseRequests`] and [`LeaseAnswers`].
pub const LEASE_METHOD: &str = "/flowgate.fleet.v1.Leases/Lease";
