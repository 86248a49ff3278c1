//! Asynchronous readers and writers that share a bandwidth, polled by hand on a clock that only moves when told to.

use flowgate::{Limiter, ManualClock, Quota, SlidingWindow, Throttled, TokenBucket};
use flowgate_testkit::promise::{Promise, TimedGrant};
use flowgate_testkit::task::Task;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

const QUOTA: &str = "1000/s burst 64";

/// A runtime that moves the clock when nobody has anything to do.
struct Runtime {
    time: ManualClock,
    tasks: Vec<Task<Pin<Box<dyn Future<Output = ()>>>>>,
}

impl Runtime {
    fn new() -> Self {
        Self {
            time: ManualClock::new(),
            tasks: Vec::new(),
        }
    }

    fn limiter(&self) -> Arc<TokenBucket> {
        let builder = TokenBucket::builder(QUOTA.parse().expect("a quota")).clock(&self.time);
        Arc::new(builder.build().expect("in range"))
    }

    fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        self.tasks.push(Task::start(Box::pin(future)));
    }

    /// Runs all tasks until `time_ms`, or to their end.
    fn run_until_ms(&mut self, time_ms: u64) {
        while !self.tasks.is_empty() && self.time.now().as_nanos() < time_ms * 1_000_000 {
            while self.tasks.iter().any(Task::was_woken) {
                self.tasks.retain_mut(|task| !task.run());
            }
            self.time.advance(Duration::from_millis(1));
        }
    }
}

/// A peer that is ready now and then, takes or gives a part of what it could, and notes what and when.
struct Peer {
    time: ManualClock,
    history: Rc<RefCell<Vec<TimedGrant>>>,
    random: fastrand::Rng,
    /// How often of 8 times it is not ready.
    busy: u8,
    written: Rc<RefCell<Vec<u8>>>,
}

impl Peer {
    fn new(runtime: &Runtime, seed: u64, busy: u8) -> Self {
        Self {
            time: runtime.time.clone(),
            history: Rc::default(),
            random: fastrand::Rng::with_seed(seed),
            busy,
            written: Rc::default(),
        }
    }

    fn is_busy(&mut self, context: &Context<'_>) -> bool {
        let is_busy = self.random.u8(..8) < self.busy;
        if is_busy {
            // Ready again after some milliseconds, as which a few wake-ups for nothing count.
            context.waker().wake_by_ref();
        }
        is_busy
    }

    fn part(&mut self, of: usize) -> usize {
        match self.busy {
            0 => of,
            _ => self.random.usize(of.min(1)..=of),
        }
    }
}

fn passed(history: &RefCell<Vec<TimedGrant>>, time: &ManualClock, n: usize) {
    history
        .borrow_mut()
        .push(TimedGrant::new(time.now().as_nanos(), n as u64));
}

