//! [`Throttled`]: readers and writers that share a bandwidth.
//!
//! # Reading pays after, writing pays before
//!
//! Only the source knows how many bytes a read returns, and when. So a read asks the source first, for at most one chunk. The
//! bytes then wait for their grant *in the reader*, and are handed to the caller once they are paid for. A source that returns
//! nothing holds no tokens, the end of the source costs nothing, and no tokens ever need to be returned. The reader keeps the
//! waiting bytes, and not the caller, so a call that is given up loses no byte.
//!
//! A write waits for its grant first, for at most one chunk, and then hands as many bytes to the writer. Tokens for bytes that
//! the writer does not take are returned immediately; if the writer fails or is not ready, these are all of them. So a writer
//! that makes no progress holds no tokens that others wait for.
//!
//! | | reading | writing |
//! |---|---|---|
//! | the bytes count when | they are handed to the caller | they are handed to the writer |
//! | nothing to wait for | no copy | no copy |
//! | otherwise | a copy of what waits, at most a chunk | none |
//! | returned | nothing | what the writer did not take |

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
