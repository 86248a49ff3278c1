//! The export and import of a gate's rate limiters, by name, for restarts.

use super::{Gate, Member};
use crate::limiter::Limiter;
#[cfg(feature = "std")]
use crate::limiter::state::unix_now;
use crate::limiter::state::{LimiterState, LimiterStateError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::time::Duration;

impl Gate {
    /// Returns what was taken from each rate limiter, by name.
    ///
    /// Pass the result to [`import`](Self::import) after a restart. Permits are not part of it, because operations in flight
    /// end with the process. The limits of a gate in the gate are named `outer/inner`.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, FixedWindow, Gate, LimiterState, TokenBucket};
    ///
    /// let gate = || -> Result<Gate, Box<dyn std::error::Error>> {
    ///     Ok(Gate::builder()
    ///         .limit("pace", TokenBucket::new("10/h".parse()?))
    ///         .limit("daily", FixedWindow::new("1000/day".parse()?)?)
    ///         .limit("slots", ConcurrencyLimit::new(2))
    ///         .build()?)
    /// };
    /// let before = gate()?;
    /// before.try_acquire()?;
    /// let file: String =
    ///     before.export().iter().map(|(name, state)| format!("{name}: {state}\n")).collect();
    /// // … after the restart:
    /// let after = gate()?;
    /// let states: Vec<(&str, LimiterState)> = file
    ///     .lines()
    ///     .filter_map(|line| line.split_once(": "))
    ///     .map(|(name, state)| Ok((name, state.parse()?)))
    ///     .collect::<Result<_, flowgate::LimiterStateError>>()?;
    /// after.import(states.iter().map(|(name, state)| (*name, state)))?;
    /// assert_eq!(after.inspect("daily", FixedWindow::available), Some(999));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn export(&self) -> Vec<(String, LimiterState)> {
        self.export_at(unix_now())
    }

    /// Exports as [`export`](Self::export) does, at `unix_time` of the wall clock.
    ///
    /// `unix_time` is counted from the Unix epoch.
    pub fn export_at(&self, unix_time: Duration) -> Vec<(String, LimiterState)> {
        // Not while something has been taken from some of the limits and not yet from the others.
        let _taking = self.taking.lock();
        let of_member = |member: &Member| match member.gate() {
            Some(gate) => {
                let states = gate.export_at(unix_time).into_iter();
                let name = |inner| format!("{}/{inner}", member.name);
                states.map(|(inner, state)| (name(inner), state)).collect()
            }
            None => {
                let state = |limit: &dyn Limiter| limit.export_at(unix_time);
                let state = member.limit.limiter().and_then(state);
                Vec::from_iter(state.map(|state| (String::from(&*member.name), state)))
            }
        };
        self.members.iter().flat_map(of_member).collect()
    }

    /// Charges each limit with what the exporter of its state had taken.
    ///
    /// [`RateLimiter::import`](crate::RateLimiter::import) describes how. Limits that are not named do not change. Import a
    /// limiter that several gates share only once.
    ///
    /// # Errors
    ///
    /// Returns [`LimiterStateError`], which names the limit, if no limit has that name, or if the limit refuses the state.
    /// The limits before it have then been charged; that limit and those after it have not.
    #[cfg(feature = "std")]
    pub fn import<'a>(
        &self,
        states: impl IntoIterator<Item = (&'a str, &'a LimiterState)>,
    ) -> Result<(), LimiterStateError> {
        self.import_at(states, unix_now())
    }

    /// Imports as [`import`](Self::import) does, at `unix_time` of the wall clock.
    ///
    /// `unix_time` is counted from the Unix epoch.
    ///
    /// # Errors
    ///
    /// Returns [`LimiterStateError`], which names the limit, if no limit has that name, or if the limit refuses the state.
    pub fn import_at<'a>(
        &self,
        states: impl IntoIterator<Item = (&'a str, &'a LimiterState)>,
        unix_time: Duration,
    ) -> Result<(), LimiterStateError> {
        let _change = self.queue.change(self);
        states.into_iter().try_for_each(|(name, state)| {
            match self.import_one(name, state, unix_time) {
                Some(imported) => imported.map_err(|error| error.of_member(name)),
                None => Err(LimiterStateError::no_member(name)),
            }
        })
    }

    /// Returns `None` if there is no limiter of that name.
    fn import_one(
        &self,
        name: &str,
        state: &LimiterState,
        unix_time: Duration,
    ) -> Option<Result<(), LimiterStateError>> {
        if let Some(limiter) = self.member(name).and_then(|member| member.limit.limiter()) {
            let _taking = self.taking.lock();
            return Some(limiter.import_at(state, unix_time));
        }
        let (outer, inner) = self.members.iter().find_map(|member| {
            let inner = name.strip_prefix(&*member.name)?.strip_prefix('/')?;
            Some((member.gate()?, inner))
        })?;
        let _change = outer.queue.change(outer);
        outer.import_one(inner, state, unix_time)
    }
}

impl Member {
    /// Returns the gate that this member is, if it is one.
    fn gate(&self) -> Option<&Gate> {
        let limit: &dyn Any = &*self.limit;
        limit.downcast_ref()
    }
}
