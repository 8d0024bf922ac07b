#!/usr/bin/env python3
"""Checks the structure that ARCHITECTURE.md states.

- Which of our crates may use which, and which outside crates only some of ours may name (from `cargo metadata`).
- The modules at the top of a crate do not use each other in circles, and some crates have no other modules than those listed.
- Libraries do not print, read the environment, end the process, or change the threads of the whole process.
- `unsafe` is in the kernels modules and in the crate of kernels alone.

Tests are left out (as scripts/lines.py knows them): they may do all of it.
"""
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

from lines import QUOTED, outside_tests, test_files

ALLOWED = {
    "hark-work": set(),
    "hark-kernels": set(),
    "hark-torchfile": set(),
    "hark-audio": {"hark-work"},
    "hark-nearest": {"hark-work"},
    "hark-metrics": {"hark-nearest", "hark-work"},
    "hark-relevance": {"hark-nearest", "hark-work"},
    "hark-corpus": {"hark-audio", "hark-work"},
    "hark-soundscape": {"hark-audio", "hark-corpus", "hark-work"},
    "hark-datasets": {"hark-audio", "hark-corpus", "hark-download", "hark-work"},
    "hark-encode": {"hark-audio", "hark-kernels", "hark-nearest", "hark-torchfile", "hark-work"},
    "hark-download": {"hark-work"},
    "hark-models": {"hark-download", "hark-encode", "hark-work"},
    "hark-evaluate": {
        "hark-corpus", "hark-encode", "hark-metrics", "hark-nearest", "hark-relevance", "hark-soundscape", "hark-work",
    },
    "hark-learn": {
        "hark-audio", "hark-corpus", "hark-encode", "hark-evaluate", "hark-kernels", "hark-metrics", "hark-nearest", "hark-relevance",
        "hark-soundscape", "hark-work",
    },
    "hark-study": {
        "hark-catalogue", "hark-corpus", "hark-encode", "hark-evaluate", "hark-learn", "hark-library", "hark-metrics",
        "hark-models", "hark-nearest", "hark-relevance", "hark-soundscape", "hark-work",
    },
    "hark-catalogue": {"hark-nearest", "hark-work"},
    "hark-library": {"hark-audio", "hark-catalogue", "hark-corpus", "hark-encode", "hark-models", "hark-work"},
    "hark-serve": {"hark-audio", "hark-catalogue", "hark-work"},
}
# Programs may use everything, print, and read the environment.
PROGRAMS = {"hark", "hark-bench"}
ALLOWED["hark"] = set(ALLOWED)
ALLOWED["hark-bench"] = set(ALLOWED) - {"hark"}
# Outside crates that belong to some of ours alone.
OWNERS = {
    "burn": {"hark-encode", "hark-learn"},
    "tokenizers": {"hark-encode"},
    "gemm": {"hark-nearest"},
    "symphonia": {"hark-audio"},
    "ropus": {"hark-audio"},
    "syom": {"hark-audio"},
    "realfft": {"hark-audio"},
    "rustfft": {"hark-audio"},
    "md-5": {"hark-audio", "hark-download"},
    "usearch": {"hark-nearest"},
    "rusqlite": {"hark-catalogue"},
    "postgres": {"hark-catalogue"},
    "axum": {"hark-serve"},
    "tokio": {"hark-serve"},
    # The network.
    "ureq": {"hark-download"},
    "sevenz-rust2": {"hark-datasets"},
    # The command line.
    "clap": PROGRAMS,
    "anyhow": PROGRAMS,
    "indicatif": {"hark"},
}
# Crates whose modules are listed to the last: what belongs to none of these belongs to another crate.
CLOSED = {"hark-work": {"files", "progress", "random", "workers"}}
# Circles of modules that are there, and why. A new one is a fault, and so is one of these that grows.
CIRCLES = {
    # Readers share one limit (decode::MAX_CHANNELS), and the decoder chooses among them.
    ("hark-audio", ("caf", "decode", "packets")),
    # Both clean texts by the same rule (metadata::clean).
    ("hark-audio", ("ixml", "metadata")),
    # `blocks` gives one function of `exact` again.
    ("hark-nearest", ("blocks", "exact")),
    # `CaptionSet::read` chooses a reader by its format, and every reader makes a `CaptionSet`; errors count what sets skipped.
    (
        "hark-corpus",
        ("audiocaps", "captions", "clotho", "delimited", "error", "format", "input", "json", "sets", "table", "text", "wavcaps"),
    ),
    # A model embeds recordings and has a key; both are told in the model's types.
    ("hark-encode", ("model", "model_key", "recordings")),
    # The old container is found by the reader of the new one, and shares its errors.
    ("hark-torchfile", ("container", "legacy")),
    # A recipe holds the settings of these modules, which say what is wrong with them in its words.
    ("hark-learn", ("network", "optimizer", "recipe", "schedule")),
    # The trainer writes a report of its own results.
    ("hark-learn", ("report", "trainer")),
    # What the runner trains, `collect` reads back, for the program that the runner is given.
    ("hark-study", ("collect", "runner")),
    # `ModelStore` is the way in: its methods call the others, which take what it holds.
    ("hark-models", ("error", "hub", "info", "packages", "plan", "published", "pull", "store")),
    # The errors name checksums, and computing one may fail.
    ("hark-download", ("checksum", "error")),
    # Notes are read with the readers of the commands.
    ("hark", ("commands", "library")),
    # Routes lead to handlers, which take and give what routes define.
    ("hark-serve", ("audio", "export", "library", "page", "routes", "search", "upload")),
    # The server holds what `auth` counts, and `auth` reads the server's options.
    ("hark-serve", ("auth", "server")),
}
FORBIDDEN_IN_LIBRARIES = [
    (re.compile(r"\be?print(ln)?!|\bdbg!"), "a library does not print"),
    (re.compile(r"\bstd::env::|\benv::(var|args|current_dir|temp_dir)"), "a library does not read the environment"),
    (re.compile(r"\bprocess::(exit|abort)\b"), "a library does not end the process"),
    (re.compile(r"\bbuild_global\("), "a library does not change the threads of the whole process"),
]
UNSAFE = re.compile(r"\bunsafe\b")


