//! Limits on operations in flight: [the limit](limit), [one that an algorithm sets](adaptive), and [the permit](permit) that
//! holds a part of it.

pub(crate) mod adaptive;
pub(crate) mod limit;
pub(crate) mod permit;
