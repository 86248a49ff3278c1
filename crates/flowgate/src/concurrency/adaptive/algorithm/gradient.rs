use super::jitter::Jitter;
use super::{Adapt, AdaptReport, start_outcomes};
use crate::clock::Timestamp;
use crate::concurrency::adaptive::fine_limit::FineLimit;
use crate::concurrency::adaptive::window::AdaptWindow;
use crate::quota::QuotaError;
use core::time::Duration;

/// 65,536ths.
const ONE: u64 = 1 << 16;
/// The queue at the set point, beside the tolerance: 3 calls, and 0.8 times the square root of the limit.
const QUEUE: u64 = 3 * ONE;
const QUEUE_OF_ROOT: u64 = 8 * ONE / 10;
/// How far below the knee a trial cuts the limit, in 65,536ths.
const ALARM_CUT: u64 = 6 * ONE / 10;
const HABIT_CUT: u64 = 9 * ONE / 10;
const GUESS_CUT: u64 = ONE / 2;
/// How deep a trial goes on in the slow start, in 65,536ths, where the queue is long: nothing was served well before.
const START_CUT: u64 = ONE / 4;
/// A trial on alarm begins with no deeper cut, in 65,536ths: a slower service would starve meanwhile.
const DEEPEST_CUT: u64 = 42 * ONE / 100;
/// A trial on alarm waits at most this number of windows for a steady latency.
const MOST_ALARMS: u32 = 4;
/// A trial measures this number of calls, and at least this number for each permit: enough to tell what the explanations predict. The
/// larger the limit, the closer the target is to the baseline.
const TRIAL_CALLS: u64 = 200;
const TRIAL_CALLS_OF_PERMIT: u64 = 4;
/// With this number of calls, a mean differs from that of a queue by less than a fifth; with fewer, by less than a half.
const MANY_CALLS: u64 = 500;
/// A trial lasts at least this number of windows. After a change of the limit, short calls end first and long ones later.
const TRIAL_WINDOWS: u32 = 2;
/// In the first window after a cut, calls from before it end, and in the second one, more short calls than long ones.
const SETTLE_WINDOWS: u32 = 2;
/// A trial by habit comes after this number of windows, and up to `TRIAL_JITTER` more.
const TRIAL_EVERY: u32 = 200;
const TRIAL_JITTER: u64 = 32;
/// The first baseline is the mean of at least this number of calls, if the slow start goes on for so long.
const FIRST_CALLS: u64 = 100;
/// The slow start ends after this number of consecutive windows above the target.
const START_ENDS_AFTER: u32 = 2;
/// And after this number of windows in which the limit was not fully used.
const START_ENDS_UNUSED: u32 = 8;
/// A service has become faster after this number of consecutive windows. In the first one after the limit has grown, short calls end.
const FASTER_AFTER: u32 = 2;
/// A limit that was too low for this number of consecutive windows grows by a quarter with each further one.
const GROWS_AFTER: u32 = 3;
/// After a baseline was adopted, it is measured again after this number of windows.
const RECHECK_AFTER: u32 = 16;

/// A limit by latency that tells a queue from a slower service by experiments.
///
/// It keeps a short queue at the service, so that its workers always have work.
///
/// The target is a latency a little above the baseline, which is the latency without a queue:
/// `baseline × (tolerance + 0.8 / √limit + 3 / limit)`. Every window, the limit goes half the way to where the latency would be on target.
///
/// A latency that has risen has two explanations: a queue, or a slower service. So the limit is cut to where a queue would be gone. If
/// the latency follows as that of a queue does, it was one. If not, the service has become slower, its latency is the new baseline, and the
/// limit is restored. Such a *trial* also verifies the baseline every 200 windows under load, so the baseline cannot drift.
///
/// It is for servers, and for the only client of a service. Clients that share a service use [`Aimd`](crate::Aimd): a cut by one of
/// them hardly moves the latency, so a trial finds no queue.
///
/// ```
/// use flowgate::{AdaptiveLimit, Gradient};
/// use std::time::Duration;
///
/// let gradient = Gradient::builder()
///     .tolerance_percent(120)
///     .max_healthy(Duration::from_millis(500))
///     .build()?;
/// let limit = AdaptiveLimit::new(gradient);
/// assert_eq!(limit.limit().permits(), 20);
///
/// let error = Gradient::builder().tolerance_percent(90).build().unwrap_err();
/// assert_eq!(error.to_string(), "a tolerance in percent of 90 is out of range: 100 to 1000");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// Sources: the gradient is that of Netflix's concurrency-limits and of Envoy's adaptive concurrency filter; the queue of √limit is the
/// square-root rule of staffing (Halfin, Whitt, *Heavy-traffic limits for queues with many exponential servers*, 1981).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradient {
    settings: GradientBuilder,
    /// 0: not known yet.
    baseline_ns: u64,
    /// The windows of which the first baseline is the mean.
    first: Measured,
    /// Whether there was a window before. In the first one, short calls end and long ones do not.
    has_begun: bool,
    /// Whether the baseline may be that of a queue: no trial has measured it yet.
    is_guess: bool,
    gradient: u64,
    is_slow_start: bool,
    /// Consecutive windows of the slow start above the target.
    late: u32,
    /// Consecutive windows far below the baseline.
    faster: u32,
    /// Windows of the slow start in which the limit was not fully used.
    unused: u32,
    /// Consecutive windows with next to no queue under a limit that was fully used.
    early: u32,
    phase: Phase,
    /// Windows, and windows in which the limit was fully used, since the last trial.
    windows: u32,
    full_windows: u32,
    next_trial: u32,
    /// Consecutive windows above the alarm level.
    alarms: u32,
    /// The latency of the last full window.
    previous_ns: u64,
    /// Where the latest run of cuts began. It ends when the limit is back there.
    cuts: Option<Cuts>,
    jitter: Jitter,
}

