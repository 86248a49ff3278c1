//! The memory of a table, each test in a process of its own that is given a limit. A capacity for which there is no memory is an
//! error, and not the end of the process.
#![cfg(target_os = "linux")]

use flowgate::{Keyed, KeyedConcurrencyLimit, Quota, WhenFull};
use std::process::Command;

/// Set in the child, which makes what the parent asks for.
const CHILD: &str = "FLOWGATE_IS_CHILD";
/// Of addresses. Few enough that what is asked for is not there on any machine.
const LIMIT_KIB: u64 = 4 << 20;
const KEYS: usize = 1 << 30;

/// Runs the test of this name again, with a limit.
#[track_caller]
fn in_a_small_process(test: &str) {
    let script = format!("ulimit -v {LIMIT_KIB} && exec \"$0\" --exact {test} --nocapture");
    let this = std::env::current_exe().expect("a test has a file");
    let child = Command::new("sh")
        .args(["-c", &script])
        .arg(this)
        .env(CHILD, "1")
        .output()
        .expect("a shell");
    let told = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {told}", child.status);
    assert!(told.contains("1 passed"), "{told}");
}

fn told(error: flowgate::KeyedError, bytes: u64) {
    let message =
        format!("a capacity of {KEYS} keys takes {bytes} bytes of memory, which are not to be had");
    assert_eq!(error.to_string(), message);
}

#[test]
fn c7_a_capacity_beyond_the_memory_that_there_is_is_refused_with_its_bytes() {
    if std::env::var_os(CHILD).is_none() {
        return in_a_small_process(
            "c7_a_capacity_beyond_the_memory_that_there_is_is_refused_with_its_bytes",
        );
    }
    let buckets = || Keyed::token_bucket(Quota::per_second(1));
    told(buckets().capacity(KEYS).unwrap_err(), 25_590_863_232);
    let deny = buckets().when_full(WhenFull::Deny);
    told(deny.capacity(KEYS).unwrap_err(), 25_769_820_160);
    let exact = buckets().exact::<u64>();
    told(exact.capacity(KEYS).unwrap_err(), 59_950_601_664);
    let slots = KeyedConcurrencyLimit::new(1, KEYS);
    told(slots.unwrap_err(), 68_719_493_120);
    // What comes after is not the worse for it.
    let limits = buckets().capacity(1_000_000).expect("there is room");
    assert!(limits.try_acquire("a").is_ok());
}

#[test]
fn c7_a_large_table_is_in_huge_pages_where_there_are_any_and_takes_no_more_memory() {
    if std::env::var_os(CHILD).is_none() {
        return in_a_small_process(
            "c7_a_large_table_is_in_huge_pages_where_there_are_any_and_takes_no_more_memory",
        );
    }
    let table = |keys| {
        let limits = Keyed::token_bucket(Quota::per_second(1)).capacity(keys);
        limits.expect("there is room")
    };
    assert!(!table(100_000).is_huge_page_advised(), "it is small");
    let (before, advised_before) = (resident(), advised());
    let large = table(1_000_000);
    let page = 2 << 20;
    assert!(resident() - before < large.bytes() as u64 + page);
    let there_are_any = std::fs::exists("/sys/kernel/mm/transparent_hugepage").expect("sysfs");
    assert_eq!(large.is_huge_page_advised(), there_are_any);
    if there_are_any {
        // All of the lines, but for parts of a huge page at both ends.
        let lines = 64 * 333_334;
        assert!(advised() - advised_before > lines - 2 * page);
    }
}

/// The bytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    kib(line.expect("a kernel with memory")) << 10
}

/// The bytes of this process that are asked for in huge pages.
fn advised() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
    let mut size = 0;
    let mut sum = 0;
    for line in maps.lines() {
        if line.starts_with("Size:") {
            size = kib(line) << 10;
        } else if line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "hg") {
            sum += size;
        }
    }
    sum
}

fn kib(line: &str) -> u64 {
    let number = line.split_whitespace().nth(1).map(str::parse);
    number.expect("a number").expect("of KiB")
}
