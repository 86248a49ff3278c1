use core::fmt;

/// Decisions of an [`Observed`](crate::Observed) limiter so far.
///
/// Each counter only grows, and wraps around after 2⁶⁴. No method resets a counter, so several readers do not disturb each
/// other. To get the decisions between two reads, call [`since`](Self::since).
///
/// ```
/// use flowgate::{Observed, TokenBucket};
///
/// let limiter = Observed::new(TokenBucket::new("5/h".parse()?));
/// let _ = [(); 7].map(|()| limiter.try_acquire().is_ok());
/// let before = limiter.counts();
/// let _ = [(); 2].map(|()| limiter.try_acquire().is_ok());
///
/// let counts = limiter.counts();
/// assert_eq!((counts.admitted, counts.refused.total(), counts.asked()), (5, 4, 9));
/// assert_eq!(counts.since(&before).asked(), 2);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ObservedCounts {
    /// Operations that were admitted.
    pub admitted: u64,
    /// Units that admitted operations took.
    pub units: u64,
    /// Admitted operations that had to wait. The other ones were admitted immediately.
    pub waited: u64,
    /// Operations that were refused, by reason.
    pub refused: Refusals,
    /// Waits that were dropped before they were ready.
    pub abandoned: u64,
    /// Number of waiters now, counted or not.
    pub waiting: u64,
}

/// Number of refused operations for each reason.
///
/// ```
/// use flowgate::{Observed, TokenBucket};
///
/// let limiter = Observed::new(TokenBucket::new("5/h".parse()?));
/// let _ = [1, 2, 3, 4, 50].map(|n| limiter.try_acquire_n(n).is_ok());
/// let refused = limiter.counts().refused;
/// assert_eq!((refused.over_limit, refused.never), (2, 1));
/// assert_eq!(refused.total(), 3);
/// assert_eq!(refused.to_string(), "2 over the limit, 1 never possible");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusals {
    /// Refusals without a wait because too few units were available.
    ///
    /// This includes units that are reserved for waiters in the queue. A refused wait is counted in another field.
    pub over_limit: u64,
    /// Refusals without a wait because all permits were in use ([`Denied::is_busy`](crate::Denied::is_busy)).
    pub busy: u64,
    /// Requests that can never be granted ([`Denied::is_never`](crate::Denied::is_never)).
    pub never: u64,
    /// Requests refused because the queue was full ([`Denied::is_queue_full`](crate::Denied::is_queue_full)).
    pub queue_full: u64,
    /// Waiters that the queue shed ([`Denied::is_shed`](crate::Denied::is_shed)).
    pub shed: u64,
    /// Requests refused because the limiter was closed ([`Denied::is_closed`](crate::Denied::is_closed)).
    pub closed: u64,
    /// Waits that did not end, or were certain not to end, by their deadline.
    pub deadline: u64,
    /// Waits that their [`CancelHandle`](crate::CancelHandle) ended.
    pub cancelled: u64,
    /// Requests whose key had no entry, because the table was full ([`Denied::is_table_full`](crate::Denied::is_table_full)).
    pub table_full: u64,
}

impl ObservedCounts {
    /// Returns the number of operations that have ended, with any result.
    pub fn asked(&self) -> u64 {
        self.admitted
            .wrapping_add(self.refused.total())
            .wrapping_add(self.abandoned)
    }

    /// Returns the counts since `earlier`.
    ///
    /// The number of waiters is that of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (&self.refused, &earlier.refused);
        Self {
            admitted: self.admitted.wrapping_sub(earlier.admitted),
            units: self.units.wrapping_sub(earlier.units),
            waited: self.waited.wrapping_sub(earlier.waited),
            refused: Refusals {
                over_limit: now.over_limit.wrapping_sub(then.over_limit),
                busy: now.busy.wrapping_sub(then.busy),
                never: now.never.wrapping_sub(then.never),
                queue_full: now.queue_full.wrapping_sub(then.queue_full),
                shed: now.shed.wrapping_sub(then.shed),
                closed: now.closed.wrapping_sub(then.closed),
                deadline: now.deadline.wrapping_sub(then.deadline),
                cancelled: now.cancelled.wrapping_sub(then.cancelled),
                table_full: now.table_full.wrapping_sub(then.table_full),
            },
            abandoned: self.abandoned.wrapping_sub(earlier.abandoned),
            waiting: self.waiting,
        }
    }
}

impl Refusals {
    /// Returns the number of all refusals.
    pub fn total(&self) -> u64 {
        let counts = self.by_reason().map(|(count, _)| count);
        counts.into_iter().fold(0, u64::wrapping_add)
    }

    /// Returns each field's name and its count, for labels.
    ///
    /// ```
    /// let names = flowgate::Refusals::default().by_name().map(|(name, _)| name);
    /// assert_eq!(names[0], "over_limit");
    /// ```
    pub fn by_name(&self) -> [(&'static str, u64); 9] {
        [
            ("over_limit", self.over_limit),
            ("busy", self.busy),
            ("never", self.never),
            ("queue_full", self.queue_full),
            ("shed", self.shed),
            ("closed", self.closed),
            ("deadline", self.deadline),
            ("cancelled", self.cancelled),
            ("table_full", self.table_full),
        ]
    }

    fn by_reason(&self) -> [(u64, &'static str); 9] {
        [
            (self.over_limit, "over the limit"),
            (self.busy, "busy"),
            (self.never, "never possible"),
            (self.queue_full, "queue full"),
            (self.shed, "shed"),
            (self.closed, "closed"),
            (self.deadline, "past the deadline"),
            (self.cancelled, "cancelled"),
            (self.table_full, "no room for the key"),
        ]
    }
}

/// Prints one line, and one more with the reasons if any operation was refused.
impl fmt::Display for ObservedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            admitted,
            units,
            waited: _,
            refused,
            abandoned,
            waiting,
        } = self;
        let total = refused.total();
        write!(
            f,
            "admitted {admitted} ({units} units), refused {total}, abandoned {abandoned}, waiting {waiting}"
        )?;
        if total != 0 {
            write!(f, "\nrefused: {refused}")?;
        }
        Ok(())
    }
}

/// Prints the reasons with a count above 0.
impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (count, reason) in self.by_reason() {
            if count != 0 {
                write!(f, "{separator}{count} {reason}")?;
                separator = ", ";
            }
        }
        if separator.is_empty() {
            f.write_str("none")?;
        }
        Ok(())
    }
}
