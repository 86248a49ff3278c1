//! Long lines: what joining, leaving and being let in cost where very many wait. Nothing runs but the
//! thread that polls, so what is timed is the line alone.

use std::fmt::Write as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use flowgate::ConcurrencyLimit;
use serde::Serialize;

use super::flowgate::SteppedBucket;
use super::line::Stepped;
use super::{ASYNC_LOCK, CONCURRENCY_LIMIT, TOKIO};
use crate::spread::Spread;
use crate::{OURS, Verdict, chosen};

const LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];

/// Number of timed waiters: they join at the end of the queue, leave from all over it, and are granted at its head.
const TIMED: usize = 1_000;

/// Maximum ratio of the cost at the longest queue to that at the shortest. A walk along the queue would cost a hundred
/// times as much. The rest allows for caches, which the longest queue does not fit: without a walk, the cost of
/// cancelling in tokio grows fivefold.
const GROWTH: f64 = 10.0;

/// One line at one length.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub waiting: usize,
    pub enqueue_ns: Spread,
    pub cancel_ns: Spread,
    pub grant_ns: Spread,
    /// `size_of` the caller's future.
    pub future_bytes: usize,
    /// What each waiter took from the allocator besides, as long as it waits.
    pub allocated_bytes: f64,
}

/// What one round gives.
struct Costs {
    enqueue_ns: f64,
    cancel_ns: f64,
    grant_ns: f64,
    future_bytes: usize,
    allocated_bytes: f64,
}

type Round = fn(usize) -> Costs;

fn all() -> Vec<(&'static str, Round)> {
    vec![
        (TOKIO, |waiting| {
            round(&tokio::sync::Semaphore::new(1), waiting)
        }),
        (ASYNC_LOCK, |waiting| {
            round(&async_lock::Semaphore::new(1), waiting)
        }),
        (CONCURRENCY_LIMIT, |waiting| {
            round(&ConcurrencyLimit::new(1), waiting)
        }),
        ("flowgate TokenBucket", |waiting| {
            round(&SteppedBucket::new(), waiting)
        }),
    ]
}

/// A caller's position in the queue; `None` once it has left.
type Place<F> = Option<Pin<Box<F>>>;

fn round(line: &impl Stepped, waiting: usize) -> Costs {
    let mut grant = poll_once(pin!(line.acquire(1)));
    let places = (0..waiting + TIMED).map(|_| Some(Box::pin(line.acquire(1))));
    let mut places: Vec<_> = places.collect();
    let future_bytes = future_bytes(&places);

    let (standing, joining) = places.split_at_mut(waiting);
    let allocated = allocation_counter::measure(|| join(standing));
    let enqueue_ns = timed(|| join(joining));

    let apart = places.len() / TIMED;
    let leaving = places.iter_mut().skip(apart / 2).step_by(apart).take(TIMED);
    let cancel_ns = timed(|| leaving.for_each(|place| drop(place.take())));

    let heads = places.iter_mut().filter_map(Option::take).take(TIMED);
    let grant_ns = timed(|| {
        for mut head in heads {
            line.let_one_in(grant.take().expect("the last one was let in"));
            grant = poll_once(head.as_mut());
        }
    });
    Costs {
        enqueue_ns,
        cancel_ns,
        grant_ns,
        future_bytes,
        allocated_bytes: allocated.bytes_current as f64 / waiting as f64,
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn join<F: Future>(places: &mut [Place<F>]) {
    for place in places.iter_mut().flatten() {
        let granted = poll_once(place.as_mut());
        assert!(granted.is_none(), "one permit cannot be had twice");
    }
}

fn future_bytes<F>(_: &[Place<F>]) -> usize {
    size_of::<F>()
}

/// ns for each of [`TIMED`].
fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64 / TIMED as f64
}

pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|(subject, _)| *subject).collect()
}

/// Every line at every length `rounds` times, interleaved.
pub fn measure(rounds: usize, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut cases = all();
    cases.retain(|(subject, _)| chosen(subject, only));
    let mut rows = Vec::new();
    for waiting in LENGTHS {
        let mut costs: Vec<Vec<Costs>> = cases.iter().map(|_| Vec::new()).collect();
        for first in 0..rounds {
            for step in 0..cases.len() {
                let index = (first + step) % cases.len();
                costs[index].push(cases[index].1(waiting));
            }
        }
        for ((subject, _), costs) in cases.iter().zip(&costs) {
            let spread = |ns: fn(&Costs) -> f64| Spread::of(costs.iter().map(ns).collect());
            let last = costs.last();
            rows.push(Row {
                subject,
                waiting,
                enqueue_ns: spread(|costs| costs.enqueue_ns),
                cancel_ns: spread(|costs| costs.cancel_ns),
                grant_ns: spread(|costs| costs.grant_ns),
                future_bytes: last.map_or(0, |costs| costs.future_bytes),
                allocated_bytes: last.map_or(0.0, |costs| costs.allocated_bytes),
            });
        }
    }
    Ok(rows)
}

pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some(row.waiting) {
            heading = Some(row.waiting);
            let _ = writeln!(
                text,
                "\n{} waiting, polled by hand: ns each, medians",
                row.waiting
            );
            let _ = writeln!(
                text,
                "  {:<26} {:>9} {:>9} {:>9} {:>14} {:>16}",
                "", "enqueue", "cancel", "grant", "bytes: future", "+ in the line"
            );
        }
        let _ = writeln!(
            text,
            "  {:<26} {:>9.1} {:>9.1} {:>9.1} {:>14} {:>16.1}",
            row.subject,
            row.enqueue_ns.p50,
            row.cancel_ns.p50,
            row.grant_ns.p50,
            row.future_bytes,
            row.allocated_bytes,
        );
    }
    text
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let growth = |cost: fn(&Row) -> Spread| {
        let [shortest, .., longest] = LENGTHS;
        let ours = |waiting| {
            let ours = rows.iter().filter(move |row| row.subject.starts_with(OURS));
            ours.filter(move |row| row.waiting == waiting).map(cost)
        };
        let pairs = ours(longest).zip(ours(shortest));
        pairs
            .map(|(long, short)| long.p50 / short.p50)
            .reduce(f64::max)
    };
    let verdict = |what, growth| {
        let goal = format!("{what} with 100,000 waiting at most {GROWTH} x that with 1,000");
        Verdict::at_most(goal, growth, GROWTH, " x")
    };
    vec![
        verdict("enqueue", growth(|row| row.enqueue_ns)),
        verdict("cancel", growth(|row| row.cancel_ns)),
        verdict("grant", growth(|row| row.grant_ns)),
    ]
}
