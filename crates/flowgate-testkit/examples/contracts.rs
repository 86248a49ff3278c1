//! The long run of the conformance suite: every type and storage, every contract, on every core.
//!
//! `cargo run --release -p flowgate-testkit --example contracts -- [OPERATIONS] [SEED] [TYPE]`
//!
//! OPERATIONS are those of all types together, 10 million unless it is set. TYPE is a part of a name.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowgate_testkit::broken::BuildBroken;
use flowgate_testkit::conformance::{self, Contract};
use flowgate_testkit::promise::{Anchor, Kind};
use flowgate_testkit::script::Setup;
use flowgate_testkit::subject;

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_secs(30);

/// What draws histories; C8 has only its own.
const DRAWN: [Contract; 5] = [
    Contract::C1,
    Contract::C2,
    Contract::C3,
    Contract::C4,
    Contract::C5,
];

const FIRST_GRANT: Kind = Kind::Window(Anchor::FirstGrant);
const ALIGNED: Kind = Kind::Window(Anchor::Aligned(1_234_567_891));
const SEGMENTS: Kind = Kind::Segmented { segments: 10 };
const SEGMENT: Kind = Kind::Segmented { segments: 1 };

const TYPES: [(&str, Kind, BuildBroken); 36] = [
    ("token bucket", Kind::Bucket, subject::token_bucket),
    ("leaky bucket", Kind::Bucket, subject::leaky_bucket),
    ("pay after", Kind::PayAfter, subject::pay_after),
    (
        "dual token bucket",
        Kind::Bucket,
        subject::dual_token_bucket,
    ),
    (
        "striped token bucket",
        Kind::Bucket,
        subject::striped_by_its_clock,
    ),
    (
        "striped leaky bucket",
        Kind::Bucket,
        subject::striped_leaky_bucket_by_its_clock,
    ),
    (
        "striped fixed window",
        Kind::Approximate,
        subject::striped_fixed_window_by_its_clock,
    ),
    ("fixed window", FIRST_GRANT, subject::fixed_window),
    ("aligned fixed window", ALIGNED, subject::fixed_window),
    (
        "clock-free fixed window",
        Kind::Approximate,
        subject::clock_free_window,
    ),
    ("sliding window", Kind::Sliding, subject::sliding_window),
    ("segmented window", SEGMENTS, subject::segmented_window),
    (
        "segmented window of one",
        SEGMENT,
        subject::segmented_window,
    ),
    (
        "approximate window",
        Kind::Approximate,
        subject::approximate_window,
    ),
    ("warm-up", Kind::NextPays, subject::warm_up),
    ("decaying bucket", Kind::Decaying, subject::decaying_bucket),
    (
        "own clock: token bucket",
        Kind::Bucket,
        subject::by_its_clock,
    ),
    (
        "own clock: pay after",
        Kind::PayAfter,
        subject::by_its_clock,
    ),
    (
        "own clock: dual token bucket",
        Kind::Bucket,
        subject::dual_token_bucket_by_its_clock,
    ),
    (
        "own clock: fixed window",
        FIRST_GRANT,
        subject::by_its_clock,
    ),
    (
        "own clock: sliding window",
        Kind::Sliding,
        subject::by_its_clock,
    ),
    (
        "own clock: segmented window",
        SEGMENTS,
        subject::by_its_clock,
    ),
    (
        "own clock: approximate window",
        Kind::Approximate,
        subject::by_its_clock,
    ),
    ("own clock: warm-up", Kind::NextPays, subject::by_its_clock),
    (
        "own clock: decaying bucket",
        Kind::Decaying,
        subject::by_its_clock,
    ),
    ("keyed token bucket", Kind::Bucket, keyed_token_bucket),
    ("keyed leaky bucket", Kind::Bucket, keyed_leaky_bucket),
    (
        "keyed dual token bucket",
        Kind::Bucket,
        subject::keyed_dual_token_bucket,
    ),
    ("keyed fixed window", FIRST_GRANT, keyed_fixed_window),
    (
        "keyed segmented window",
        SEGMENT,
        subject::keyed_segmented_window,
    ),
    (
        "own clock: keyed token bucket",
        Kind::Bucket,
        keyed_by_its_clock,
    ),
    (
        "own clock: keyed dual token bucket",
        Kind::Bucket,
        subject::keyed_dual_token_bucket_by_its_clock,
    ),
    (
        "own clock: keyed fixed window",
        FIRST_GRANT,
        keyed_by_its_clock,
    ),
    (
        "own clock: keyed segmented window",
        SEGMENT,
        subject::keyed_by_its_clock,
    ),
    (
        "concurrency limit",
        Kind::InFlight,
        subject::concurrency_limit,
    ),
    (
        "keyed concurrency limit",
        Kind::InFlight,
        subject::keyed_concurrency_limit,
    ),
];

