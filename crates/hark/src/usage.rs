//! `hark --check-usage ARGUMENTS`: parses a command line and runs nothing. `scripts/check_docs.py` asks it about every
//! command line that the documentation shows.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::{BAD_USAGE, Cli};

/// The first argument that asks for this. It is no option of the parser, so that help and completions do not list it.
pub const CHECK: &str = "--check-usage";

/// Succeeds if hark would start with these arguments, which do not include its own name.
pub fn check(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parse_from(std::iter::once("hark".into()).chain(arguments)) {
        Ok(_) => ExitCode::SUCCESS,
        // --help and --version.
        Err(answer) if !answer.use_stderr() => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{error}");
            ExitCode::from(BAD_USAGE)
        }
    }
}

/// The command line; ends the program where it cannot be parsed, or asks for help.
pub fn parse() -> Cli {
    parse_from(std::env::args_os()).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        tell(&error);
        std::process::exit(error.exit_code())
    })
}

fn parse_from(arguments: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&with_negative_numbers(Cli::command()).try_get_matches_from(arguments)?)
}

/// Takes `-3` as the value of an option, so that the option can say why not.
fn with_negative_numbers(command: Command) -> Command {
    let value = |argument: Arg| {
        let takes = !argument.is_positional() && argument.get_action().takes_values();
        argument.allow_negative_numbers(takes)
    };
    command.mut_args(value).mut_subcommands(with_negative_numbers)
}

/// Prints what is wrong with a command line, numbers in words.
pub fn tell(error: &(impl std::fmt::Display + ?Sized)) {
    eprint!("{}", in_words(&error.to_string()));
}

fn in_words(text: &str) -> String {
    text.replace("number would be zero for non-zero type", "must be 1 or more")
        .replace(
            "invalid digit found in string",
            "must be a whole number, 0 or more",
        )
        .replace("invalid float literal", "must be a number")
        .replace("cannot parse integer from empty string", "must be a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command lines among a help text's examples: indented lines, without remarks, which stand behind two
    /// blanks or in parentheses.
    fn examples(help: &str) -> Vec<String> {
        let joined = help
            .split("\\\n")
            .map(str::trim_start)
            .collect::<Vec<_>>()
            .concat();
        let indented = joined.lines().filter_map(|line| line.strip_prefix("  "));
        let calls = indented.filter_map(|line| {
            // After a pipe or a variable's value, too.
            let begins = |&(at, _): &(usize, &str)| at == 0 || line[..at].ends_with(['|', ')', ' ']);
            let (at, _) = line.match_indices("hark ").find(begins)?;
            let command = &line[at..];
            let ends = ["  ", " (", " | ", " > "].map(|mark| command.find(mark).unwrap_or(command.len()));
            ends.into_iter().min().map(|end| command[..end].to_owned())
        });
        calls.collect()
    }

    /// Words as a shell splits them, as far as examples need: quotes of both kinds.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in line.chars() {
            match (quote, letter) {
                (None, ' ') => words.extend(word.take()),
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (Some(open), letter) if letter == open => quote = None,
                (_, letter) => word.get_or_insert_default().push(letter),
            }
        }
        assert_eq!(quote, None, "an open quote: {line}");
        words.extend(word);
        words
    }

    fn walk(command: &Command, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            let help = inner
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            found.push((path.clone(), examples(&help)));
            walk(inner, &path, found);
        }
    }

    #[test]
    fn every_example_of_every_help_parses() {
        let mut found = Vec::new();
        walk(&Cli::command(), "hark", &mut found);
        for (path, examples) in &found {
            for example in examples {
                if let Err(error) = parse_from(words(example).into_iter().map(OsString::from)) {
                    panic!("{path} --help shows `{example}`: {error}");
                }
            }
        }
        // An example shows the command that it stands under, at least once.
        let shown =
            |path: &str, examples: &[String]| examples.iter().any(|example| example.starts_with(path));
        let with_help = found.iter().filter(|(_, examples)| !examples.is_empty());
        let missing: Vec<&String> = with_help
            .filter(|(path, examples)| !shown(path, examples))
            .map(|(path, _)| path)
            .collect();
        assert!(missing.is_empty(), "no example of itself: {missing:?}");
        let count: usize = found.iter().map(|(_, examples)| examples.len()).sum();
        assert!(count >= 40, "only {count} examples were found");
    }

    #[test]
    fn examples_are_taken_out_of_a_help_text() {
        let help = "Examples:\n  hark index           (again)\n  A=$(b c) hark serve --port 1\n  \
                    printf x | hark embed --captions - -o x.npy\n  hark search 'take 12' > list.txt\n  \
                    hark relevance fit \\\n      --plot p.svg\n\nhark is prose here.";
        let expected = [
            "hark index",
            "hark serve --port 1",
            "hark embed --captions - -o x.npy",
            "hark search 'take 12'",
            "hark relevance fit --plot p.svg",
        ];
        assert_eq!(examples(help), expected);
        assert_eq!(
            words("hark search 'take 12' --set=a=\"b c\""),
            ["hark", "search", "take 12", "--set=a=b c"]
        );
    }

    #[test]
    fn usage_is_checked_without_running() {
        let check = |line: &str| format!("{:?}", check(line.split(' ').map(OsString::from)));
        assert_eq!(check("search rain --limit 3"), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(check("search --help"), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(
            check("search --nothing"),
            format!("{:?}", ExitCode::from(BAD_USAGE))
        );
        assert_eq!(check("train"), format!("{:?}", ExitCode::from(BAD_USAGE)));
    }
}
