//! A mailer of 2 messages per minute, and tests that never sleep: on a clock that they move, and on tokio's paused clock.
//!
//! ```text
//! cargo test -p flowgate --example testing
//! ```

use flowgate::{Clock, Denied, QuotaError, TokenBucket};

struct Mailer(TokenBucket);

impl Mailer {
    /// The service passes `Clock::system()`. Only the tests pass another clock.
    fn new(clock: impl Into<Clock>) -> Result<Self, QuotaError> {
        let limit = TokenBucket::builder("2/min".parse()?);
        Ok(Self(limit.clock(clock).build()?))
    }

    fn try_send(&self) -> Result<(), Denied> {
        self.0.try_acquire()
    }

    async fn send(&self) -> Result<(), Denied> {
        self.0.acquire().await.map(|_grant| ())
    }
}

#[allow(dead_code, reason = "the tests need no `main`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), QuotaError> {
    let mailer = Mailer::new(Clock::system())?;
    let [a, b] = [mailer.send().await, mailer.try_send()].map(|sent| sent.is_ok());
    println!("sent the first message: {a}, sent the second: {b}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_third_message_is_sent_half_a_minute_later() {
        let time = flowgate::ManualClock::new(); // stands still until the test moves it
        let mailer = Mailer::new(&time).unwrap();
        assert!(mailer.try_send().is_ok() && mailer.try_send().is_ok());
        assert!(mailer.try_send().is_err());
        time.advance(Duration::from_secs(30));
        assert!(mailer.try_send().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn five_messages_take_a_minute_and_a_half() {
        let mailer = Mailer::new(Clock::tokio()).unwrap();
        let began = tokio::time::Instant::now();
        for _ in 0..5 {
            mailer.send().await.unwrap(); // no real time passes
        }
        assert_eq!(began.elapsed(), Duration::from_secs(90));
    }
}
