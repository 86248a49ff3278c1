//! A model of nginx's `limit_req` (`ngx_http_limit_req_module.c`), as seen by a client.
//!
//! It counts thousandths of a request, with a clock of whole milliseconds. On kernels whose cheap clock ticks every 4
//! ms, the clock is that coarse.
//!
//! In the long run it never admits more than its rate. But without `burst`, a request must come a whole number of ticks
//! after the previous one. At 100/s that is 10 ticks of 1 ms, which can be 9.1 ms, or 3 ticks of 4 ms, which is at most
//! 83.3 per second for a client that sends continuously.

use core::time::Duration;

use super::{Answer, Question};

/// Limit of one key.
///
/// ```
/// use flowgate_testkit::verify::nginx::LimitReq;
/// use flowgate_testkit::verify::{ProbeOutcome, Question};
///
/// let mut limit = LimitReq::new(100, 0);
/// let mut at = |at_ns| limit.answer(Question { at_ns, connection: 0, key: 0 }).outcome;
/// assert_eq!(at(900_000), ProbeOutcome::Admitted);
/// assert_eq!(at(9_900_000), ProbeOutcome::Refused); // nine of its milliseconds later
/// assert_eq!(at(10_000_000), ProbeOutcome::Admitted); // ten
/// ```
#[derive(Clone, Debug)]
pub struct LimitReq {
    /// Thousandths of a request per second.
    rate: i64,
    /// In thousandths.
    burst: i64,
    delays: bool,
    tick_ns: u64,
    /// Excess in thousandths, and its time.
    state: Option<(i64, i64)>,
}

impl LimitReq {
    /// Creates `rate=…r/s` with `burst=…`, or 0 without it. Requests over the rate wait.
    ///
    /// # Panics
    ///
    /// Panics if `per_second` is 0.
    pub fn new(per_second: u32, burst: u32) -> Self {
        assert!(per_second > 0, "nginx accepts no rate of 0");
        Self {
            rate: i64::from(per_second) * 1_000,
            burst: i64::from(burst) * 1_000,
            delays: true,
            tick_ns: 1_000_000,
            state: None,
        }
    }

    /// Applies `nodelay`: requests over the rate do not wait.
    #[must_use]
    pub fn nodelay(self) -> Self {
        Self {
            delays: false,
            ..self
        }
    }

    /// Sets the resolution of the clock (default: 1 ms).
    ///
    /// # Panics
    ///
    /// Panics if the resolution is below 1 ms.
    #[must_use]
    pub fn tick(self, tick: Duration) -> Self {
        assert!(
            tick >= Duration::from_millis(1),
            "nginx counts milliseconds"
        );
        Self {
            tick_ns: tick.as_nanos() as u64,
            ..self
        }
    }

    /// Decides like `ngx_http_limit_req_lookup`, and responds after the delay.
    pub fn answer(&mut self, question: Question) -> Answer {
        let shown_ns = question.at_ns / self.tick_ns * self.tick_ns;
        let now_ms = (shown_ns / 1_000_000) as i64;
        let excess = match self.state {
            None => 0,
            Some((excess, last_ms)) => {
                let came_back = self.rate * (now_ms - last_ms) / 1_000;
                (excess - came_back + 1_000).max(0)
            }
        };
        if excess > self.burst {
            return false.into();
        }
        self.state = Some((excess, now_ms));
        let delay_ms = if self.delays {
            excess * 1_000 / self.rate
        } else {
            0
        };
        let until_ns = (now_ms + delay_ms) as u64 * 1_000_000;
        Answer {
            held: Duration::from_nanos(until_ns.saturating_sub(question.at_ns)),
            ..true.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the responses to requests at these times.
    fn answers(mut limit: LimitReq, at_us: &[u64]) -> Vec<Option<Duration>> {
        let answers = at_us.iter().map(|at| {
            let answer = limit.answer(Question {
                at_ns: at * 1_000,
                connection: 0,
                key: 0,
            });
            (answer
                == Answer {
                    held: answer.held,
                    ..true.into()
                })
            .then_some(answer.held)
        });
        answers.collect()
    }

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn without_burst_ten_milliseconds_have_to_begin_in_between() {
        let limit = LimitReq::new(100, 0);
        let asked = [900, 9_990, 10_000, 19_999, 20_000];
        let expected = [AT_ONCE, None, AT_ONCE, None, AT_ONCE];
        assert_eq!(answers(limit.clone(), &asked), expected);
        let coarse = limit.tick(Duration::from_millis(4));
        let asked = [3_900, 11_900, 12_000, 23_999, 24_000];
        assert_eq!(answers(coarse, &asked), expected);
    }

    #[test]
    fn with_burst_those_over_the_rate_wait_for_their_turn_unless_nodelay() {
        let limit = LimitReq::new(100, 2);
        let turn = |ms| Some(Duration::from_millis(ms));
        let expected = [AT_ONCE, turn(10), turn(20), None];
        assert_eq!(answers(limit.clone(), &[0; 4]), expected);
        let expected = [AT_ONCE, AT_ONCE, AT_ONCE, None];
        assert_eq!(answers(limit.nodelay(), &[0; 4]), expected);
    }
}