/// Settings of a [`Gradient`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial) | 20 permits |
/// | [`tolerance_percent`](Self::tolerance_percent) | 105 |
/// | [`max_healthy`](Self::max_healthy) | none |
/// | [`seed`](Self::seed) | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct GradientBuilder {
    initial: FineLimit,
    tolerance_percent: u32,
    max_healthy_ns: u64,
    seed: u64,
    has_trials: bool,
}

/// A limit, and the latency under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    limit: FineLimit,
    latency_ns: u64,
}

impl Point {
    /// The latency under another limit, if all workers are busy under both.
    fn queued_ns(&self, limit: FineLimit) -> u64 {
        scaled(self.latency_ns, limit.parts(), self.limit.parts())
    }
}

/// A run of cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cuts {
    first: Point,
    highest_ns: u64,
    /// Whether the latency was on target meanwhile.
    is_interrupted: bool,
}

impl Cuts {
    fn new(first: Point) -> Self {
        let highest_ns = first.latency_ns;
        Self {
            first,
            highest_ns,
            is_interrupted: false,
        }
    }

    /// The limit at which the cuts have to be explained.
    fn end(&self) -> FineLimit {
        match self.is_interrupted {
            true => self.first.limit.times(3, 5),
            false => self.first.limit.times(7, 10),
        }
    }

    /// The limit before the cuts, and the latency under it. At first the latency may still have been rising; the highest one is
    /// an outlier.
    fn before(&self) -> Point {
        Point {
            latency_ns: self.first.latency_ns / 2 + self.highest_ns / 2,
            ..self.first
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Track,
    /// The limit has been cut, and calls from before the cut still end, for this number of windows.
    Settle(Trial, u32),
    Measure(Trial, Measured),
    /// The limit has been restored, and the queue of the set point builds up again.
    Resume,
}

/// An experiment: what there was before the limit was cut, and why it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    before: Point,
    /// What there was before the last cut of the trial.
    from: Point,
    /// The latency without a queue, if there is none at the limit of the trial.
    expected_ns: u64,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The latency was high: was that a queue?
    Alarm,
    /// It is time to measure the baseline.
    Habit,
    /// The baseline may have been measured in a queue.
    Guess,
}

/// Latencies of several windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    sum_ns: u128,
    count: u64,
    windows: u32,
}

impl Measured {
    const NONE: Self = Self {
        sum_ns: 0,
        count: 0,
        windows: 0,
    };

    fn add(&mut self, window: &AdaptWindow) {
        self.windows += 1;
        self.count += window.successes;
        self.sum_ns += u128::from(window.mean_latency_ns) * u128::from(window.successes);
    }

    fn mean_ns(&self) -> u64 {
        // A mean of means of 64 bits.
        (self.sum_ns / u128::from(self.count.max(1))) as u64
    }
}

impl Default for Gradient {
    fn default() -> Self {
        Self::of(GradientBuilder::new())
    }
}

impl Gradient {
    /// Creates a builder, for settings other than the default ones.
    pub const fn builder() -> GradientBuilder {
        GradientBuilder::new()
    }

