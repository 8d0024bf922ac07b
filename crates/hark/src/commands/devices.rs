//! `hark devices`: which devices there are, and whether they compute what the CPU computes.

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, Subcommand};
use hark_encode::DeviceName;
use hark_encode::device::{available, kinds, listing};
use hark_learn::device_check::{Extent, check};
use hark_learn::recipe::TrainPrecision;
use serde_json::json;

use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark devices
  hark devices check cuda:0
  hark devices check torch --precision bf16

Only the CPU is part of every build; docs/devices.md says how to build the others. hark train compares a device with the CPU \
before it trains on it, and refuses one that computes wrongly.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare what a device computes with the CPU: outputs and gradients of every kind of tower, and a short training
    Check(CheckArgs),
}

#[derive(Debug, ClapArgs)]
struct CheckArgs {
    /// The device, such as cuda:0
    device: DeviceName,
    /// Number format of matrix products, as in training.precision: f32, bf16 or mixed
    #[arg(long, value_name = "NUMBERS", default_value = "f32")]
    precision: TrainPrecision,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Some(Command::Check(args)) => compare(args),
        None => list(args.json),
    }
}

fn list(json: bool) -> Result<()> {
    let here = available();
    if json {
        let kinds = kinds();
        let kinds = kinds.iter().map(|kind| {
            json!({"name": kind.name, "what": kind.what, "feature": kind.feature, "built": kind.built})
        });
        return output::print_json(&json!({"devices": here, "kinds": kinds.collect::<Vec<_>>()}));
    }
    output::print(&listing())
}

fn compare(args: &CheckArgs) -> Result<()> {
    let bar = progress::items("comparing with the CPU");
    let report = check(args.device, args.precision, Extent::Full, &|done, total| {
        progress::show(&bar, done, total)
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        output::print_json(&report.json())?;
    } else {
        output::print(&report.to_string())?;
    }
    if !report.passed() {
        bail!("{} does not compute what the CPU computes", args.device);
    }
    Ok(())
}
