//! How requests wait for a limit, as text: `wait 500ms queue 50 order lifo codel 5ms`.

use std::fmt;
use std::time::Duration;

use flowgate::{Codel, Order};

use crate::error::TextError;
use crate::policy::LimiterPolicy;
use crate::text::{duration, in_words};

/// How requests wait for a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    /// How long a request waits at most; `None` if it does not wait.
    longest: Option<Duration>,
    /// How many requests wait at most; `None` for any number.
    queue: Option<usize>,
    order: Option<Order>,
    codel: Option<Codel>,
}

impl Waiting {
    /// Takes the setting `what`, unless it has that one or there is none of that name. Returns whether it did.
    pub(super) fn read(&mut self, what: &str, value: &str) -> Result<bool, TextError> {
        match what {
            "wait" if self.longest.is_none() => self.longest = Some(duration(value)?),
            "queue" if self.queue.is_none() => {
                let why = "a queue has a whole number of places, such as 'queue 50'";
                let places = value.parse().map_err(|_| TextError::new(value, why))?;
                self.queue = Some(places);
            }
            "order" if self.order.is_none() => self.order = Some(order(value)?),
            "codel" if self.codel.is_none() => self.codel = Some(codel(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether requests may wait.
    pub(super) fn is_allowed(&self) -> bool {
        self.longest.is_some()
    }

    /// Whether it says anything about the queue.
    pub(super) fn has_rules(&self) -> bool {
        self.queue.is_some() || self.order.is_some() || self.codel.is_some()
    }

    /// Has the requests of `policy` wait like this.
    pub(super) fn of(&self, mut policy: LimiterPolicy) -> LimiterPolicy {
        if let Some(longest) = self.longest {
            policy = policy.wait(longest);
        }
        if let Some(requests) = self.queue {
            policy = policy.max_waiters(requests);
        }
        if let Some(order) = self.order {
            policy = policy.order(order);
        }
        if let Some(codel) = self.codel {
            policy = policy.codel(codel);
        }
        policy
    }
}

/// The orders that a text names.
const ORDERS: [(&str, Order); 3] = [
    ("fifo", Order::Fifo),
    ("lifo", Order::Lifo),
    ("adaptive-lifo", Order::adaptive_lifo()),
];

fn order(text: &str) -> Result<Order, TextError> {
    let order = ORDERS.into_iter().find(|(name, _)| *name == text);
    let why = "not an order; write 'order lifo', 'order adaptive-lifo' or 'order fifo'";
    order
        .map(|(_, order)| order)
        .ok_or_else(|| TextError::new(text, why))
}

/// A target, and perhaps an interval after a slash.
fn codel(text: &str) -> Result<Codel, TextError> {
    let (target, interval) = match text.split_once('/') {
        Some((target, interval)) => (duration(target)?, duration(interval)?),
        None => (duration(text)?, Codel::default().interval()),
    };
    Codel::new(target, interval).map_err(|error| TextError::new(text, error.to_string()))
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(longest) = self.longest {
            write!(f, " wait {}", in_words(longest))?;
        }
        if let Some(requests) = self.queue {
            write!(f, " queue {requests}")?;
        }
        let is_this = |(_, order): &(&str, Order)| Some(*order) == self.order;
        if let Some((name, _)) = ORDERS.iter().find(|named| is_this(named)) {
            write!(f, " order {name}")?;
        }
        let Some(codel) = self.codel else {
            return Ok(());
        };
        write!(f, " codel {}", in_words(codel.target()))?;
        match codel.interval() {
            interval if interval == Codel::default().interval() => Ok(()),
            interval => write!(f, "/{}", in_words(interval)),
        }
    }
}
