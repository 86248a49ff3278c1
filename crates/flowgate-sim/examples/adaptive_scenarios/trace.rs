//! The windows of one run.

use clap::{Args, ValueEnum};
use flowgate_sim::{FaultKind, Share};

use crate::algorithm::Algorithm;
use crate::plant::Plant;

#[derive(Args)]
pub struct Options {
    #[arg(long, default_value_t = 20)]
    workers: u32,
    #[arg(long, default_value = "exponential 10ms")]
    service: String,
    /// Arrivals, as a multiple of the capacity
    #[arg(long, default_value_t = 2.0)]
    load: f64,
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Fault from 15 s on
    #[arg(long)]
    fault: Option<Fault>,
    /// Number of the algorithm in the table, from 0
    #[arg(long, default_value_t = 0)]
    algorithm: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Fault {
    /// Three times the service time for 40 s
    Slow,
    /// A quarter of the workers for 10 s
    Capacity,
    /// Five times the service time for 2 s
    Spike,
    /// Nothing is served for 2 s
    Pause,
}

pub fn print(options: &Options) {
    let plant = Plant::new(
        options.workers,
        options.service.clone().leak(),
        options.load,
        options.seconds,
    );
    let plant = match options.fault {
        None => plant,
        Some(Fault::Slow) => plant.fault(FaultKind::Service(3.0), 15.0, 40.0),
        Some(Fault::Capacity) => plant.fault(FaultKind::Capacity(Share::new(0.25)), 15.0, 10.0),
        Some(Fault::Spike) => plant.fault(FaultKind::Service(5.0), 15.0, 2.0),
        Some(Fault::Pause) => plant.fault(FaultKind::Pause, 15.0, 2.0),
    };
    let record = plant.run(options.seed, Algorithm::ALL[options.algorithm]);
    for window in &record.windows {
        println!(
            "{:8.3} L {:7.2} r {:7.2} b {:7.2} {}",
            window.at_ns as f64 / 1e9,
            window.limit,
            window.latency_ms,
            window.baseline_ms,
            if window.is_measuring { "*" } else { "" }
        );
    }
    println!("{:?}", plant.result(&record, 5.0, options.seconds));
}
