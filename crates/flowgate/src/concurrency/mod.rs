//! Limits on operations in flight: [the limit](limit), and [the permit](permit) that holds a part of it.

pub(crate) mod limit;
pub(crate) mod permit;
