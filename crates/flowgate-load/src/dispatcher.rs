//! When each request is sent: by a schedule, by a limiter, or whenever a place is free.
//!
//! The dispatcher sleeps until the scheduled time of the next request and hands it to a free place, whose task then
//! writes it. If all are busy, the request waits, and so do later ones. Each keeps its scheduled time, so the wait is
//! visible as lag and in the response times.

use std::cell::Cell;
use std::future::pending;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::event::Event;
use crate::pacer::Pacer;
use crate::pacing_limiter::{Margin, PacingLimiter};
use crate::plan::{Late, Pace, Plan};
use crate::pool::Job;
use crate::report::nanos;
use crate::stop::Stop;
use crate::worker::Shared;
use flowgate_schedule::{Extent, Schedule};

/// How long after the end of the schedule late requests may still be sent. Without this bound, a server that never
/// responds would keep the run going until all requests have timed out.
const LATE_SENDS: Duration = Duration::from_secs(1);

/// Minimum time of a schedule that the warm-up repeats.
const LEAST_ROUND: Duration = Duration::from_millis(1);

/// The last write, for a dispatcher that waits for it.
pub(crate) struct Writes {
    /// Start of sending: that of the warm-up, if there is one.
    pub(crate) began: Instant,
    last_ns: Cell<Option<u64>>,
    changed: Notify,
}

impl Writes {
    pub(crate) fn since(began: Instant) -> Writes {
        Writes {
            began,
            last_ns: Cell::new(None),
            changed: Notify::new(),
        }
    }

    pub(crate) fn happened(&self, at: Instant) {
        self.last_ns.set(Some(self.offset_ns(at)));
        self.changed.notify_one();
    }

    fn offset_ns(&self, at: Instant) -> u64 {
        nanos::of(at.saturating_duration_since(self.began))
    }

    fn instant(&self, offset_ns: u64) -> Option<Instant> {
        self.began.checked_add(Duration::from_nanos(offset_ns))
    }

    /// Returns the time of the next write. Cancel safe.
    async fn next(&self) -> u64 {
        loop {
            if let Some(at_ns) = self.last_ns.take() {
                return at_ns;
            }
            self.changed.notified().await;
        }
    }
}

/// Hands every request to a place at its scheduled time, or as soon as one is free afterwards.
pub(crate) struct Dispatcher {
    pub(crate) plan: Arc<Plan>,
    /// Index of its first request in the schedule, and the distance to the next.
    pub(crate) first: usize,
    pub(crate) step: usize,
    /// The server whose requests it sends; `None` for all, in order.
    pub(crate) server: Option<usize>,
    pub(crate) left: Arc<AtomicU64>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) pacer: Pacer,
    pub(crate) writes: Rc<Writes>,
    pub(crate) stop: Stop,
    /// Start and end of the last continuous wait for a free place.
    pub(crate) busy: Cell<(Instant, Instant)>,
}

/// The run has ended; nothing more is sent.
struct Ended;

impl Dispatcher {
    pub(crate) async fn run(mut self) {
        let plan = self.plan.clone();
        let stop = self.stop.clone();
        let mut stopped = pin!(stop.stopped());
        let _: Result<(), Ended> = match &plan.pace {
            Pace::Hold(schedule) => match self.warm_up(schedule, stopped.as_mut()).await {
                Ok(()) => self.hold(schedule, stopped.as_mut()).await,
                ended => ended,
            },
            Pace::Under(limiter, extent) => {
                self.stay_under(limiter, *extent, stopped.as_mut()).await
            }
            Pace::Unpaced(extent) => match self.hurry_up(stopped.as_mut()).await {
                Ok(()) => self.hurry(*extent, stopped.as_mut()).await,
                ended => ended,
            },
        };
    }

    /// Sends from the beginning of the schedule, again if it is shorter than the warm-up, until the run starts.
    async fn warm_up(
        &mut self,
        schedule: &Schedule,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let start = self.shared.journal.start();
        let length = schedule.span() + schedule.interval().max(LEAST_ROUND);
        let mut round = self.writes.began;
        while round < start {
            let indices = (self.first..).step_by(self.step);
            let times = schedule.times().skip(self.first).step_by(self.step);
            for (index, offset) in indices.zip(times) {
                let Some(scheduled) = round.checked_add(offset).filter(|time| *time < start) else {
                    break;
                };
                if !self.sends(index) {
                    continue;
                }
                tokio::select! {
                    biased;
                    () = &mut stopped => return Err(Ended),
                    () = self.pacer.sleep_until(scheduled) => {}
                }
                let job = self.job(index, scheduled);
                self.hand_over(job, Some(start), stopped.as_mut()).await?;
            }
            round = round.checked_add(length).unwrap_or(start);
        }
        self.shared.pool.forget_peak();
        Ok(())
    }

