#!/usr/bin/env python3
"""Check the documentation: links, paths, recipe keys, the README's length, and every command line shown.

Without --hark, what needs no build is checked:
  - every relative link and #anchor in the Markdown files resolves;
  - every path of the repository in `code` exists;
  - every key of the recipes is described in docs/training.md;
  - README.md has at most 1,200 words.

With --hark PROGRAM, every command line is parsed by the program (`hark --check-usage ARGS` runs nothing):
  - in fenced `sh` blocks and in the comments of recipes, completely: a missing argument is an error;
  - in `inline code`, as far as it goes: an unknown command or option is an error.

  python3 scripts/check_docs.py --hark target/debug/hark
"""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_README_WORDS = 1200
# Folders whose paths are checked where they are named in `code`.
TRACKED = ("bench", "crates", "docs", "golden", "recipes", "scripts", ".ci", ".github")
OPERATORS = set("|&;()")


def markdown_files():
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("crates/**/*.md")]
    return sorted({*files, ROOT / "bench/README.md", ROOT / "golden/README.md"})


def prose_and_blocks(text):
    """The text with fenced blocks blanked out, line for line, and the blocks as (line number, language, lines)."""
    prose, blocks, fence = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)\s*(\w*)", line)
        if fence is None and mark:
            fence, block = mark[1], (number, mark[2], [])
        elif fence is not None and line.strip() == fence:
            fence = None
            blocks.append(block)
        elif fence is not None:
            block[2].append(line)
        prose.append(line if fence is None and not mark else "")
    return "\n".join(prose), blocks


def anchors(path):
    """The anchors of a file's headings, as GitHub makes them."""
    prose, _ = prose_and_blocks(path.read_text(encoding="utf-8"))
    found, seen = set(re.findall(r'<a (?:id|name)="([^"]+)"', prose)), {}
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", prose, re.M):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def check_links(path, prose):
    # Code may look like a link; a link's text may be code.
    plain = re.sub(r"`[^`\n]*`", lambda code: "x" * len(code[0]), prose)
    for match in re.finditer(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)", plain):
        target = match[1]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        line = plain.count("\n", 0, match.start()) + 1
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"{where(path, line)}: link to {target}: no such file"
        elif not file.is_relative_to(ROOT):
            yield f"{where(path, line)}: link to {target}: outside the repository"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{where(path, line)}: link to {target}: no such heading"


def check_paths(path, prose):
    """Paths in code: from the root, or of a crate's source, as `encode/src/model.rs`."""
    if path.name == "CHANGELOG.md":
        return  # it tells what was
    for match in re.finditer(r"`([\w.-]+/[\w./-]+)`", prose):
        name = match[1]
        first = name.split("/")[0]
        if first in TRACKED:
            exists = (ROOT / name).exists()
        elif re.match(r"\w+/(src|tests|examples|models)/", name):
            exists = (ROOT / "crates" / name).exists()
        else:
            continue
        if not exists:
            line = prose.count("\n", 0, match.start()) + 1
            yield f"{where(path, line)}: `{name}`: no such file"


def keys_of(table):
    for key, value in table.items():
        # Keys of free choice: parts of the network, by which learning rates differ.
        yield key
        if key != "lr-multipliers":
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict):
                    yield from keys_of(inner)


def check_recipe_keys():
    reference = ROOT / "docs/training.md"
    described = set(re.findall(r"`\[?([a-z][\w.-]*)\]?`", reference.read_text(encoding="utf-8")))
    used = {}
    for recipe in sorted(ROOT.glob("recipes/*.toml")):
        for key in keys_of(tomllib.loads(recipe.read_text(encoding="utf-8"))):
            used.setdefault(key, recipe)
    for key, recipe in used.items():
        if key not in described:
            yield f"{recipe.relative_to(ROOT)}: the key `{key}` is not in {reference.relative_to(ROOT)}"


def check_words():
    words = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    if words > MAX_README_WORDS:
        yield f"README.md: {words} words; at most {MAX_README_WORDS}"


def where(path, line):
    return f"{path.relative_to(ROOT)}:{line}"


