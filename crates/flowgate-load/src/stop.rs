//! Ends a run early.

use std::sync::Arc;

use tokio::sync::watch;

/// Handle that ends a [run](crate::run) early.
///
/// A stopped run sends nothing more, waits at most one second for responses to requests in flight, and reports what it
/// measured. Clones share one state. A stopped handle stays stopped.
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
/// stop.clone().stop(); // for example, when the user presses Ctrl-C
/// assert!(stop.is_stopped());
/// assert!(matches!(flowgate_load::run(plan, &stop), Err(RunError::Stopped)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Creates a handle that is not stopped.
    pub fn new() -> Stop {
        Stop(Arc::new(watch::Sender::new(false)))
    }

    /// Stops the run. It may be called from any thread, before or during the run, and more than once.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Returns whether [`stop`](Stop::stop) was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when [`stop`](Stop::stop) has been called.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as `self`, so this returns only when the value is set.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

impl Default for Stop {
    fn default() -> Stop {
        Stop::new()
    }
}
