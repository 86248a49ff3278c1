//! [`Throttled`]: readers and writers that share a bandwidth.
//!
//! # Reading pays afterwards, writing before
//!
//! How much a read brings, and when, only its source knows. So it is asked first, for a chunk at the most; what came
//! then waits for its turn *here*, and is handed out when it has been paid for. A source that says nothing holds no
//! tokens, the end of it costs nothing, and nothing has ever to be given back. What waits is kept by the reader, not by
//! the caller, so a call that is given up loses no byte.
//!
//! A write takes its turn first, for a chunk at the most, and then hands out as many bytes. What the writer does not
//! take, all of it if it fails or is not ready, goes back at once: a writer that is stuck holds no tokens that others
//! wait for.
//!
//! | | reading | writing |
//! |---|---|---|
//! | the bytes count when | they are handed to the caller | they are handed to the writer |
//! | nothing to wait for | no copy | no copy |
//! | otherwise | a copy of what waits, at most a chunk | none |
//! | given back | nothing | what the writer did not take |

mod ahead;
mod blocking;
#[cfg(feature = "futures-io")]
mod futures;
mod incoming;
mod outgoing;
mod throttled;
#[cfg(feature = "tokio")]
mod tokio;

pub use throttled::Throttled;