    const fn of(settings: GradientBuilder) -> Self {
        Self {
            settings,
            baseline_ns: 0,
            first: Measured::NONE,
            has_begun: false,
            is_guess: true,
            gradient: ONE,
            is_slow_start: true,
            late: 0,
            faster: 0,
            unused: 0,
            early: 0,
            phase: Phase::Track,
            windows: 0,
            full_windows: 0,
            next_trial: RECHECK_AFTER,
            alarms: 0,
            previous_ns: 0,
            cuts: None,
            jitter: Jitter::new(settings.seed),
        }
    }

    /// The target latency over the baseline, in 65,536ths.
    fn target_ratio(&self, limit: FineLimit) -> u64 {
        let tolerance = u64::from(self.settings.tolerance_percent) * ONE / 100;
        let of_root = QUEUE_OF_ROOT * ONE / limit.sqrt_parts().max(1);
        tolerance + of_root + QUEUE * ONE / limit.parts()
    }

    fn target_ns(&self, limit: FineLimit) -> u64 {
        scaled(self.baseline_ns, self.target_ratio(limit), ONE)
    }

    fn track(&mut self, window: &AdaptWindow) -> FineLimit {
        let (limit, latency_ns) = (window.limit, window.mean_latency_ns);
        if self.is_first_baseline(window) {
            self.first.add(window);
            self.baseline_ns = self.first.mean_ns();
        } else {
            self.follow_baseline(window);
        }
        let target_ns = self.target_ns(limit);
        self.gradient = scaled(ONE, target_ns, latency_ns).clamp(ONE / 2, 3 * ONE / 2);
        self.windows += 1;
        self.full_windows += u32::from(window.is_full());
        if self.is_slow_start {
            return self.slow_start(window, target_ns);
        }
        if self.settings.has_trials
            && window.is_full()
            && let Some(cut) = self.trial(window, target_ns)
        {
            return cut;
        }
        let is_early = window.is_full() && latency_ns < target_ns / 2 + self.baseline_ns / 2;
        self.early = if is_early { self.early + 1 } else { 0 };
        let next = match self.early > GROWS_AFTER {
            true => limit.times(5, 4),
            false => limit.times(ONE + self.gradient, 2 * ONE),
        };
        // A limit that holds nothing back causes no queue: cutting it would only refuse calls.
        if window.is_full() {
            next
        } else {
            next.max(limit)
        }
    }

    /// Doubles the limit until the latency stays above the target. Then a trial decides whether that is a queue.
    fn slow_start(&mut self, window: &AdaptWindow, target_ns: u64) -> FineLimit {
        let (limit, latency_ns) = (window.limit, window.mean_latency_ns);
        if !window.is_full() {
            // There is nothing to find.
            self.unused += 1;
            self.is_slow_start = self.unused < START_ENDS_UNUSED;
        }
        if latency_ns < target_ns {
            self.late = 0;
            return match window.is_used() {
                true => limit.times(2, 1),
                false => limit,
            };
        }
        // A limit that holds nothing back causes no queue.
        if window.is_full() {
            self.late += 1;
        }
        if self.late < START_ENDS_AFTER {
            return limit;
        }
        self.late = 0;
        if self.settings.has_trials {
            return self.begin(Cause::Guess, Point { limit, latency_ns });
        }
        self.is_slow_start = false;
        limit
    }

    /// Whether the first baseline, which may be of few calls yet, is also that of this window.
    fn is_first_baseline(&self, window: &AdaptWindow) -> bool {
        self.first.count == 0
            || self.first.count < FIRST_CALLS
                && self.is_slow_start
                && window.mean_latency_ns < self.target_ns(window.limit)
    }

    /// Moves the baseline by a window of regular operation.
    fn follow_baseline(&mut self, window: &AdaptWindow) {
        let (baseline_ns, latency_ns) = (self.baseline_ns, window.mean_latency_ns);
        if !window.is_full() {
            // What there is without a limit, in both directions.
            let seen_ns = latency_ns.min(baseline_ns.saturating_mul(2));
            self.baseline_ns = baseline_ns - baseline_ns / 32 + seen_ns / 32;
        } else if latency_ns < baseline_ns - baseline_ns / 4 {
            self.faster += 1;
            if self.faster >= FASTER_AFTER {
                // The service has become faster. Some of this may still be a queue.
                self.baseline_ns = latency_ns;
                self.is_guess = true;
                self.measure_again_after(RECHECK_AFTER);
            }
            return;
        } else if latency_ns < baseline_ns - baseline_ns / 8 {
            self.baseline_ns = baseline_ns - (baseline_ns - latency_ns) / 8;
        }
        self.faster = 0;
    }

