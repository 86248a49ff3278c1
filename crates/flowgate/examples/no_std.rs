//! A device without an operating system: its radio sends at most 5 messages per minute, 2 of them in one burst. Its only clock
//! is a timer interrupt.
//!
//! The library needs an allocator, and a clock that you supply. `ci/no_std.sh` builds and runs this program with a flowgate that
//! is built without `std`.
#![no_std]

extern crate std; // for `main`, and for the console of the machine that shows this

use core::sync::atomic::{AtomicU32, Ordering};
use flowgate::{Clock, Denied, QuotaError, Source, TokenBucket};

/// Seconds since the device was turned on; a timer interrupt counts them.
static SECONDS: AtomicU32 = AtomicU32::new(0);

struct Timer;

impl Source for Timer {
    fn now_ns(&self) -> u64 {
        u64::from(SECONDS.load(Ordering::Relaxed)) * 1_000_000_000
    }
}

struct Radio(TokenBucket);

impl Radio {
    fn new() -> Result<Self, QuotaError> {
        let limit = TokenBucket::builder("5/min burst 2".parse()?);
        Ok(Self(limit.clock(Clock::custom(Timer)).build()?))
    }

    /// Sends `message`, or returns when to try again.
    fn send(&self, _message: &[u8]) -> Result<(), Denied> {
        self.0.try_acquire()?;
        Ok(()) // a real radio writes to its registers here
    }
}

/// A sensor reports each second for 5 minutes. Returns the seconds at which the radio sent.
pub fn run() -> Result<std::vec::Vec<u32>, QuotaError> {
    let radio = Radio::new()?;
    let sent = (0..300).filter(|second| {
        SECONDS.store(*second, Ordering::Relaxed);
        radio.send(b"21.5 C").is_ok() // this sensor drops what was refused
    });
    Ok(sent.collect())
}

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), QuotaError> {
    let sent = run()?;
    std::println!(
        "sent {} of 300 messages, at these seconds: {sent:?}",
        sent.len()
    );
    Ok(())
}
