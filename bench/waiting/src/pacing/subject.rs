//! One caller in a loop, whatever the limiter.

use std::pin::Pin;

use super::recorder::Recorder;
use super::releases::{Ask, Releases};

/// Something that lets one caller go at a pace.
pub trait Pacer: Send {
    /// Waits for the next slot. Gives the instant in ns that the grant says it is for, if it says one.
    fn next(&mut self) -> impl Future<Output = Option<u64>> + Send;
}

/// A caller's whole turn.
pub type Turn = Pin<Box<dyn Future<Output = Releases> + Send>>;

/// One limiter, by one library.
pub struct Subject {
    pub name: &'static str,
    /// Configured burst: 1, unless the limiter does not support it.
    pub burst: fn(Ask) -> u64,
    /// A new limiter and its one caller.
    pub turn: fn(Ask) -> Turn,
}

/// Calls `pacer` until the span has passed.
pub async fn run(ask: Ask, mut pacer: impl Pacer) -> Releases {
    let mut recorder = Recorder::start(ask);
    while recorder.released(pacer.next().await) {}
    recorder.finish()
}