def main() -> int:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["packages"]
    faults = []
    for package in packages:
        name = package["name"]
        if name not in ALLOWED:
            faults.append(f"{name}: not listed in {pathlib.Path(__file__).name}")
            continue
        for dependency in package["dependencies"]:
            used = dependency["name"]
            # Examples and tests may reach further: nobody who uses the crate links what they need.
            if used in ALLOWED and used not in ALLOWED[name] and dependency["kind"] != "dev":
                faults.append(f"{name} may not depend on {used}")
            if name not in OWNERS.get(used, {name}) and dependency["kind"] != "dev":
                faults.append(f"{name} may not name {used}: only {', '.join(sorted(OWNERS[used]))} may")
        folder = pathlib.Path(package["manifest_path"]).parent / "src"
        sources = read(folder)
        for source, text in sources.items():
            faults += source_faults(name, source, text)
        faults += module_faults(name, folder, sources)
    for fault in faults:
        print(f"direction: {fault}", file=sys.stderr)
    print(f"{len(packages)} crates, {len(faults)} faults")
    return 1 if faults else 0


def read(folder: pathlib.Path) -> dict[pathlib.Path, str]:
    """The sources of a crate without tests, comments and the contents of strings; lines keep their numbers."""
    sources = {}
    tests = test_files(folder)
    for source in sorted(folder.rglob("*.rs")):
        if source not in tests:
            text = source.read_text(encoding="utf-8")
            kept = dict(outside_tests(text)[0])
            lines = (kept.get(number, "") for number in range(1, len(text.splitlines()) + 1))
            sources[source] = QUOTED.sub(lambda quoted: re.sub(r"[^\n]", " ", quoted[0]), "\n".join(lines))
    return sources


