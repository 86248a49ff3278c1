//! Asking a run to end early.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle that asks a [run](crate::run) to end early: it sends nothing more, waits at most one
/// second for answers to requests in flight, and reports what it measured.
///
/// Clones share one state; once stopped it stays so.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Origin, Plan, RunError, Schedule, Stop, Target};
///
/// let origin = Origin::start()?;
/// let schedule = Schedule::of(Quota::per_second(1), 3600)?; // an hour
/// let plan = Plan::new(Target::parse(&origin.url())?, schedule);
///
/// let stop = Stop::new();
/// stop.clone().stop(); // as somebody does who presses Ctrl-C
/// assert!(stop.is_stopped());
/// assert!(matches!(flowgate_load::run(plan, &stop), Err(RunError::Stopped)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// A handle that nobody has used yet.
    pub fn new() -> Stop {
        Stop(Arc::new(watch::Sender::new(false)))
    }

    /// Asks the run to end. May be called from any thread, before or during the run, and more than
    /// once.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether [`stop`](Stop::stop) was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when [`stop`](Stop::stop) has been called.
    pub(crate) async fn stopped(&self) {
        // The sender is alive for as long as `self` is, so the only way out is the value.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

impl Default for Stop {
    fn default() -> Stop {
        Stop::new()
    }
}
