#!/usr/bin/env python3
"""Counts the lines of Rust outside tests, for each crate.

A line is a line: code, comment or blank. Tests are the folders tests/ and examples/ beside src/, files called tests.rs or in a
folder tests/, and modules and functions under #[cfg(test)], with the files that such modules are in. With --check, the exit code
is 1 if a crate has more lines than it may have: crates/hark is the command line, and what makes it grow belongs into a library.

  python3 scripts/lines.py           a table
  python3 scripts/lines.py --check
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Fewer lines than these.
LIMITS = {"hark": 6_600}
GATE = re.compile(r"\s*#\[cfg\((?:test|all\(test\b.*)\)\]\s*$")
OUTSIDE = re.compile(r"\s*(?:pub(?:\([a-z]+\))?\s+)?mod\s+(\w+)\s*;")
# What may hold a brace that is none: comments, characters, strings (raw ones, too).
QUOTED = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.[^']*|[^\\'])'|b?r(#*)".*?"\1|"(?:\\.|[^"\\])*\"""", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a crate is too large")
    arguments = parser.parse_args()
    counts = {crate.name: count(crate / "src") for crate in sorted((ROOT / "crates").iterdir()) if (crate / "src").is_dir()}
    for crate, lines in counts.items():
        print(f"{crate:<12} {lines:>7,}" + (f"  (fewer than {LIMITS[crate]:,})" if crate in LIMITS else ""))
    print(f"{'all':<12} {sum(counts.values()):>7,}")
    too_large = [crate for crate, limit in LIMITS.items() if counts[crate] >= limit]
    for crate in too_large:
        print(f"lines: crates/{crate} has {counts[crate]:,} lines outside tests, and must have fewer than {LIMITS[crate]:,}", file=sys.stderr)
    return 1 if arguments.check and too_large else 0


def count(folder: pathlib.Path) -> int:
    """Lines outside tests of all files of a folder."""
    tests = test_files(folder)
    files = (file for file in folder.rglob("*.rs") if file not in tests)
    return sum(len(outside_tests(file.read_text(encoding="utf-8"))[0]) for file in files)


def test_files(folder: pathlib.Path) -> set[pathlib.Path]:
    """The files that are tests as a whole."""
    tests, places = set(), set()
    for file in folder.rglob("*.rs"):
        if file.stem == "tests" or "tests" in file.relative_to(folder).parts[:-1]:
            tests.add(file)
            continue
        beside = file.parent if file.stem in ("lib", "main", "mod") else file.with_suffix("")
        _, modules = outside_tests(file.read_text(encoding="utf-8"))
        places |= {beside / name for module in modules for name in (module, f"{module}.rs")}
    return tests | {file for file in folder.rglob("*.rs") if any(place in places for place in (file, *file.parents))}


def outside_tests(text: str) -> tuple[list[tuple[int, str]], list[str]]:
    """The numbered lines of a file less its tests, and the names of the test modules that are in other files."""
    # Lengths and line ends stay, so that the lines of both texts are the same ones.
    plain = QUOTED.sub(lambda quoted: re.sub(r"[^\n]", " ", quoted[0]), text)
    kept, modules = [], []
    lines = list(zip(text.splitlines(), plain.splitlines()))
    number = 0
    while number < len(lines):
        if not GATE.match(lines[number][1]):
            kept.append((number + 1, lines[number][0]))
            number += 1
            continue
        # What is gated ends with the line of its `;` or closing brace, whichever comes first outside of all brackets.
        depth, number = 0, number + 1
        while number < len(lines):
            line = lines[number][1]
            if depth == 0 and (module := OUTSIDE.match(line)):
                modules.append(module[1])
            number += 1
            ended = False
            for character in line:
                depth += (character in "([{") - (character in ")]}")
                ended |= depth == 0 and character in ";}"
            if ended and depth == 0:
                break
    return kept, modules


if __name__ == "__main__":
    sys.exit(main())
