use std::time::Duration;

/// What an investigation may cost. Never exceeded.
///
/// ```
/// use flowgate_verify::{Budget, Investigation, Simulated};
///
/// let few = Budget { requests: 100, ..Budget::default() };
/// let mut subject = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().budget(few).run(&mut subject, &mut |_| ());
/// assert_eq!(findings.requests, 100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many requests.
    pub requests: u64,
    /// How long, up to the sending of the last of them.
    pub time: Duration,
}

impl Default for Budget {
    /// 20,000 requests, 60 s.
    fn default() -> Self {
        Self {
            requests: 20_000,
            time: Duration::from_secs(60),
        }
    }
}
