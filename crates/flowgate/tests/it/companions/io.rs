//! Blocking readers and writers that share a bandwidth, on a clock that jumps to whatever is waited for.

use flowgate::{
    Clock, Denied, Limiter, Quota, Source, Throttled, Timestamp, TokenBucket, Unlimited, WarmUp,
};
use flowgate_testkit::promise::{Kind, Promise, TimedGrant};
use std::cell::RefCell;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

/// Waits take no time: the clock is then where they end.
#[derive(Clone, Default)]
struct Jumping(Arc<AtomicU64>);

impl Source for Jumping {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        self.0.fetch_max(at.as_nanos(), Ordering::SeqCst);
        waker.wake_by_ref();
        true
    }
}

impl Jumping {
    fn limiter(&self, text: &str) -> TokenBucket {
        let builder = TokenBucket::builder(quota(text)).clock(Clock::custom(self.clone()));
        builder.build().expect("in range")
    }
}

/// What passed, and when.
#[derive(Clone, Default)]
struct History(Rc<RefCell<Vec<TimedGrant>>>);

impl History {
    fn passed(&self, time: &Jumping, n: usize) {
        let grant = TimedGrant::new(time.now_ns(), n as u64);
        self.0.borrow_mut().push(grant);
    }

    fn bytes(&self) -> u64 {
        self.0.borrow().iter().map(|grant| grant.n).sum()
    }

    #[track_caller]
    fn keeps(&self, promise: Promise) {
        if let Err(broken) = promise.check(&self.0.borrow()) {
            panic!("{promise:?}: {broken}");
        }
    }
}

/// Takes what `takes` says of each write, and notes it.
struct Sink<F> {
    time: Jumping,
    history: History,
    takes: F,
}