def source_faults(package: str, source: pathlib.Path, text: str) -> list[str]:
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        if package not in PROGRAMS:
            faults += [f"{source}:{number}: {why}" for pattern, why in FORBIDDEN_IN_LIBRARIES if pattern.search(line)]
        if UNSAFE.search(line) and source.stem != "kernels" and package != "hark-kernels":
            faults.append(f"{source}:{number}: unsafe outside a kernels module")
    return faults


# ---------------------------------------------------------------- modules

USE = re.compile(r"\buse\s+((?:[^;{}]|\{[^;]*\})*);")
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")


def module_faults(package: str, folder: pathlib.Path, sources: dict[pathlib.Path, str]) -> list[str]:
    roots = {folder / "lib.rs", folder / "main.rs"}
    modules = {top(source, folder) for source in sources if source not in roots}
    faults = []
    if package in CLOSED and modules != CLOSED[package]:
        listed = ", ".join(sorted(CLOSED[package]))
        faults.append(f"{package} has the modules {', '.join(sorted(modules))}, and is to have {listed} alone")
    # Names that the crate gives again at its top belong to the module that they come from.
    given = {}
    for root in roots & set(sources):
        for path, name in used(sources[root]):
            path = [part for part in path if part not in ("crate", "self")]
            if path[:1] and path[0] in modules:
                given[name] = path[0]
    uses: dict[str, set[str]] = {module: set() for module in modules}
    for source, text in sources.items():
        if source in roots:
            continue
        own = top(source, folder)
        # How many `super` lead to the top.
        depth = len(source.relative_to(folder).parts) - (source.stem == "mod")
        paths = [path for path, _ in used(text)] + [tuple(path.split("::")) for path in PATH.findall(USE.sub(" ", text))]
        for path in paths:
            if path[0] == "crate":
                path = path[1:]
            elif path[:depth] == ("super",) * depth:
                path = path[depth:]
            else:
                continue
            target = path[0] if path and path[0] in modules else given.get(path[0]) if path else None
            if target and target != own:
                uses[own].add(target)
    known = [set(circle) for crate, circle in CIRCLES if crate == package]
    for circle in circles(uses):
        if not any(allowed.issuperset(circle) for allowed in known):
            faults.append(f"{package}: the modules {', '.join(circle)} use each other in a circle")
    return faults


def circles(uses: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The groups of modules each of which can be reached from each other one of its group."""
    reached = {module: set(others) for module, others in uses.items()}
    for between in uses:
        for others in reached.values():
            if between in others:
                others |= reached[between]
    groups = {tuple(sorted(other for other in others if one in reached[other])) for one, others in reached.items()}
    return sorted(group for group in groups if group)


def top(source: pathlib.Path, folder: pathlib.Path) -> str:
    """The module at the top of the crate that a file belongs to."""
    return source.relative_to(folder).parts[0].removesuffix(".rs")


def used(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What `use` names: paths, and the names that they have then."""
    for found in USE.finditer(text):
        yield from branches(found[1], ())


def branches(tree: str, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    tree = tree.strip()
    group = re.fullmatch(r"((?:\w+\s*::\s*)*)\{(.*)\}", tree, re.DOTALL)
    if group is None:
        path, _, name = tree.partition(" as ")
        whole = prefix + tuple(part.strip() for part in path.split("::"))
        yield whole, name.strip() or whole[-1]
        return
    prefix += tuple(part.strip() for part in group[1].split("::") if part.strip())
    depth, branch = 0, ""
    for character in group[2] + ",":
        if character == "," and depth == 0:
            if branch.strip():
                yield from branches(branch, prefix)
            branch = ""
        else:
            depth += (character == "{") - (character == "}")
            branch += character


if __name__ == "__main__":
    sys.exit(main())
