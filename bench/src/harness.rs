//! Measures all cases in one process.
//!
//! Every round runs every case once for a fixed time. Each round starts one case later than the previous one, so that
//! no case always follows the same pause, frequency change or neighbor. Threads are pinned, one per core. Each case is
//! compared with its baseline *within a round*: absolute numbers vary with the machine, ratios much less.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use flowgate_bench::cases::{Batch, Case};

/// How many operations run between two looks at the stopwatch: long enough that looking costs under
/// 0.2 ns an operation, short enough that 2 ms hold many.
const BATCH_OPERATIONS: u64 = 256;

/// How long and how often every case is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub threads: usize,
    pub rounds: usize,
    pub window: Duration,
}

/// What one case did in every round of a plan.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// ns per operation as one thread sees it, by round.
    pub ns_per_op: Vec<f64>,
    /// The operations of the slowest thread, of an equal share, by round.
    pub slowest_share: Vec<f64>,
    pub operations: u64,
    pub admitted: u64,
}

/// The cores that threads are pinned to. Pins the calling thread to the first.
///
/// # Errors
///
/// A message when the cores cannot be listed or the thread cannot be pinned: unpinned numbers are
/// not worth printing.
pub fn pinned_cores() -> Result<Vec<CoreId>, String> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let first = *cores
        .first()
        .ok_or("the cores of this machine cannot be listed")?;
    if !core_affinity::set_for_current(first) {
        return Err(format!("this thread cannot be pinned to core {}", first.id));
    }
    Ok(cores)
}

/// Runs `plan` over `cases` and returns one [`Samples`] per case, in their order.
///
/// The calling thread must be pinned to `cores[0]`; the others are pinned to the cores after it.
pub fn measure(cases: &[Case], plan: Plan, cores: &[CoreId]) -> Vec<Samples> {
    let mut samples = vec![Samples::default(); cases.len()];
    for case in cases {
        // Caches, page tables and branch predictors, and each thread's first use of a limiter.
        run(case, plan.threads, plan.window / 4, cores);
    }
    for round in 0..plan.rounds {
        for step in 0..cases.len() {
            let index = (round + step) % cases.len();
            let laps = run(&cases[index], plan.threads, plan.window, cores);
            let samples = &mut samples[index];
            let ops_per_ns: f64 = laps.iter().map(Lap::ops_per_ns).sum();
            samples.ns_per_op.push(plan.threads as f64 / ops_per_ns);
            let all = laps.iter().map(|lap| lap.operations);
            let slowest = all.clone().min().unwrap_or_default() * plan.threads as u64;
            let share = slowest as f64 / all.sum::<u64>() as f64;
            samples.slowest_share.push(share);
            samples.operations += laps.iter().map(|lap| lap.operations).sum::<u64>();
            samples.admitted += laps.iter().map(|lap| lap.admitted).sum::<u64>();
        }
    }
    samples
}

/// What one thread did in one window.
struct Lap {
    operations: u64,
    admitted: u64,
    elapsed: Duration,
}

impl Lap {
    fn ops_per_ns(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_nanos() as f64
    }

    fn run(batch: &Batch, window: Duration) -> Lap {
        let (mut operations, mut admitted) = (0, 0);
        let started = Instant::now();
        loop {
            admitted += batch(BATCH_OPERATIONS);
            operations += BATCH_OPERATIONS;
            let elapsed = started.elapsed();
            if elapsed >= window {
                return Lap {
                    operations,
                    admitted,
                    elapsed,
                };
            }
        }
    }
}

fn run(case: &Case, threads: usize, window: Duration, cores: &[CoreId]) -> Vec<Lap> {
    if let Some(prepare) = &case.prepare {
        prepare();
    }
    let batch = &case.batch;
    if threads == 1 {
        return vec![Lap::run(batch, window)];
    }
    // Threads start within a cache miss of one another: a spinning barrier, since a sleeping one
    // wakes them 50 µs apart.
    let ready = AtomicUsize::new(0);
    let together = || {
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::hint::spin_loop();
        }
        Lap::run(batch, window)
    };
    thread::scope(|scope| {
        let others: Vec<_> = cores[1..threads]
            .iter()
            .map(|&core| {
                scope.spawn(move || {
                    core_affinity::set_for_current(core);
                    together()
                })
            })
            .collect();
        let mut laps = vec![together()];
        laps.extend(
            others
                .into_iter()
                .map(|other| other.join().expect("a batch does not panic")),
        );
        laps
    })
}

/// Allocations per operation of a case, on the calling thread, over 1,000 operations.
pub fn allocations_per_op(case: &Case) -> f64 {
    const OPERATIONS: u64 = 1_000;
    if let Some(prepare) = &case.prepare {
        prepare();
    }
    let counted = allocation_counter::measure(|| {
        std::hint::black_box((case.batch)(OPERATIONS));
    });
    counted.count_total as f64 / OPERATIONS as f64
}