impl<F: FnMut(usize) -> io::Result<usize>> Write for Sink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = (self.takes)(bytes.len())?;
        self.history.passed(&self.time, n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn denied(error: &io::Error) -> Denied {
    *error
        .get_ref()
        .and_then(|inside| inside.downcast_ref::<Denied>())
        .expect("a refusal is inside")
}

/// By three writers, to each of the limiters that `limiter` makes.
#[track_caller]
fn bytes_written_in_random_pieces_keep<L: Limiter>(
    promise: Promise,
    limiter: impl Fn(&Jumping) -> L,
) {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..30 {
        let time = Jumping::default();
        let limiter = limiter(&time);
        let history = History::default();
        let (sizes, failures) = (random.clone(), RefCell::new(random.fork()));
        let mut writers: Vec<_> = (0..3)
            .map(|_| {
                let sink = Sink {
                    time: time.clone(),
                    history: history.clone(),
                    // Now and then it is full, and mostly it takes only a part.
                    takes: |n| {
                        let mut random = failures.borrow_mut();
                        match random.u8(..4) {
                            0 => Err(ErrorKind::Interrupted.into()),
                            1 => Ok(n),
                            _ => Ok(random.usize(1..=n)),
                        }
                    },
                };
                Throttled::new(sink, &limiter).chunk(random.u64(1..=300))
            })
            .collect();
        let mut sizes = sizes;
        let mut written = 0;
        for _ in 0..40 {
            let bytes = vec![7; sizes.usize(..500)];
            writers[sizes.usize(..3)]
                .write_all(&bytes)
                .expect("it is written");
            written += bytes.len() as u64;
            time.0.fetch_add(sizes.u64(..50_000_000), Ordering::SeqCst);
        }
        assert_eq!(history.bytes(), written);
        history.keeps(promise);
    }
}

#[test]
fn c1_bytes_written_in_random_pieces_keep_the_promise() {
    const QUOTA: &str = "1000/s burst 300";
    bytes_written_in_random_pieces_keep(Promise::bucket(quota(QUOTA)), |time| time.limiter(QUOTA));
}

#[test]
fn c1_bytes_written_in_random_pieces_keep_the_promise_where_the_next_caller_pays() {
    // The burst, and a chunk beyond it.
    let promise = Promise::bucket(quota("1000/s burst 600"));
    bytes_written_in_random_pieces_keep(promise, |time| {
        time.limiter("1000/s burst 300").pay_after()
    });
    let paid = quota("1000/s burst 300");
    bytes_written_in_random_pieces_keep(Promise::new(Kind::NextPays, paid), |time| {
        let builder = WarmUp::builder(paid).warm_up(Duration::ZERO);
        let limiter = builder.clock(Clock::custom(time.clone())).build();
        limiter.expect("in range")
    });
}

#[test]
fn c1_bytes_read_in_random_pieces_keep_the_promise_and_are_the_same() {
    const QUOTA: &str = "1000/s burst 300";
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..30 {
        let time = Jumping::default();
        let limiter = time.limiter(QUOTA);
        let history = History::default();
        let sources: Vec<Vec<u8>> = (0..3)
            .map(|_| (0..random.usize(1..3000)).map(|_| random.u8(..)).collect())
            .collect();
        let mut readers: Vec<_> = sources
            .iter()
            .map(|source| Throttled::new(&source[..], &limiter).chunk(random.u64(1..400)))
            .collect();
        let mut read = vec![Vec::new(); 3];
        let mut open = 3;
        while open > 0 {
            open = 3;
            for (reader, read) in readers.iter_mut().zip(&mut read) {
                let mut place = vec![0; random.usize(1..400)];
                let n = reader.read(&mut place).expect("it is read");
                history.passed(&time, n);
                read.extend_from_slice(&place[..n]);
                open -= usize::from(n == 0);
            }
        }
        assert!(read == sources);
        history.keeps(Promise::bucket(quota(QUOTA)));
    }
}

#[test]
fn c2_ten_bursts_pass_in_exactly_the_time_that_is_due() {
    for text in ["1000/s burst 100", "1000/s burst 7", "1000/s burst 1"] {
        let time = Jumping::default();
        let limiter = time.limiter(text);
        let burst = limiter.quota().max_burst();
        let history = History::default();
        let sink = Sink {
            time: time.clone(),
            history: history.clone(),
            takes: Ok,
        };
        let mut writer = Throttled::new(sink, &limiter);
        writer
            .write_all(&vec![0; 10 * burst as usize])
            .expect("it is written");
        assert_eq!(time.now_ns(), 9 * burst * 1_000_000, "{text}");
        history.keeps(Promise::bucket(quota(text)));

        let time = Jumping::default();
        let limiter = time.limiter(text);
        let source = vec![3; 10 * burst as usize];
        let mut reader = Throttled::new(&source[..], &limiter);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("it is read");
        assert!(read == source);
        assert_eq!(time.now_ns(), 9 * burst * 1_000_000, "{text}");
    }
}

#[test]
fn c5_what_a_writer_does_not_take_comes_back() {
    let time = Jumping::default();
    let limiter = time.limiter("1000/s burst 100");
    let mut answers = vec![
        Ok(0),
        Err(ErrorKind::WouldBlock.into()),
        Ok(3),
        // A writer that lies.
        Ok(1000),
    ]
    .into_iter();
    let sink = Sink {
        time,
        history: History::default(),
        takes: |_| answers.next().expect("as many as are asked for"),
    };
    let mut writer = Throttled::new(sink, &limiter).chunk(50);
    assert_eq!(writer.write(&[0; 40]).expect("it is written"), 0);
    assert_eq!(limiter.available(), 100);
    let full = writer.write(&[0; 40]).expect_err("it is full");
    assert_eq!(
        (full.kind(), limiter.available()),
        (ErrorKind::WouldBlock, 100)
    );
    assert_eq!(writer.write(&[0; 40]).expect("it is written"), 3);
    assert_eq!(limiter.available(), 97);
    assert_eq!(writer.write(&[0; 60]).expect("it is written"), 50);
    assert_eq!(limiter.available(), 47);
}

/// How much is left, or how long one waits.
#[track_caller]
fn a_writer_that_takes_a_tenth<L: Limiter>(limiter: L, time: &Jumping) -> (u64, Option<Duration>) {
    let sink = Sink {
        time: time.clone(),
        history: History::default(),
        takes: |n| Ok(n / 10),
    };
    let mut writer = Throttled::new(sink, &limiter).chunk(100);
    assert_eq!(writer.write(&[0; 100]).expect("it is written"), 10);
    let wait = limiter.try_acquire().err().and_then(|d| d.retry_after());
    (limiter.available(), wait)
}

#[test]
fn c5_what_a_writer_does_not_take_comes_back_where_the_next_caller_pays() {
    let time = Jumping::default();
    let clock = || Clock::custom(time.clone());
    let pay_after = || {
        let builder = TokenBucket::builder(quota("1000/h")).clock(clock());
        builder.build().expect("in range").pay_after()
    };
    let full = pay_after();
    assert_eq!(a_writer_that_takes_a_tenth(full, &time), (989, None));
    // What was missing already still is.
    let half_full = pay_after();
    half_full.try_acquire_n(500).expect("there are 1000");
    assert_eq!(a_writer_that_takes_a_tenth(half_full, &time), (489, None));
    let near_empty = pay_after();
    near_empty.try_acquire_n(950).expect("there are 1000");
    assert_eq!(a_writer_that_takes_a_tenth(near_empty, &time), (39, None));

    let warm = WarmUp::builder(quota("1000/h")).clock(clock());
    let warm = warm.warm_up(Duration::ZERO).build().expect("in range");
    let wait = Some(Duration::from_secs(36));
    assert_eq!(a_writer_that_takes_a_tenth(warm, &time), (0, wait));
}

#[test]
fn c5_a_writer_that_panics_keeps_nothing() {
    let time = Jumping::default();
    let limiter = time.limiter("1000/s burst 100");
    let sink = Sink {
        time,
        history: History::default(),
        takes: |_| panic!("as it does"),
    };
    let mut writer = Throttled::new(sink, &limiter);
    let call = std::panic::AssertUnwindSafe(|| writer.write(&[0; 10]));
    assert!(std::panic::catch_unwind(call).is_err());
    assert_eq!(limiter.available(), 100);
}

#[test]
fn c5_the_end_an_error_and_a_short_read_cost_what_came() {
    struct Source(Vec<io::Result<usize>>);

    impl Read for Source {
        fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
            let answer = self.0.pop().unwrap_or(Ok(0))?;
            let room = place.len();
            place[..answer.min(room)].fill(1);
            Ok(answer)
        }
    }

    let limiter = Jumping::default().limiter("1000/s burst 100");
    let answers = vec![Ok(1000), Ok(5), Err(ErrorKind::TimedOut.into())];
    let mut reader = Throttled::new(Source(answers), &limiter);
    let mut place = [0; 100];
    assert!(reader.read(&mut place).is_err());
    assert_eq!(limiter.available(), 100);
    assert_eq!(reader.read(&mut place).expect("it is read"), 5);
    assert_eq!(limiter.available(), 95);
    // A source that lies: there was room for a chunk, 12.
    assert_eq!(reader.read(&mut place).expect("it is read"), 12);
    assert_eq!(reader.read(&mut []).expect("nothing"), 0);
    for _ in 0..3 {
        assert_eq!(reader.read(&mut place).expect("the end"), 0);
    }
    assert_eq!(limiter.available(), 83);
}

