use super::{Admission, Custom, Deciding};
use crate::limits::{Patience, Permit, Wait};
use flowgate::{Denied, Sleep, Timestamp};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Refusals with less than this are replaced by growing times.
const SHORTEST: Duration = Duration::from_millis(1);
/// After this number of such refusals in a row, the limiter is called once more, and another one is final.
const MOST_SHORT: u32 = 16;
/// The longest time between them.
const LONGEST: Duration = Duration::from_secs(1);

/// Calls a limiter, and again after its refusals.
pub struct CustomWait<K> {
    custom: Arc<Custom<K>>,
    key: K,
    n: u64,
    patience: Patience,
    /// None before the first poll, or if there is none.
    deadline: Option<Timestamp>,
    /// How many refusals in a row had too short a time.
    short: u32,
    has_waited: bool,
    step: Step,
}

enum Step {
    Begins,
    Asks { answer: Deciding, timeout: Sleep },
    Sleeps(Sleep),
}

/// Nothing in it is ever pinned, but what is in boxes.
impl<K> Unpin for CustomWait<K> {}

impl<K> CustomWait<K> {
    pub(super) fn new(custom: Arc<Custom<K>>, key: K, n: u64, patience: Patience) -> Self {
        Self {
            custom,
            key,
            n,
            patience,
            deadline: None,
            short: 0,
            has_waited: false,
            step: Step::Begins,
        }
    }

    /// The time of the next call; `None` if there is none.
    fn again(&mut self, denied: &Denied) -> Option<Timestamp> {
        let told = denied.retry_after()?;
        let wait = if told < SHORTEST {
            self.short += 1;
            if self.short > MOST_SHORT {
                return None;
            }
            let doubled = SHORTEST * 2u32.pow(self.short - 1);
            doubled.min(LONGEST)
        } else {
            self.short = 0;
            told
        };
        let at = self.custom.clock.now() + wait;
        self.deadline
            .is_none_or(|deadline| at <= deadline)
            .then_some(at)
    }
}

impl<K: Clone + Send + Sync + 'static> Future for CustomWait<K> {
    type Output = Result<Option<Permit>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            this.step = match &mut this.step {
                Step::Begins => {
                    let (custom, now) = (&*this.custom, this.custom.clock.now());
                    this.deadline = match this.patience {
                        Patience::Endless => None,
                        Patience::Within(wait) => Some(now + wait),
                        Patience::By(deadline) => Some(deadline),
                    };
                    // Counted from the first poll.
                    if let Some(deadline) = this.deadline {
                        this.patience = Patience::By(deadline);
                    }
                    Step::Asks {
                        answer: Arc::clone(&custom.limit).decide(this.key.clone(), this.n),
                        timeout: custom.clock.sleep_until(now + custom.timeout),
                    }
                }
                Step::Asks { answer, timeout } => {
                    let answer = match answer.as_mut().poll(context) {
                        Poll::Ready(answer) => answer,
                        Poll::Pending => {
                            ready!(Pin::new(timeout).poll(context));
                            Err(Denied::outage())
                        }
                    };
                    let denied = match answer {
                        Ok(admission) => return Poll::Ready(Ok(Some(Permit::custom(admission)))),
                        Err(denied) => denied,
                    };
                    if denied.is_outage() && this.custom.admits_outages {
                        let admission = Admission::of_outage();
                        return Poll::Ready(Ok(Some(Permit::custom(admission))));
                    }
                    let Some(at) = this.again(&denied) else {
                        return Poll::Ready(Err(denied));
                    };
                    Step::Sleeps(this.custom.clock.sleep_until(at))
                }
                Step::Sleeps(sleep) => {
                    this.has_waited = true;
                    ready!(Pin::new(sleep).poll(context));
                    Step::Begins
                }
            };
        }
    }
}

impl<K: Clone + Send + Sync + 'static> Wait for CustomWait<K> {
    fn has_waited(&self) -> bool {
        self.has_waited
    }
}

impl<K> fmt::Debug for CustomWait<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomWait")
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
