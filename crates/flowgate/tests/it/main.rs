//! Tests of what flowgate promises, through its public interface.
//!
//! The name of a test begins with the contracts that the test checks (VERIFICATION.md lists them, C1 to C9):
//! `cargo test -p flowgate --test it c5_` runs every test of C5 here. The folders say where to look first:
//!
//! | folder | what it holds | contracts |
//! |---|---|---|
//! | `every` | suites over every type: all contracts, the mistakes of other limiters, common methods | C1–C8 |
//! | `types` | what one type promises beyond them, and each type against a model of its own | C1–C6 |
//! | `safety` | real threads on the real clock, judged afterwards | C1 |
//! | `clock` | times before a change of quota, and clocks that panic | C1–C5 |
//! | `waiting` | queues: the order of grants, their times, deadlines, cancellation; runtimes | C3 C6 |
//! | `keys` | a limit for each key | C7, and C1–C6 of each key |
//! | `rates` | quotas: text, range, exact spacing | C8 |
//! | `borrowed` | the test vectors of other libraries | C1–C5 C8 |
//! | `companions` | what stands on limiters: streams, bytes, counts, sampling, sizing; examples | C1 C5 |
//!
//! All of them run in one process. A test that needs a process of its own is a file beside this folder
//! (`allocations`: C9, `keyed_memory`: C7, `fork`: waits in a child process).

mod effort;

mod every {
    mod conformance;
    mod mistakes;
    mod peek;
    mod policy;
    mod state;
}

mod types {
    mod approximate_window;
    mod concurrency_limit;
    mod decaying_bucket;
    mod fixed_window;
    mod gate;
    mod gate_faults;
    mod gate_members;
    mod keyed_gate;
    mod keyed_gate_adversary;
    mod leaky_bucket;
    mod leased;
    mod pay_after;
    mod quota_states;
    mod segmented_window;
    mod sliding_window;
    mod striped;
    mod striped_differential;
    mod token_bucket;
    mod token_bucket_carry;
    mod token_bucket_differential;
    mod unlimited;
    mod warm_up;
}

mod safety {
    mod striped_threads;
    mod threads;
}

mod clock {
    mod behind_a_change;
    mod panicking_sources;
    mod stale_after_change;
    mod windows_before_a_change;
}

mod waiting {
    mod buckets;
    mod corners;
    mod deadlines;
    mod faults;
    mod given_up_unseen;
    mod overload;
    mod paused;
    mod queue;
    mod runtimes;
    mod windows;
}

mod keys {
    mod address;
    mod aligned;
    mod concurrency;
    mod corners;
    mod differential;
    mod dual;
    mod each;
    mod exhaustive;
    mod limiter;
    mod own;
    mod promises;
    mod table;
    mod threads;
    mod unlimited;
}

mod rates {
    mod config;
    mod quota;
    mod quotas;
}

mod borrowed {
    mod bsm_jaeger;
    mod dotnet;
    mod gcra;
    mod guava;
    mod uber;
    mod windows;
    mod xtime;
}

mod companions {
    mod degrade;
    mod examples;
    mod io;
    mod io_tokio;
    mod metrics;
    mod observed;
    mod observed_keys;
    mod priority_shedder;
    mod retry_budget;
    mod sizing;
    mod sometimes;
    mod stream;
    mod throttle;
}
