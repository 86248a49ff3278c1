use std::time::Duration;

/// Upper bounds on the cost of an investigation. They are never exceeded.
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
    /// Maximum number of requests.
    pub requests: u64,
    /// Maximum duration until the last request is sent.
    pub time: Duration,
}

impl Default for Budget {
    /// Returns 20,000 requests and 60 s.
    fn default() -> Self {
        Self {
            requests: 20_000,
            time: Duration::from_secs(60),
        }
    }
}
