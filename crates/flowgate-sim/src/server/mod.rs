//! Servers: how long an admitted request takes, and whether it is served at all.
//!
//! ```text
//!  offer ──▶ queue ──▶ worker 1..c ──▶ done        each worker serves one request
//!                └───▶ shared ───────▶ done        or all are served at the same time, slower the more there are
//! ```

mod agenda;
mod condition;
mod faults;
mod running;
mod shared;
mod waiting;
mod workers;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::text::{as_text, at_least_one, from_0_to_1};

pub use faults::{Fault, FaultKind};
pub(crate) use running::{Done, Offered, Running};

/// A server, or a group of equal ones behind one queue.
///
/// ```
/// use flowgate_sim::{QueueOrder, Server};
///
/// let server = Server::new(20, "exponential 10ms".parse()?)
///     .queue(100)
///     .order(QueueOrder::Lifo)
///     .drops_expired(true);
/// assert_eq!(server.capacity_per_second(), 2000.0);
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    #[serde(deserialize_with = "at_least_one")]
    pub(crate) workers: u32,
    pub(crate) service: Distribution,
    #[serde(default = "unbounded", skip_serializing_if = "is_unbounded")]
    pub(crate) queue: usize,
    #[serde(default)]
    pub(crate) order: QueueOrder,
    #[serde(default)]
    pub(crate) drops_expired: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contention: Option<Contention>,
    #[serde(default, with = "as_text")]
    pub(crate) delay: Duration,
}

/// Which waiting request a server serves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// The one that came first.
    #[default]
    Fifo,
    /// The one that came last.
    Lifo,
}

/// The universal scalability law: more requests at a time slow each other down.
///
/// With `n` requests, each is served at `1 / (1 + sigma·(n − 1) + kappa·n·(n − 1))` of the speed of one alone. With a `kappa` above
/// zero, the throughput falls beyond a number of requests.
///
/// Source: N. Gunther, *Guerrilla Capacity Planning*, 2007.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// The share of the work that is serial, from 0 to 1.
    #[serde(deserialize_with = "from_0_to_1")]
    pub sigma: f64,
    /// The cost of coherence between each pair of requests, from 0 to 1.
    #[serde(deserialize_with = "from_0_to_1")]
    pub kappa: f64,
}

fn unbounded() -> usize {
    usize::MAX
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_unbounded(queue: &usize) -> bool {
    *queue == usize::MAX
}

impl Server {
    /// Creates a server with `workers` workers, an unbounded FIFO queue and this service time.
    pub fn new(workers: u32, service: Distribution) -> Self {
        Self {
            workers: workers.max(1),
            service,
            queue: usize::MAX,
            order: QueueOrder::Fifo,
            drops_expired: false,
            contention: None,
            delay: Duration::ZERO,
        }
    }

    /// Sets how many requests may wait (default: any number). Requests that find the queue full fail.
    pub fn queue(mut self, requests: usize) -> Self {
        self.queue = requests;
        self
    }

    /// Sets the order of the queue (default: FIFO).
    pub fn order(mut self, order: QueueOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets whether the queue drops requests whose deadline has passed (default: no).
    pub fn drops_expired(mut self, drops: bool) -> Self {
        self.drops_expired = drops;
        self
    }

    /// Serves all requests at the same time, up to the number of workers.
    ///
    /// The more there are, the slower is each.
    pub fn contention(mut self, contention: Contention) -> Self {
        self.contention = Some(contention);
        self
    }

    /// Sets a delay after the service, which takes no worker (default: none).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns how many requests per second the server completes at most. With [contention](Self::contention), the most over all
    /// numbers of requests.
    pub fn capacity_per_second(&self) -> f64 {
        let one = 1.0 / self.service.mean().as_secs_f64();
        match self.contention {
            None => f64::from(self.workers) * one,
            Some(contention) => {
                let of = |n: u32| f64::from(n) * contention.speed(n.into()) * one;
                (1..=self.workers).map(of).fold(0.0, f64::max)
            }
        }
    }
}

impl Contention {
    /// How fast each of `n` requests is served.
    fn speed(&self, n: u64) -> f64 {
        let n = n as f64;
        1.0 / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }
}

/// A request at a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The slot of its operation.
    pub(crate) slot: u32,
    /// What serving it alone takes.
    pub(crate) work_ns: u64,
    /// When its client gives up.
    pub(crate) deadline_ns: u64,
}