#[test]
fn c2_nothing_is_asked_of_an_empty_bucket_for_an_end() {
    let time = Jumping::default();
    let limiter = time.limiter("1/h burst 1");
    limiter.try_acquire().expect("there is one");
    let mut reader = Throttled::new(io::empty(), &limiter);
    assert_eq!(reader.read(&mut [0; 9]).expect("the end"), 0);
    assert_eq!(time.now_ns(), 0);
}

#[test]
fn a_closed_limiter_ends_it_and_no_byte_is_lost() {
    let time = Jumping::default();
    let limiter = time.limiter("1000/s burst 80");
    let mut reader = Throttled::new(&b"0123456789abc"[..], &limiter);
    let mut place = [0; 100];
    assert_eq!(reader.read(&mut place).expect("a chunk"), 10);
    limiter.queue().close();
    for _ in 0..2 {
        let error = reader.read(&mut place).expect_err("it is closed");
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(denied(&error).is_closed());
        assert_eq!(reader.read_ahead(), b"abc");
    }
    assert_eq!(reader.get_ref().len(), 0);
    let mut writer = Throttled::new(Vec::new(), &limiter);
    let error = writer.write_all(b"x").expect_err("it is closed");
    assert!(denied(&error).is_closed());
    assert!(writer.into_inner().is_empty());
}

#[test]
fn a_smaller_burst_makes_smaller_chunks() {
    let time = Jumping::default();
    let limiter = time.limiter("1000/s burst 800");
    let limiter = Arc::new(limiter);
    let mut reader = Throttled::new(io::repeat(0), Arc::clone(&limiter)).chunk(500);
    let mut place = [0; 900];
    assert_eq!(reader.read(&mut place).expect("a chunk"), 500);
    limiter.set_burst(30).expect("in range");
    assert_eq!(reader.read(&mut place).expect("a chunk"), 30);
    let reader = Throttled::new(io::repeat(0), limiter);
    assert_eq!(
        BufReader::new(reader).read(&mut place[..2]).expect("two"),
        2
    );
}

#[test]
fn a_burst_that_shrinks_while_the_source_is_read_loses_no_byte() {
    struct Shrinking(Arc<TokenBucket>, u8);

    impl Read for Shrinking {
        fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
            self.0.set_burst(3).expect("in range");
            for byte in &mut *place {
                *byte = self.1;
                self.1 += 1;
            }
            Ok(place.len())
        }
    }

    let limiter = Arc::new(Jumping::default().limiter("1000/s burst 80"));
    let mut reader = Throttled::new(Shrinking(Arc::clone(&limiter), 0), limiter).chunk(10);
    let mut read = Vec::new();
    while read.len() < 22 {
        let mut place = [0; 50];
        let n = reader.read(&mut place).expect("it is read");
        assert!((1..=3).contains(&n), "{n}");
        read.extend_from_slice(&place[..n]);
    }
    assert!(read.iter().copied().eq(0..read.len() as u8), "{read:?}");
}

#[test]
fn chunks_are_an_eighth_of_the_burst_and_64_kib_at_most() {
    let mut place = vec![0; 1 << 20];
    let mut read = |reader: &mut dyn Read| reader.read(&mut place).expect("it is read");
    let unlimited = Unlimited::new();
    assert_eq!(read(&mut Throttled::new(io::repeat(0), &unlimited)), 65_536);
    let million = Throttled::new(io::repeat(0), &unlimited);
    assert_eq!(read(&mut million.chunk(u64::MAX)), 1 << 20);
    let time = Jumping::default();
    for (quota, chunk) in [
        ("1MiB/s", 65_536),
        ("1MiB/s burst 64KiB", 8_192),
        ("1MiB/s burst 15B", 1),
        ("1MiB/s burst 1B", 1),
    ] {
        let limiter = time.limiter(quota);
        let shared: &dyn flowgate::Limiter = &limiter;
        assert_eq!(read(&mut Throttled::new(io::repeat(0), shared)), chunk);
        assert_eq!(read(&mut Throttled::new(io::repeat(0), shared).chunk(0)), 1);
    }
}
