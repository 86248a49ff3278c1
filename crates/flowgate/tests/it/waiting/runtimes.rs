//! Waiting in real time, under the runtimes that people use. What is asserted is the promise, not how punctual it is.

use flowgate::{Clock, LeakyBucket, Precision, Timestamp};
use std::sync::{Arc, Mutex};

const TASKS: usize = 8;
const TURNS: usize = 25;

/// 2000 per second, never two closer than 500 µs by the dates of their grants.
fn limiter() -> Arc<LeakyBucket> {
    Arc::new(LeakyBucket::new("2000/s".parse().unwrap()))
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Timestamp>>>);

impl Log {
    fn note(&self, at: Timestamp) {
        self.0.lock().unwrap().push(at);
    }

    #[track_caller]
    fn check(self, began: Timestamp) {
        let mut dates = Arc::try_unwrap(self.0).unwrap().into_inner().unwrap();
        assert_eq!(dates.len(), TASKS * TURNS);
        dates.sort();
        assert!(dates[0] >= began);
        assert!(*dates.last().unwrap() <= Clock::system().now());
        for pair in dates.windows(2) {
            assert!(pair[1].as_nanos() - pair[0].as_nanos() >= 500_000);
        }
    }
}

async fn take_turns(limiter: Arc<LeakyBucket>, log: Log) {
    for _ in 0..TURNS {
        log.note(limiter.acquire().await.unwrap().at());
    }
}

fn tokio(runtime: &tokio::runtime::Runtime) {
    let (limiter, log) = (limiter(), Log::default());
    let began = limiter.clock().now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| tokio::spawn(take_turns(limiter.clone(), log.clone())))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    log.check(began);
}

#[test]
fn c1_under_tokio_on_one_thread() {
    tokio(
        &tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap(),
    );
}

#[test]
fn c1_under_tokio_on_several_threads() {
    tokio(
        &tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap(),
    );
}

#[test]
fn c1_under_smol() {
    let (limiter, log) = (limiter(), Log::default());
    let began = limiter.clock().now();
    smol::block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| smol::spawn(take_turns(limiter.clone(), log.clone())))
            .collect();
        for task in tasks {
            task.await;
        }
    });
    log.check(began);
}

#[test]
fn c1_with_plain_threads_at_every_precision() {
    for precision in [Precision::Coarse, Precision::Normal, Precision::Strict] {
        let (limiter, log) = (limiter(), Log::default());
        limiter.queue().set_precision(precision);
        let began = limiter.clock().now();
        std::thread::scope(|threads| {
            for _ in 0..TASKS {
                threads.spawn(|| {
                    for _ in 0..TURNS {
                        log.note(limiter.acquire().block().unwrap().at());
                    }
                });
            }
        });
        log.check(began);
    }
}
