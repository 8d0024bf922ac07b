#!/usr/bin/env python3
"""Checks the dependency direction that ARCHITECTURE.md states, from `cargo metadata`.

Which crate of ours may use which, and which outside crates only some of ours may name.
"""
import json
import pathlib
import re
import subprocess
import sys

ALLOWED = {
    "hark-work": set(),
    "hark-torchfile": set(),
    "hark-audio": {"hark-work"},
    "hark-nearest": {"hark-work"},
    "hark-metrics": {"hark-nearest", "hark-work"},
    "hark-relevance": {"hark-nearest", "hark-work"},
    "hark-corpus": {"hark-audio", "hark-work"},
    "hark-soundscape": {"hark-audio", "hark-corpus", "hark-work"},
    "hark-encode": {"hark-audio", "hark-nearest", "hark-torchfile", "hark-work"},
    "hark-models": {"hark-encode", "hark-work"},
    "hark-evaluate": {
        "hark-corpus", "hark-encode", "hark-metrics", "hark-nearest", "hark-relevance", "hark-soundscape", "hark-work",
    },
    "hark-learn": {
        "hark-audio", "hark-corpus", "hark-encode", "hark-evaluate", "hark-metrics", "hark-nearest", "hark-relevance",
        "hark-soundscape", "hark-work",
    },
    "hark-study": {
        "hark-corpus", "hark-encode", "hark-evaluate", "hark-learn", "hark-metrics", "hark-models", "hark-nearest",
        "hark-relevance", "hark-soundscape", "hark-work",
    },
    "hark-catalogue": {"hark-nearest", "hark-work"},
    "hark-library": {"hark-audio", "hark-catalogue", "hark-encode", "hark-models", "hark-work"},
    "hark-serve": {"hark-audio", "hark-catalogue", "hark-work"},
}
# The program and the speed figures may use everything.
ALLOWED["hark"] = set(ALLOWED)
ALLOWED["hark-bench"] = set(ALLOWED) - {"hark"}
# Outside crates that belong to some of ours alone.
OWNERS = {
    "burn": {"hark-encode", "hark-learn"},
    "tokenizers": {"hark-encode"},
    "gemm": {"hark-nearest"},
    "symphonia": {"hark-audio"},
    "ropus": {"hark-audio"},
    "realfft": {"hark-audio"},
    "usearch": {"hark-nearest"},
    "rusqlite": {"hark-catalogue"},
    "postgres": {"hark-catalogue"},
    "axum": {"hark-serve"},
    "tokio": {"hark-serve"},
    "ureq": {"hark-models"},
    "clap": {"hark", "hark-bench"},
    "anyhow": {"hark", "hark-bench"},
}
# What libraries never do: print, read the environment, end the process.
FORBIDDEN_IN_LIBRARIES = re.compile(r"\b(e?print(ln)?!|dbg!|std::env::|env::var|process::exit)")
# `unsafe` lives in the kernels modules alone.
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
            if used in ALLOWED and used not in ALLOWED[name]:
                faults.append(f"{name} may not depend on {used}")
            if name not in OWNERS.get(used, {name}) and dependency["kind"] != "dev":
                faults.append(f"{name} may not name {used}: only {', '.join(sorted(OWNERS[used]))} may")
        for source in (pathlib.Path(package["manifest_path"]).parent / "src").rglob("*.rs"):
            faults += source_faults(name, source)
    for fault in faults:
        print(f"direction: {fault}", file=sys.stderr)
    print(f"{len(packages)} crates, {len(faults)} faults")
    return 1 if faults else 0


def source_faults(package: str, source: pathlib.Path) -> list[str]:
    faults = []
    # Tests stand at the end of a file, or in one of their own, and may print that they were skipped.
    if source.stem == "tests":
        return faults
    code = source.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    for number, line in enumerate(code.splitlines(), start=1):
        line = line.split("//")[0]
        if package not in ("hark", "hark-bench") and FORBIDDEN_IN_LIBRARIES.search(line):
            faults.append(f"{source}:{number}: a library neither prints nor reads the environment")
        if UNSAFE.search(line.replace("unsafe_code", "")) and source.stem != "kernels":
            faults.append(f"{source}:{number}: unsafe outside a kernels module")
    return faults


if __name__ == "__main__":
    sys.exit(main())