    /// Begins a trial, if there is a reason, and returns the limit for it. The limit was fully used.
    fn trial(&mut self, window: &AdaptWindow, target_ns: u64) -> Option<FineLimit> {
        let (limit, latency_ns) = (window.limit, window.mean_latency_ns);
        let before = Point { limit, latency_ns };
        let previous_ns = core::mem::replace(&mut self.previous_ns, latency_ns);
        self.alarms = match latency_ns > scaled(target_ns, 3, 2) {
            true => self.alarms + 1,
            false => 0,
        };
        // What there is before a trial has to be known: the latency must have stopped rising.
        let is_rising = latency_ns > previous_ns.saturating_add(previous_ns / 8);
        if self.alarms > 0 && (self.alarms == 1 || is_rising) && self.alarms < MOST_ALARMS {
            return Some(limit);
        }
        if self.alarms > 0 {
            // A guess is measured first: it may be the latency of a queue.
            let cause = match self.is_guess {
                true => Cause::Guess,
                false => Cause::Alarm,
            };
            return Some(self.begin(cause, before));
        }
        match self.cuts {
            None if latency_ns <= target_ns => {}
            None => self.cuts = Some(Cuts::new(before)),
            Some(cuts) if limit >= cuts.first.limit && latency_ns <= target_ns => self.cuts = None,
            // The cuts are the experiment.
            Some(cuts) if limit <= cuts.end() => {
                return Some(self.begin(Cause::Alarm, cuts.before()));
            }
            Some(mut cuts) => {
                cuts.is_interrupted |= latency_ns <= target_ns;
                if !cuts.is_interrupted {
                    cuts.highest_ns = cuts.highest_ns.max(latency_ns);
                }
                self.cuts = Some(cuts);
            }
        }
        if self.windows >= 2 * self.next_trial {
            (self.windows, self.full_windows) = (0, 0);
        }
        if self.windows >= self.next_trial && self.full_windows >= self.next_trial / 4 * 3 {
            let cause = match self.is_guess {
                true => Cause::Guess,
                false => Cause::Habit,
            };
            return Some(self.begin(cause, before));
        }
        None
    }

    /// Cuts the limit for a trial.
    ///
    /// The cut goes below the knee: by more than the set point lies above it. On alarm, it goes so far that the two explanations
    /// predict different latencies: `cut × before` for a queue, and `before / target ratio` for a slower service, of which the set point's queue is gone.
    fn begin(&mut self, cause: Cause, before: Point) -> FineLimit {
        let ratio = self.target_ratio(before.limit);
        let of_service_ns = scaled(before.latency_ns, ONE, ratio);
        let (below_knee, expected_ns) = match cause {
            Cause::Alarm => (ALARM_CUT, of_service_ns),
            Cause::Guess => (GUESS_CUT, of_service_ns),
            Cause::Habit => (HABIT_CUT, self.baseline_ns),
        };
        let trial = Trial {
            before,
            from: before,
            expected_ns,
            cause,
        };
        self.phase = Phase::Settle(trial, SETTLE_WINDOWS);
        self.early = 0;
        let mut cut = scaled(below_knee, ONE, ratio);
        if cause == Cause::Alarm {
            // As far as the queue goes, if it is one.
            let to_knee = scaled(HABIT_CUT, self.baseline_ns, before.latency_ns);
            cut = cut.min(to_knee.max(DEEPEST_CUT));
        }
        before.limit.times(cut, ONE)
    }

    /// The next trial of the baseline comes after this number of windows.
    fn measure_again_after(&mut self, windows: u32) {
        (self.windows, self.full_windows) = (0, 0);
        self.next_trial = windows;
    }

    fn measure(&mut self, window: &AdaptWindow, trial: Trial, mut measured: Measured) -> FineLimit {
        measured.add(window);
        let of_permits = u64::from(window.limit.permits()) * TRIAL_CALLS_OF_PERMIT;
        let calls = match trial.cause {
            Cause::Habit => 2 * TRIAL_CALLS,
            _ => TRIAL_CALLS,
        };
        if measured.count < of_permits.max(calls) || measured.windows < TRIAL_WINDOWS {
            self.phase = Phase::Measure(trial, measured);
            return window.limit;
        }
        let latency_ns = measured.mean_ns();
        self.phase = Phase::Resume;
        self.alarms = 0;
        self.cuts = None;
        match trial.cause {
            Cause::Alarm => self.judge_alarm(window.limit, trial, latency_ns),
            _ => self.judge_habit(window.limit, trial, latency_ns, measured.count),
        }
    }