    /// Sends by a schedule.
    async fn hold(
        &mut self,
        schedule: &Schedule,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let last_call = self.at(schedule.span().checked_add(LATE_SENDS));
        let indices = (self.first..).step_by(self.step);
        let times = schedule.times().skip(self.first).step_by(self.step);
        for (index, offset) in indices.zip(times) {
            if !self.sends(index) {
                continue;
            }
            let scheduled = self.at(Some(offset)).ok_or(Ended)?;
            tokio::select! {
                biased;
                () = &mut stopped => return Err(Ended),
                () = self.pacer.sleep_until(scheduled) => {}
            }
            if last_call.is_some_and(|last_call| Instant::now() > last_call) {
                return Err(Ended);
            }
            let too_late = match self.plan.late {
                Late::Queue => None,
                Late::Within(patience) => scheduled.checked_add(patience),
            };
            let scheduled_ns = nanos::of(offset);
            let job = self.job(index, scheduled);
            if too_late.is_some_and(|too_late| Instant::now() > too_late) {
                self.note(Event::Skipped { scheduled_ns });
                continue;
            }
            let end = match (too_late, last_call) {
                (Some(too_late), Some(last_call)) => Some(too_late.min(last_call)),
                (some, other) => some.or(other),
            };
            if self.hand_over(job, end, stopped.as_mut()).await?.is_some() {
                self.note(Event::Scheduled { scheduled_ns });
            } else if too_late.is_some() {
                self.note(Event::Skipped { scheduled_ns });
            } else {
                self.note(Event::Scheduled { scheduled_ns });
                return Err(Ended);
            }
        }
        Ok(())
    }

    /// Sends when a limiter allows it, by the times at which requests were really written.
    async fn stay_under(
        &mut self,
        limiter: &PacingLimiter,
        extent: Extent,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let (most, end_ns) = ends(extent);
        // Warm-up and run are one for the limiter, so these times count from the start of the warm-up.
        let warm_up_ns = self.writes.offset_ns(self.shared.journal.start());
        let end_ns = end_ns.saturating_add(warm_up_ns);
        let late_ns = end_ns.saturating_add(nanos::of(LATE_SENDS));
        let last_call = self.writes.instant(late_ns);
        let mut from_ns = 0;
        let mut before = None;
        let mut counted = 0;
        for index in 0.. {
            if counted == most {
                break;
            }
            let earliest_ns = limiter.next_ns(from_ns).ok_or(Ended)?;
            let scheduled_ns = match before {
                Some(id) if earliest_ns > from_ns => {
                    let distance = Duration::from_nanos(earliest_ns - from_ns);
                    let margin = tokio::select! {
                        biased;
                        () = &mut stopped => return Err(Ended),
                        margin = self.margin(limiter.margin_asked(), distance, id, from_ns) => margin,
                    };
                    earliest_ns.saturating_add(nanos::of(margin))
                }
                _ => earliest_ns,
            };
            if scheduled_ns >= end_ns {
                return Err(Ended);
            }
            let scheduled = self.writes.instant(scheduled_ns).ok_or(Ended)?;
            tokio::select! {
                biased;
                () = &mut stopped => return Err(Ended),
                () = self.pacer.sleep_until(scheduled) => {}
            }
            let journal = &self.shared.journal;
            if journal.counts(scheduled) {
                counted += 1;
                journal.note(Event::Scheduled {
                    scheduled_ns: journal.offset_ns(scheduled),
                });
            }
            let id = self
                .hand_over(self.job(index, scheduled), last_call, stopped.as_mut())
                .await?
                .ok_or(Ended)?;
            tokio::select! {
                biased;
                sent_ns = self.writes.next() => {
                    limiter.sent(sent_ns);
                    from_ns = sent_ns;
                    before = Some(id);
                }
                // The request could not be sent. It still counts, or a server that is gone would be tried without a
                // pause.
                () = self.shared.pool.place(id).over() => {
                    from_ns = from_ns.max(self.now_ns());
                    limiter.sent(from_ns);
                    before = None;
                }
                () = &mut stopped => return Err(Ended),
            }
        }
        Ok(())
    }

    /// Returns the margin after a request on place `id` that was sent at `sent_ns`, once it is known.
    async fn margin(
        &mut self,
        margin: Margin,
        distance: Duration,
        id: usize,
        sent_ns: u64,
    ) -> Duration {
        let shared = self.shared.clone();
        let answered = shared.pool.place(id).over();
        if let Some(longest) = margin.longest(distance) {
            // Without a response by then, the margin has its maximum.
            let end = self
                .writes
                .instant(sent_ns.saturating_add(nanos::of(longest)));
            tokio::select! {
                biased;
                () = answered => {}
                () = sleep_past(end) => return longest,
            }
        } else {
            answered.await;
        }
        let took = Duration::from_nanos(self.now_ns().saturating_sub(sent_ns));
        margin.after(distance, took)
    }