type Test<'a> = &'a mut dyn FnMut(&mut dyn subject::Subject);

fn keyed_token_bucket(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_token_bucket(setup, test);
    }
}

fn keyed_leaky_bucket(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_leaky_bucket(setup, test);
    }
}

fn keyed_fixed_window(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_fixed_window(setup, test);
    }
}

fn keyed_by_its_clock(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_by_its_clock(setup, test);
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| {
        let word = words.get(index).map(|word| word.replace('_', ""));
        word.map_or(Ok(default), |word| word.parse::<u64>())
    };
    let (Ok(operations), Ok(seed)) = (number(0, 10_000_000), number(1, 1)) else {
        eprintln!("usage: contracts [OPERATIONS] [SEED] [TYPE], the first two whole numbers");
        return ExitCode::from(2);
    };
    // A limiter that panics is a finding, which is shown with its history.
    std::panic::set_hook(Box::new(|_| {}));
    let part = words.get(2).map_or("", String::as_str);
    let types = TYPES.iter().filter(|(name, ..)| name.contains(part));
    let each = operations.div_ceil(types.clone().count().max(1) as u64);
    let (mut total, mut findings) = (0, 0);
    let began = Instant::now();
    for (name, kind, build) in types {
        let (done, found) = run(name, *kind, *build, each, seed);
        total += done;
        findings += found;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{total} operations, seed {seed}, {seconds:.1} s, {findings} findings");
    if findings == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether a type rounds what C2 asks for. Its own tests have the bound that holds instead.
fn is_rounded(name: &str) -> bool {
    name.ends_with("keyed dual token bucket")
}

/// Judges one type on every core. Returns the number of operations and of contracts that are broken.
fn run(name: &str, kind: Kind, build: BuildBroken, operations: u64, seed: u64) -> (u64, usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let done = AtomicU64::new(0);
    let began = Instant::now();
    let worker = |core: u64| {
        // Histories are numbered; each core has 2⁴⁸ of its own.
        let first = seed.wrapping_add(core << 48);
        let mut broken: Vec<conformance::Finding> = Vec::new();
        let mut shown = Instant::now();
        for number in 0.. {
            let seed = first.wrapping_add(number);
            for contract in DRAWN {
                if contract == Contract::C2 && is_rounded(name) {
                    continue;
                }
                if broken.iter().any(|finding| finding.contract == contract) {
                    continue;
                }
                match conformance::history(kind, &build, contract, seed) {
                    Ok(operations) => {
                        done.fetch_add(operations, Ordering::Relaxed);
                    }
                    Err(finding) => {
                        eprintln!("{name}, seed {seed}: {finding}");
                        broken.push(*finding);
                    }
                }
            }
            let so_far = done.load(Ordering::Relaxed);
            // A setup that a type does not take has no operations: that ends, too.
            if so_far >= operations || number > operations || broken.len() == DRAWN.len() {
                break;
            }
            if core == 0 && shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                eprintln!("{name}: {so_far} of {operations}");
            }
        }
        broken
    };
    let mut broken: Vec<Contract> = std::thread::scope(|scope| {
        let worker = &worker;
        let workers: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || worker(core)))
            .collect();
        let findings = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker does not panic"));
        findings.map(|finding| finding.contract).collect()
    });
    broken.sort_unstable();
    broken.dedup();
    let (done, seconds) = (done.into_inner(), began.elapsed().as_secs_f64());
    let rate = done as f64 / seconds;
    println!("{name:<32} {done:>12} operations {rate:>10.0}/s  broken: {broken:?}");
    (done, broken.len())
}