    /// Was the high latency a queue?
    fn judge_alarm(&mut self, limit: FineLimit, trial: Trial, latency_ns: u64) -> FineLimit {
        let before = trial.before;
        let of_queue_ns = trial.from.queued_ns(limit).max(self.baseline_ns);
        // Noise multiplies: halfway is the geometric mean.
        let halfway_ns = (u128::from(of_queue_ns) * u128::from(trial.expected_ns)).isqrt();
        let is_queue = u128::from(latency_ns) < halfway_ns;
        let is_unhealthy = latency_ns > self.settings.max_healthy_ns;
        if !is_queue && !is_unhealthy {
            self.baseline_ns = latency_ns;
            self.measure_again_after(RECHECK_AFTER);
        } else if is_queue
            && limit > FineLimit::ONE
            && latency_ns > self.baseline_ns.saturating_add(self.baseline_ns / 3)
        {
            // The limit is still above the knee, or the service is a little slower: only a deeper cut distinguishes them.
            return self.go_on(trial, Point { limit, latency_ns });
        }
        self.restored(limit, before)
    }

    /// Sets the baseline to what was measured, or goes on cutting while the latency still falls.
    fn judge_habit(
        &mut self,
        limit: FineLimit,
        trial: Trial,
        latency_ns: u64,
        calls: u64,
    ) -> FineLimit {
        let of_queue_ns = trial.from.queued_ns(limit);
        let is_lower = match trial.cause {
            Cause::Habit => latency_ns < trial.expected_ns - trial.expected_ns / 7,
            // In the slow start, the baseline may be that of a queue of any length. Later, another trial has measured it.
            _ if !self.is_slow_start && latency_ns >= self.baseline_ns - self.baseline_ns / 6 => {
                false
            }
            // Below the knee, the latency is above that of a queue.
            _ if calls >= MANY_CALLS => latency_ns < of_queue_ns + of_queue_ns / 5,
            _ => latency_ns < of_queue_ns + of_queue_ns / 2,
        };
        if is_lower && limit > FineLimit::ONE {
            let cause = Cause::Guess;
            return self.go_on(Trial { cause, ..trial }, Point { limit, latency_ns });
        }
        let measured_ns = latency_ns.min(self.settings.max_healthy_ns);
        self.baseline_ns = match trial.cause {
            Cause::Guess => measured_ns,
            // More than a drift is a matter for a trial on alarm.
            _ => {
                let most_ns = self.baseline_ns.saturating_add(self.baseline_ns / 7);
                self.baseline_ns / 2 + measured_ns.min(most_ns) / 2
            }
        };
        let every = match core::mem::replace(&mut self.is_guess, false) {
            true => TRIAL_EVERY / 4,
            false => TRIAL_EVERY,
        };
        let jitter = self.jitter.below(TRIAL_JITTER) as u32;
        self.measure_again_after(every + jitter);
        // A queue that is clear: two standard errors of exponential latencies.
        let error = 2 * ONE / calls.isqrt().max(1);
        let target_ns = self.target_ns(trial.before.limit);
        let clear_ns = scaled(target_ns, ONE + error.min(ONE / 4), ONE);
        self.is_slow_start &= trial.before.latency_ns <= clear_ns;
        if self.is_slow_start {
            // The baseline was too low, and the limit still is.
            return trial.before.limit.times(2, 1);
        }
        self.restored(limit, trial.before)
    }

    /// Cuts the limit once more: there was still a queue at `from`.
    fn go_on(&mut self, trial: Trial, from: Point) -> FineLimit {
        let of_queue_ns = trial.from.queued_ns(from.limit);
        // Only if the slow start has begun in a queue, it can be much longer than the limit of the knee.
        let is_far = self.is_slow_start
            && from.limit <= self.settings.initial.times(2, 1)
            && from.latency_ns < of_queue_ns + of_queue_ns / 5;
        let trial = Trial {
            from,
            expected_ns: from.latency_ns,
            ..trial
        };
        self.phase = Phase::Settle(trial, SETTLE_WINDOWS);
        let cut = match is_far {
            true => START_CUT,
            false => GUESS_CUT,
        };
        from.limit.times(cut, ONE)
    }

