//! How many connections, how long, how large.

use std::time::Duration;

/// What clients may use of a server. Every bound has a default.
///
/// ```
/// use flowgate_server::ServerBounds;
///
/// let bounds = ServerBounds { connections: 100, ..ServerBounds::default() };
/// assert_eq!(bounds.connections_per_address, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBounds {
    /// Connections of all doors together. More wait in the system's queue. Default: 10,000.
    pub connections: usize,
    /// Connections of one IP address at all doors. More are closed. Default: 1,000.
    pub connections_per_address: usize,
    /// Connections at [`Door::Admin`](crate::Door::Admin). The other bounds do not count them. Default: 64.
    pub operators: usize,
    /// The time for a command or body to arrive, or answers to be read.
    ///
    /// It counts from the first byte. Default: 10 s.
    pub command_time: Duration,
    /// The time for the head of an HTTP/1.1 request to arrive. It counts from the first byte. Default: 5 s.
    pub head_time: Duration,
    /// The time without a request after which a connection is closed. Default: 5 min.
    pub idle_time: Duration,
    /// The time for requests in flight when the server ends. Default: 10 s.
    pub drain_time: Duration,
}

impl Default for ServerBounds {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 1_000,
            operators: 64,
            command_time: Duration::from_secs(10),
            head_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(10),
        }
    }
}

/// The largest command, body or head, in bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// The most bytes of bodies that a connection may send at the same time. More wait.
pub(crate) const MAX_BODIES: usize = 256 << 10;
/// The largest head of an HTTP/2 request, in bytes.
pub(crate) const MAX_HEADERS: u32 = 16 << 10;
/// The most descriptors of a request.
pub(crate) const MAX_DESCRIPTORS: usize = 64;
/// The most entries of a descriptor.
pub(crate) const MAX_ENTRIES: usize = 32;
/// The largest key and value together, in bytes.
pub(crate) const MAX_ENTRY: usize = 4 << 10;
/// The most streams of Envoys that ask for assignments.
pub(crate) const MAX_QUOTA_STREAMS: usize = 1_000;
/// The most buckets of such a stream that have an assignment.
pub(crate) const MAX_QUOTA_BUCKETS: usize = 1_000;
/// The largest report of such a stream, in bytes. It has all buckets of an Envoy.
pub(crate) const MAX_REPORT: usize = 256 << 10;
/// The most processes that lease.
pub(crate) const MAX_LEASE_STREAMS: u64 = 10_000;
/// The largest message of such a process, in bytes. It has the calls of all its limits.
pub(crate) const MAX_LEASE_MESSAGE: usize = 256 << 10;
/// The most messages of such a process that are not answered. More are not read.
pub(crate) const MAX_LEASE_CALLS: usize = 64;
/// The most streams of an HTTP/2 connection.
pub(crate) const MAX_STREAMS: u32 = 1024;
/// The most bytes of answers that are kept before a client reads.
pub(crate) const MAX_UNREAD: usize = 64 << 10;