fn keeps(history: &RefCell<Vec<TimedGrant>>) {
    let promise = Promise::bucket(QUOTA.parse().expect("a quota"));
    if let Err(broken) = promise.check(&history.borrow()) {
        panic!("{broken}");
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_busy(context) {
            return Poll::Pending;
        }
        let n = self.part(bytes.len());
        passed(&self.history, &self.time, n);
        self.written.borrow_mut().extend_from_slice(&bytes[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An endless source: 0, 1, 2, …
struct Counting(Peer, u8);

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_busy(context) {
            return Poll::Pending;
        }
        for _ in 0..self.0.part(place.remaining()) {
            place.put_slice(&[self.1]);
            self.1 = self.1.wrapping_add(1);
        }
        Poll::Ready(Ok(()))
    }
}

/// Polls `operation` so many times, and then drops it.
async fn give_up_after<T>(polls: u32, operation: impl Future<Output = T>) -> Option<T> {
    let mut operation = Box::pin(operation);
    let mut left = polls;
    poll_fn(|context| match operation.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[test]
fn c1_bytes_written_in_random_pieces_by_many_keep_the_promise() {
    let mut runtime = Runtime::new();
    let limiter = runtime.limiter();
    let history = Rc::new(RefCell::new(Vec::new()));
    for seed in 0..8 {
        let mut peer = Peer::new(&runtime, seed, 3);
        peer.history = Rc::clone(&history);
        let mut random = fastrand::Rng::with_seed(seed + 100);
        let mut writer = Throttled::new(peer, Arc::clone(&limiter)).chunk(random.u64(1..=64));
        runtime.spawn(async move {
            loop {
                let bytes = vec![0; random.usize(..200)];
                writer.write_all(&bytes).await.expect("it is written");
            }
        });
    }
    runtime.run_until_ms(3_000);
    keeps(&history);
    let bytes: u64 = history.borrow().iter().map(|grant| grant.n).sum();
    // Nothing is lost with what is given back.
    assert!((3_000..=3_064).contains(&bytes), "{bytes}");
}

#[test]
fn c1_bytes_read_in_random_pieces_by_many_keep_the_promise_and_none_is_lost() {
    let mut runtime = Runtime::new();
    let limiter = runtime.limiter();
    let history: Rc<RefCell<Vec<TimedGrant>>> = Rc::default();
    for seed in 0..8 {
        let source = Counting(Peer::new(&runtime, seed, 3), 0);
        let mut random = fastrand::Rng::with_seed(seed + 200);
        let mut reader = Throttled::new(source, Arc::clone(&limiter)).chunk(random.u64(1..=64));
        let (history, time) = (Rc::clone(&history), runtime.time.clone());
        runtime.spawn(async move {
            let mut next = 0_u8;
            loop {
                let mut place = vec![0; random.usize(1..100)];
                // Most reads are given up before they are over.
                let read = give_up_after(random.u32(..3), reader.read(&mut place)).await;
                let Some(n) = read else { continue };
                let n = n.expect("it is read");
                passed(&history, &time, n);
                for byte in &place[..n] {
                    assert_eq!(*byte, next);
                    next = next.wrapping_add(1);
                }
            }
        });
    }
    runtime.run_until_ms(3_000);
    keeps(&history);
    let bytes: u64 = history.borrow().iter().map(|grant| grant.n).sum();
    assert!((3_000..=3_064).contains(&bytes), "{bytes}");
}

#[test]
fn c6_streams_that_always_want_more_get_the_same_bytes_to_a_chunk() {
    const CHUNK: u64 = 8;
    let mut runtime = Runtime::new();
    let limiter = runtime.limiter();
    // What there is at once would go to who comes first.
    limiter.try_acquire_n(64).expect("there are 64");
    let mut totals = Vec::new();
    for index in 0..100_u64 {
        let total = Rc::new(Cell::new(0_u64));
        totals.push(Rc::clone(&total));
        let limiter = Arc::clone(&limiter);
        if index % 2 == 0 {
            let source = Counting(Peer::new(&runtime, index, 0), 0);
            let mut reader = Throttled::new(source, limiter);
            runtime.spawn(async move {
                let mut place = vec![0; 100 + index as usize];
                loop {
                    let n = reader.read(&mut place).await.expect("it is read");
                    total.set(total.get() + n as u64);
                }
            });
        } else {
            let mut writer = Throttled::new(Peer::new(&runtime, index, 0), limiter);
            runtime.spawn(async move {
                let bytes = vec![0; 1 << 10];
                loop {
                    let n = writer.write(&bytes).await.expect("it is written");
                    total.set(total.get() + n as u64);
                }
            });
        }
    }
    runtime.run_until_ms(20_000);
    let totals: Vec<u64> = totals.iter().map(|total| total.get()).collect();
    let (least, most) = (totals.iter().min(), totals.iter().max());
    let (least, most) = (*least.expect("some"), *most.expect("some"));
    assert!(most - least <= CHUNK, "{totals:?}");
    let (sum, squares) = totals
        .iter()
        .fold((0, 0), |(sum, squares), &n| (sum + n, squares + n * n));
    assert!((19_900..=20_000).contains(&sum), "{sum}");
    // Jain's index, sum² / (100 · squares), is at least 0.99.
    assert!(100 * sum * sum >= 99 * 100 * squares, "{totals:?}");
}

#[test]
fn c2_a_write_of_ten_bursts_takes_exactly_the_time_that_is_due() {
    let mut runtime = Runtime::new();
    let limiter = runtime.limiter();
    let done_ms = Rc::new(Cell::new(0));
    let peer = Peer::new(&runtime, 0, 0);
    let (history, written) = (Rc::clone(&peer.history), Rc::clone(&peer.written));
    let mut writer = Throttled::new(peer, limiter);
    let (done, time) = (Rc::clone(&done_ms), runtime.time.clone());
    let bytes: Vec<u8> = (0..640).map(|n| n as u8).collect();
    let expected = bytes.clone();
    runtime.spawn(async move {
        writer.write_all(&bytes).await.expect("it is written");
        writer.shutdown().await.expect("it is shut down");
        done.set(time.now().as_nanos() / 1_000_000);
    });
    runtime.run_until_ms(2_000);
    assert_eq!(done_ms.get(), 576);
    assert_eq!(*written.borrow(), expected);
    keeps(&history);
}

#[test]
fn c5_a_writer_that_is_not_ready_holds_no_tokens() {
    let runtime = Runtime::new();
    let limiter = runtime.limiter();
    let mut stuck = Throttled::new(Peer::new(&runtime, 0, 8), Arc::clone(&limiter));
    let context = &mut Context::from_waker(Waker::noop());
    for _ in 0..10 {
        assert!(
            Pin::new(&mut stuck)
                .poll_write(context, &[0; 64])
                .is_pending()
        );
        assert_eq!((limiter.available(), limiter.queue().len()), (64, 0));
    }
    stuck.get_mut().busy = 0;
    let written = Pin::new(&mut stuck).poll_write(context, &[0; 64]);
    assert!(matches!(written, Poll::Ready(Ok(8))));
    assert_eq!(limiter.available(), 56);
}

#[test]
fn c6_who_is_dropped_or_shut_down_leaves_the_line() {
    let runtime = Runtime::new();
    let limiter = runtime.limiter();
    limiter.try_acquire_n(64).expect("there are 64");
    let peers = [0, 1, 2].map(|seed| Peer::new(&runtime, seed, 0));
    let [mut first, mut second, mut third] =
        peers.map(|peer| Throttled::new(peer, Arc::clone(&limiter)));
    let context = &mut Context::from_waker(Waker::noop());
    for writer in [&mut first, &mut second, &mut third] {
        assert!(Pin::new(writer).poll_write(context, &[0; 8]).is_pending());
    }
    assert_eq!(limiter.queue().len(), 3);
    drop(first);
    assert!(Pin::new(&mut second).poll_shutdown(context).is_ready());
    assert_eq!(limiter.queue().len(), 1);
    // The third moves up: 8 bytes take 8 ms.
    runtime.time.advance(Duration::from_millis(8));
    assert!(Pin::new(&mut third).poll_write(context, &[0; 8]).is_ready());
    // Its turn comes while nobody looks, and is given back with it.
    assert!(
        Pin::new(&mut third)
            .poll_write(context, &[0; 8])
            .is_pending()
    );
    let mut place = third.into_inner();
    assert!(limiter.queue().is_empty());
    assert!(Pin::new(&mut place).poll_flush(context).is_ready());
    runtime.time.advance(Duration::from_millis(8));
    assert_eq!(limiter.available(), 8);
}

#[test]
fn c5_a_write_that_is_given_up_leaves_what_a_smaller_one_does_not_need() {
    let runtime = Runtime::new();
    let limiter = runtime.limiter();
    let mut writer = Throttled::new(Peer::new(&runtime, 0, 0), Arc::clone(&limiter));
    let context = &mut Context::from_waker(Waker::noop());
    limiter.try_acquire_n(64).expect("there are 64");
    assert!(
        Pin::new(&mut writer)
            .poll_write(context, &[0; 100])
            .is_pending()
    );
    runtime.time.advance(Duration::from_millis(8));
    let written = Pin::new(&mut writer).poll_write(context, &[0; 3]);
    assert!(matches!(written, Poll::Ready(Ok(3))));
    assert_eq!(limiter.available(), 5);
}

#[test]
fn an_asynchronous_reader_goes_with_any_limiter_and_the_other_traits_with_it() {
    let time = ManualClock::new();
    let quota: Quota = "80/s".parse().expect("a quota");
    let window = SlidingWindow::builder(quota)
        .clock(&time)
        .build()
        .expect("in range");
    let shared: Arc<dyn Limiter> = Arc::new(window);
    let mut reader = Throttled::new(smol::io::Cursor::new(vec![5; 100]), shared);
    let context = &mut Context::from_waker(Waker::noop());
    let mut place = [0; 100];
    let mut read = |reader: &mut Throttled<_, _>| {
        smol::io::AsyncRead::poll_read(Pin::new(reader), context, &mut place)
    };
    for _ in 0..8 {
        assert!(matches!(read(&mut reader), Poll::Ready(Ok(10))));
    }
    assert!(read(&mut reader).is_pending());
    time.advance(Duration::from_secs(1));
    assert!(matches!(read(&mut reader), Poll::Ready(Ok(10))));
    assert_eq!(reader.limiter().available(), 70);
}