    /// The limit after a trial at `limit`: where the latency would be on target, if all of it above the baseline was a queue.
    fn restored(&self, limit: FineLimit, before: Point) -> FineLimit {
        let on_target = before
            .limit
            .times(self.target_ns(before.limit), before.latency_ns);
        on_target.clamp(limit, before.limit.max(limit))
    }
}

impl Adapt for Gradient {
    fn initial(&self) -> FineLimit {
        self.settings.initial
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        let cut = window.cut_for_overloads();
        if cut.is_some() {
            self.is_slow_start = false;
        }
        let cut = cut.unwrap_or(FineLimit::LARGEST);
        if window.successes == 0 || window.mean_latency_ns == 0 {
            return cut.min(window.limit);
        }
        let limit = match self.phase {
            _ if !core::mem::replace(&mut self.has_begun, true) => window.limit,
            Phase::Track => self.track(window),
            Phase::Settle(trial, windows) => {
                self.phase = match windows > 1 {
                    true => Phase::Settle(trial, windows - 1),
                    false => Phase::Measure(trial, Measured::NONE),
                };
                window.limit
            }
            Phase::Measure(trial, measured) => self.measure(window, trial, measured),
            Phase::Resume => {
                self.phase = Phase::Track;
                window.limit
            }
        };
        if window.mean_latency_ns > self.settings.max_healthy_ns {
            return limit.min(window.limit.times(9, 10)).min(cut);
        }
        limit.min(cut)
    }

    fn min_outcomes(&self, limit: FineLimit, usual: u64) -> u64 {
        match self.phase {
            Phase::Settle(..) | Phase::Resume => 1,
            Phase::Track if self.is_slow_start => start_outcomes(limit, usual),
            Phase::Track | Phase::Measure(..) => usual,
        }
    }

    fn report(&self) -> AdaptReport {
        AdaptReport {
            baseline_ns: Some(self.baseline_ns).filter(|ns| *ns > 0),
            gradient_permille: Some(scaled(1000, self.gradient, ONE)),
            is_measuring: matches!(self.phase, Phase::Settle(..) | Phase::Measure(..)),
        }
    }
}

impl GradientBuilder {
    const fn new() -> Self {
        Self {
            initial: FineLimit::whole(20),
            tolerance_percent: 105,
            max_healthy_ns: u64::MAX,
            seed: 0,
            has_trials: true,
        }
    }

    /// Sets the limit to start with (default: 20 permits).
    pub const fn initial(mut self, limit: FineLimit) -> Self {
        self.initial = limit;
        self
    }

    /// Sets the target latency in percent of the baseline, 100 to 1000 (default: 105).
    ///
    /// It is the target of a large limit. The smaller the limit, the higher the target: a small service has the longer queue for the same use of its workers.
    pub const fn tolerance_percent(mut self, percent: u32) -> Self {
        self.tolerance_percent = percent;
        self
    }

    /// Sets a latency above which the service is overloaded, whatever the baseline (default: none).
    ///
    /// Above it, the limit is cut by a tenth each window, and no higher latency becomes the baseline. Set it where an overload shows
    /// as calls that all end with the same timeout.
    pub const fn max_healthy(mut self, latency: Duration) -> Self {
        let ns = latency.as_nanos();
        self.max_healthy_ns = if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        };
        self
    }

    /// Sets the seed of the jitter between measurements (default: 0).
    ///
    /// Instances with different seeds do not measure at the same time.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Turns the trials off, to show what they are for.
    #[doc(hidden)]
    pub const fn without_trials(mut self) -> Self {
        self.has_trials = false;
        self
    }

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the tolerance is not within 100 to 1000, or the healthy latency is zero.
    pub const fn build(self) -> Result<Gradient, QuotaError> {
        if self.tolerance_percent < 100 || self.tolerance_percent > 1000 {
            let value = self.tolerance_percent as u64;
            return Err(QuotaError::out_of_range(
                "a tolerance in percent",
                value,
                100,
                1000,
            ));
        }
        if self.max_healthy_ns == 0 {
            return Err(QuotaError::out_of_range(
                "a healthy latency in nanoseconds",
                0,
                1,
                u64::MAX,
            ));
        }
        Ok(Gradient::of(self))
    }
}

/// Returns `value × numerator / denominator`, up to 2⁶⁴ − 1; the value itself for a denominator of 0.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    let scaled = product.checked_div(denominator.into());
    scaled.map_or(value, |scaled| u64::try_from(scaled).unwrap_or(u64::MAX))
}
