//! Requests that differ in more than the URL, and the order in which they are sent.

use std::error::Error;
use std::fmt;

use crate::engine::{RunError, is_local};
use crate::plan::{Plan, Template};
use crate::prepared::servers;
use crate::stop::Stop;
use crate::target::Target;

/// Maximum number of requests, and of positions in the order.
pub(crate) const MAX_MIXED: usize = 1_000_000;

/// Requests that each have a target and a template, on one or several servers.
///
/// They are sent in a fixed order, again and again. Each server has its own connections. With a
/// [schedule](crate::Pace::Hold), requests to a busy server do not delay those to others.
///
/// # Examples
///
/// Send three of four requests to the first server:
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Origin, Plan, RequestMix, Schedule, Stop, Target, Template};
///
/// let origins = [Origin::start()?, Origin::start()?];
/// let to = |origin: &Origin| Target::parse(&origin.url());
/// let mix = RequestMix::weighted(vec![
///     (to(&origins[0])?, Template::default(), 3),
///     (to(&origins[1])?, Template::default(), 1),
/// ])?;
/// let mut plan = Plan::new(to(&origins[0])?, Schedule::of(Quota::per_second(1000), 8)?);
/// plan.mix = Some(mix);
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.counts.statuses.success, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestMix {
    requests: Vec<(Target, Template)>,
    order: Vec<u32>,
}

/// Error of building a [`RequestMix`]. `Display` writes one line.
///
/// # Examples
///
/// ```
/// use flowgate_load::RequestMix;
///
/// let error = RequestMix::weighted(Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no request: write at least one");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMixError(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Empty,
    NoWeight(usize),
    TooMany,
}

impl RequestMix {
    /// Creates a mix in which each request occurs in proportion to its weight.
    ///
    /// The requests are spread as evenly as possible.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no request, a weight is 0, or the weights, divided by their greatest common divisor,
    /// sum to more than 1,000,000.
    pub fn weighted(requests: Vec<(Target, Template, u32)>) -> Result<RequestMix, RequestMixError> {
        let weights: Vec<u32> = requests.iter().map(|(.., weight)| *weight).collect();
        let order = spread(&weights)?;
        let requests = requests
            .into_iter()
            .map(|(target, template, _)| (target, template));
        Ok(RequestMix {
            requests: requests.collect(),
            order,
        })
    }

    /// Creates a mix with an order, whose indices are those of `requests`.
    pub(crate) fn in_order(requests: Vec<(Target, Template)>, order: Vec<u32>) -> RequestMix {
        RequestMix { requests, order }
    }

    /// Returns the indices of the requests in the order of sending.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the target and the template of each request.
    pub fn iter(&self) -> impl Iterator<Item = &(Target, Template)> {
        self.requests.iter()
    }

    /// Returns one target on each server.
    pub fn servers(&self) -> Vec<Target> {
        let (firsts, _) = servers(self.iter().map(|(target, _)| target));
        firsts.into_iter().cloned().collect()
    }
}

impl Plan {
    /// Returns one target on each server that is not on this machine.
    ///
    /// A server is on this machine if all of its addresses are loopback addresses, or a Unix socket.
    ///
    /// # Errors
    ///
    /// Returns an error if a host has no address, or if `stop` was stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_load::{Plan, Schedule, Stop, Target};
    ///
    /// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
    /// let plan = Plan::new(Target::parse("http://192.0.2.7/")?, schedule.clone());
    /// assert_eq!(plan.remote_servers(&Stop::new())?[0].host(), "192.0.2.7");
    /// let plan = Plan::new(Target::parse("http://127.0.0.1/")?, schedule);
    /// assert!(plan.remote_servers(&Stop::new())?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remote_servers(&self, stop: &Stop) -> Result<Vec<Target>, RunError> {
        let servers = match &self.mix {
            Some(mix) => mix.servers(),
            None => self.targets.iter().take(1).cloned().collect(),
        };
        let mut remote = Vec::new();
        for server in servers {
            if !is_local(&server, &self.connect, stop)? {
                remote.push(server);
            }
        }
        Ok(remote)
    }
}

/// Returns an order in which each index occurs in proportion to its weight, as evenly as possible.
pub(crate) fn spread(weights: &[u32]) -> Result<Vec<u32>, RequestMixError> {
    if weights.is_empty() {
        return Err(RequestMixError(Reason::Empty));
    }
    if let Some(index) = weights.iter().position(|&weight| weight == 0) {
        return Err(RequestMixError(Reason::NoWeight(index)));
    }
    let divisor = weights
        .iter()
        .fold(0, |divisor, &weight| gcd(divisor, weight));
    let sum: u64 = weights
        .iter()
        .map(|&weight| u64::from(weight / divisor))
        .sum();
    if sum > MAX_MIXED as u64 {
        return Err(RequestMixError(Reason::TooMany));
    }
    let mut positions: Vec<(f64, u32)> = Vec::with_capacity(sum as usize);
    for (index, &weight) in (0..).zip(weights) {
        let weight = weight / divisor;
        // The middles of equal parts of the order.
        positions.extend((0..weight).map(|k| ((f64::from(k) + 0.5) / f64::from(weight), index)));
    }
    positions.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    Ok(positions.into_iter().map(|(_, index)| index).collect())
}

fn gcd(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => gcd(other, one % other),
    }
}

impl fmt::Display for RequestMixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Empty => f.write_str("there is no request: write at least one"),
            Reason::NoWeight(index) => {
                write!(
                    f,
                    "request {} has the weight 0: remove it, or write 1",
                    index + 1
                )
            }
            Reason::TooMany => write!(
                f,
                "the order has more than {MAX_MIXED} requests: write fewer, or smaller weights"
            ),
        }
    }
}

impl Error for RequestMixError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept_exactly_and_evenly() {
        assert_eq!(spread(&[1, 1, 1]).unwrap(), [0, 1, 2]);
        assert_eq!(spread(&[6, 2]).unwrap(), [0, 0, 1, 0]);
        assert_eq!(spread(&[2, 3]).unwrap(), [1, 0, 1, 0, 1]);
        let order = spread(&[7, 5, 1]).unwrap();
        for (index, count) in [(0, 7), (1, 5), (2, 1)] {
            assert_eq!(order.iter().filter(|&&other| other == index).count(), count);
        }
        assert_eq!(spread(&[]), Err(RequestMixError(Reason::Empty)));
        assert_eq!(spread(&[1, 0]), Err(RequestMixError(Reason::NoWeight(1))));
        assert_eq!(
            spread(&[1, 1_000_000]),
            Err(RequestMixError(Reason::TooMany))
        );
    }
}