    /// Sends whenever a place is free, until the run starts.
    async fn hurry_up(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let start = self.shared.journal.start();
        let began = self.writes.began;
        if began < start {
            tokio::select! {
                biased;
                () = &mut stopped => return Err(Ended),
                () = self.pacer.sleep_until(began) => {}
            }
        }
        let mut index = self.first;
        loop {
            let now = Instant::now();
            if began == start || now >= start {
                self.shared.pool.forget_peak();
                return Ok(());
            }
            let job = self.job(index, now);
            if self.shared.pool.hand_over(job).is_some() {
                index += self.step;
                continue;
            }
            tokio::select! {
                biased;
                () = self.shared.pool.freed(job.server) => {}
                () = &mut stopped => return Err(Ended),
                () = sleep_past(Some(start)) => {}
            }
        }
    }

    /// Sends whenever a place is free.
    async fn hurry(
        &mut self,
        extent: Extent,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let (_, end_ns) = ends(extent);
        let end = self.at(Some(Duration::from_nanos(end_ns)));
        let start = self.shared.journal.start();
        tokio::select! {
            biased;
            () = &mut stopped => return Err(Ended),
            () = self.pacer.sleep_until(start) => {}
        }
        while let Some(index) = self.take_one_of_those_left() {
            loop {
                let now = Instant::now();
                if end.is_some_and(|end| now >= end) {
                    return Err(Ended);
                }
                let job = self.job(index, now);
                if self.shared.pool.hand_over(job).is_some() {
                    break;
                }
                tokio::select! {
                    biased;
                    () = self.shared.pool.freed(job.server) => {}
                    () = &mut stopped => return Err(Ended),
                    () = sleep_past(end) => return Err(Ended),
                }
            }
        }
        Ok(())
    }

    /// Returns the index of the next request of all threads, so that together they keep the order; `None` at the end.
    fn take_one_of_those_left(&self) -> Option<usize> {
        let one_less = |left: u64| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .ok()?;
        let whole = self.plan.requests().unwrap_or(u64::MAX);
        // A message is chosen by the index, and any will do beyond the range of an index.
        Some((whole - left) as usize)
    }

    /// Hands the job to a place that is free by `end`, and returns the place. Records a wait.
    async fn hand_over(
        &self,
        job: Job,
        end: Option<Instant>,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<usize>, Ended> {
        let pool = &self.shared.pool;
        let (began, ended) = self.busy.get();
        let was_scheduled_before = job.scheduled < ended;
        if let Some(id) = pool.hand_over(job) {
            if was_scheduled_before {
                // Earlier requests waited, and this one behind them.
                self.note_wait(job, began, ended);
            }
            return Ok(Some(id));
        }
        let began = if was_scheduled_before {
            began
        } else {
            Instant::now()
        };
        let mut end = pin!(sleep_past(end));
        let handed_over = loop {
            tokio::select! {
                biased;
                () = &mut stopped => break Err(Ended),
                () = &mut end => break Ok(None),
                () = pool.freed(job.server) => {
                    if let Some(id) = pool.hand_over(job) {
                        break Ok(Some(id));
                    }
                }
            }
        };
        let now = Instant::now();
        self.busy.set((began, now));
        self.note_wait(job, began, now);
        handed_over
    }

    /// Records a wait for a place. A delay of the client itself is not such a wait.
    fn note_wait(&self, job: Job, began: Instant, to: Instant) {
        if self.shared.journal.counts(job.scheduled) {
            let from = job.scheduled.max(began);
            let wait_ns = nanos::of(to.saturating_duration_since(from));
            self.note(Event::Queued { wait_ns });
        }
    }

    /// Returns the request with this index in the whole run.
    fn job(&self, index: usize, scheduled: Instant) -> Job {
        self.shared.prepared.job(index, scheduled)
    }

    /// Returns whether this dispatcher sends the request with this index.
    fn sends(&self, index: usize) -> bool {
        self.server
            .is_none_or(|server| self.shared.prepared.server(index) == server)
    }

    fn at(&self, offset: Option<Duration>) -> Option<Instant> {
        self.shared.journal.start().checked_add(offset?)
    }

    fn now_ns(&self) -> u64 {
        self.writes.offset_ns(Instant::now())
    }

    fn note(&self, event: Event) {
        self.shared.journal.note(event);
    }
}

/// Returns the maximum number of requests, and the end of sending.
fn ends(extent: Extent) -> (usize, u64) {
    match extent {
        Extent::Lasting(span) => (usize::MAX, nanos::of(span)),
        Extent::Requests(requests) => (
            usize::try_from(requests).unwrap_or(usize::MAX).max(1),
            u64::MAX,
        ),
    }
}

/// Sleeps until the instant, or forever if there is none.
async fn sleep_past(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => pending().await,
    }
}