def logical_lines(first, lines):
    """Lines with their continuations, and the number of the first."""
    joined, start = "", first
    for number, line in enumerate(lines, first):
        start = start if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        yield start, joined
        joined = ""
    if joined:
        yield start, joined


def hark_commands(line):
    """The arguments of every call of hark in a line of shell: without comments, redirections and other programs."""
    # What a substitution prints is some word.
    line = re.sub(r"\$\([^()]*\)", "X", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command, skip = [], False
    for token in [*lexer, ";"]:
        if token and set(token) <= set("<>&") and set(token) & set("<>"):
            # `2>` reads as `2` and `>`; the file follows.
            if command and command[-1].isdigit():
                command.pop()
            skip = True
        elif token and set(token) <= OPERATORS:
            arguments = arguments_of(command)
            if arguments is not None:
                yield arguments
            command = []
        elif skip:
            skip = False
        else:
            command.append(token)


def arguments_of(command):
    """What follows `hark`, or `cargo run ... --`; None if the command is another."""
    while command and re.match(r"\w+=", command[0]):
        command = command[1:]
    if command[:1] and command[0].rsplit("/", 1)[-1] == "time":
        command = [word for word in command[1:] if word not in ("-v", "-p")]
    if command[:2] == ["cargo", "run"] and "--" in command:
        return command[command.index("--") + 1 :]
    if command[:1] and command[0].rsplit("/", 1)[-1] == "hark":
        return command[1:]
    return None


class Usage:
    """Asks the program whether it understands a command line."""

    def __init__(self, program):
        self.program, self.count = program, 0

    def error(self, arguments, complete):
        self.count += 1
        command = [self.program, "--check-usage", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        message = done.stderr.strip().split("\n")[0]
        unknown = "unexpected argument" in message or "unrecognized subcommand" in message
        return message if complete or unknown or done.returncode != 2 else None


def check_commands(path, usage):
    """Command lines of a Markdown file."""
    prose, blocks = prose_and_blocks(path.read_text(encoding="utf-8"))
    for first, language, lines in blocks:
        if language not in ("sh", "bash", "shell", "console"):
            continue
        for number, line in logical_lines(first + 1, lines):
            yield from parse(where(path, number), line, usage, complete=True)
    if path.name == "CHANGELOG.md":
        return  # it names options that were renamed
    for match in re.finditer(r"`(hark [^`]+)`", prose):
        line = prose.count("\n", 0, match.start()) + 1
        # `hark COMMAND --help` stands for any command.
        if not re.match(r"hark [A-Z…]", match[1]):
            yield from parse(where(path, line), match[1].replace("\n", " "), usage, complete=False)


def check_recipe_comments(path, usage):
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        command = re.match(r"#\s{2,}(hark .*)", line)
        if command:
            # A remark stands behind, set off by blanks.
            yield from parse(where(path, number), re.split(r"\s{2,}", command[1])[0], usage, complete=True)


def parse(place, line, usage, complete):
    try:
        commands = list(hark_commands(line))
    except ValueError as error:
        yield f"{place}: cannot split `{line.strip()}`: {error}"
        return
    for arguments in commands:
        error = usage.error(arguments, complete)
        if error:
            yield f"{place}: `hark {shlex.join(arguments)}`: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hark", metavar="PROGRAM", help="the built program; parses all command lines")
    options = parser.parse_args()

    files = markdown_files()
    problems = [*check_words(), *check_recipe_keys()]
    for path in files:
        prose, _ = prose_and_blocks(path.read_text(encoding="utf-8"))
        problems += [*check_links(path, prose), *check_paths(path, prose)]
    usage = None
    if options.hark:
        usage = Usage(options.hark)
        for path in files:
            problems += check_commands(path, usage)
        for path in sorted(ROOT.glob("recipes/*.toml")):
            problems += check_recipe_comments(path, usage)
        if usage.count < 50:
            problems.append(f"only {usage.count} command lines were found: this script no longer sees them")
    for problem in problems:
        print(problem)
    commands = f", {usage.count} command lines" if usage else ""
    print(f"{len(files)} Markdown files{commands}: {len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
