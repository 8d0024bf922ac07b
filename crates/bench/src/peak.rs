//! The processor's arithmetic peak, which shares of peak refer to.

use std::time::Instant;

use serde_json::{Value, json};

use crate::ThreadArgs;
use crate::kernels::Unit;

/// Steps of one measurement: some 20 ms on a processor of today.
const STEPS: u64 = 10_000_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench peak --threads 2")]
pub(crate) struct Args {
    /// Times to repeat the measurement; the fastest counts
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn peak(args: &Args) -> Value {
    let unit = Unit::detect();
    let threads = args.threads.count().get();
    let mut least = f64::INFINITY;
    for _ in 0..args.repeat {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| std::hint::black_box(unit.run(STEPS)));
            }
        });
        least = least.min(start.elapsed().as_secs_f64());
    }
    let gflops = unit.operations(STEPS) * threads as f64 / least / 1e9;
    json!({"gflops": gflops, "unit": unit.name(), "threads": threads})
}
