//! Options that have a new name. The old one is not in the help; using it fails with exit code 2 and names the new one.
//!
//! In the struct of a command's arguments, beside the new option:
//!
//! ```ignore
//! #[arg(long = "at", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--cutoff"))]
//! _at: Option<Renamed>,
//! ```
//!
//! `num_args` and `default_missing_value` make it work for options and for switches alike; the underscore says that the
//! field is never read.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;

/// The value of an option that has a new name: there is none.
#[derive(Debug, Clone, Copy)]
pub enum Renamed {}

/// Refuses every value with the option's new name.
pub fn renamed_to(new: &'static str) -> impl TypedValueParser<Value = Renamed> {
    RenamedTo(new)
}

#[derive(Debug, Clone, Copy)]
struct RenamedTo(&'static str);

impl TypedValueParser for RenamedTo {
    type Value = Renamed;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        _value: &OsStr,
    ) -> Result<Renamed, clap::Error> {
        let old = arg.and_then(clap::Arg::get_long).unwrap_or_default();
        let message = format!("--{old} was renamed to {}", self.0);
        Err(command.clone().error(ErrorKind::UnknownArgument, message))
    }
}
