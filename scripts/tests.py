#!/usr/bin/env python3
"""Runs the tests with cargo-nextest, and lists those that it did not run because something that they need is missing.

A test in a binary or module called needs_NAME needs NAME, and fails without it. NAME is one of

  postgres   a PostgreSQL server with pgvector, which this starts (scripts/postgres.py)
  openssl    the program, to reach that server over TLS
  browser    chromium and two Node packages (scripts/browser)
  archivers  the programs 7z, zip and unzip
  mount      the right to mount a small disk in memory, as root has it
  data       datasets in HARK_DATA, else in shared/data beside the repository
  weights    the sentence encoder all-mpnet-base-v2 in the user's model store

scripts/setup installs the first four. Tests whose needs are met are run; the others are skipped and listed at the end, with the
reason. With --require, a need that is not met is an error, found before anything is built.

  scripts/tests.py                              all tests
  scripts/tests.py --require postgres,browser,archivers   as in CI
  scripts/tests.py -p hark-catalogue search     tests of one crate with "search" in their names
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import postgres

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEED = re.compile(r"(?:^|::)needs_([a-z]+)(?=::|$)")
WEIGHTS = "all-mpnet-base-v2"
# One file of each dataset that tests read.
DATA = ["audiocaps/train.csv", "clotho/clotho_captions_development.csv", "esc10/esc10.csv", "wavcaps/sb_final.json"]


class Needs:
    """What is there, looked for when it is first asked for."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.environment: dict[str, str] = {}
        self.reasons: dict[str, str | None] = {}
        # The built program, known once the tests are.
        self.program: str | None = None

    def missing(self, need: str) -> str | None:
        """Why a need is not met; None if it is."""
        if need not in self.reasons:
            self.reasons[need] = getattr(self, need)()
        return self.reasons[need]

    def postgres(self) -> str | None:
        try:
            server = self.stack.enter_context(postgres.running())
        except postgres.Unavailable as reason:
            return str(reason)
        self.environment |= self.stack.enter_context(postgres.environment(server))
        return None

    def openssl(self) -> str | None:
        return None if shutil.which("openssl") else "the program openssl is not on the PATH"

    def browser(self) -> str | None:
        probe = subprocess.run([ROOT / "scripts" / "browser", "--probe"], stdout=subprocess.PIPE, text=True)
        return probe.stdout.strip() if probe.returncode else None

    def archivers(self) -> str | None:
        absent = [program for program in ["7z", "zip", "unzip"] if not shutil.which(program)]
        return f"the program {absent[0]} is not on the PATH" if absent else None

    def mount(self) -> str | None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
            except OSError as error:
                return f"mount cannot be run: {error}"
            if mounted.returncode:
                return "no small disk can be mounted; root can"
            subprocess.run(["umount", folder], check=True)
        return None

    def data(self) -> str | None:
        folder = pathlib.Path(os.environ.get("HARK_DATA") or ROOT.parent / "shared" / "data")
        absent = [file for file in DATA if not (folder / file).is_file()]
        return f"there is no {folder / absent[0]}; set HARK_DATA to the folder that has the datasets" if absent else None

    def weights(self) -> str | None:
        if self.program is None:
            return "the program is not built"
        answer = subprocess.run([self.program, "models", "list", "--json"], check=True, stdout=subprocess.PIPE, text=True)
        models = json.loads(answer.stdout)["models"]
        if any(model["name"] == WEIGHTS and model["state"] == "here" for model in models):
            return None
        return f"{WEIGHTS} is not in the model store; run hark models pull {WEIGHTS}"


NEEDS = ["postgres", "openssl", "browser", "archivers", "mount", "data", "weights"]
# What can be looked for before anything is built.
EARLY = [need for need in NEEDS if need != "weights"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--require", default="", metavar="NEED,...", help="needs that must be met")
    parser.add_argument("--probe", action="store_true", help="run no test, but say which needs are met")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="append the list to a file instead of printing it")
    arguments, selection = parser.parse_known_args()
    required = [need for need in arguments.require.split(",") if need]
    if unknown := [need for need in required if need not in EARLY]:
        parser.error(f"{unknown[0]} cannot be required; {', '.join(EARLY)} can")
    with contextlib.ExitStack() as stack:
        needs = Needs(stack)
        if arguments.probe:
            for need in EARLY:
                print(f"{need}: {needs.missing(need) or 'there'}")
        if faults := [f"{need} is required: {why}" for need in required if (why := needs.missing(need))]:
            print("\n".join(f"tests.py: {fault}" for fault in faults), file=sys.stderr)
            return 1
        return 0 if arguments.probe else run(needs, selection or ["--workspace"], arguments.report)


def run(needs: Needs, selection: list[str], report: pathlib.Path | None) -> int:
    nextest = ["cargo", "nextest"]
    chosen = ["--locked", "--ignore-default-filter", *selection]
    listed = subprocess.run([*nextest, "list", *chosen, "--message-format", "json"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if listed.returncode:
        return listed.returncode
    found = json.loads(listed.stdout)
    build = found["rust-build-meta"]
    for binaries in build["non-test-binaries"].values():
        for binary in binaries:
            if binary["name"] == "hark" and binary["kind"] == "bin-exe":
                needs.program = str(pathlib.Path(build["target-directory"]) / binary["path"])
    left_out: dict[str, list[str]] = {}
    for suite in found["rust-suites"].values():
        for name, test in suite["testcases"].items():
            if test["filter-match"]["status"] != "matches":
                continue
            wanted = NEED.findall(suite["binary-name"]) + NEED.findall(name)
            if unknown := [need for need in wanted if need not in NEEDS]:
                print(f"tests.py: {suite['binary-id']} {name}: there is no need {unknown[0]}", file=sys.stderr)
                return 1
            if absent := next((need for need in wanted if needs.missing(need)), None):
                left_out.setdefault(absent, []).append(f"{suite['binary-id']} {name}")
    filters = []
    if absent := [need for need in NEEDS if needs.reasons.get(need)]:
        segment = f"needs_({'|'.join(absent)})"
        # nextest refuses a filter by binaries that there are not.
        names = {suite["binary-name"] for suite in found["rust-suites"].values()}
        parts = [f"binary(={name})" for name in sorted(names) if re.fullmatch(segment, name)]
        filters = ["-E", f"not ({' | '.join([*parts, f'test(/(^|::){segment}::/)'])})"]
    command = [*nextest, "run", *chosen, "--no-fail-fast", *filters]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | needs.environment)
    lines = []
    for need, tests in left_out.items():
        count = "1 test needs" if len(tests) == 1 else f"{len(tests)} tests need"
        lines.append(f"{count} {need}: {needs.missing(need)}")
        lines += [f"  {test}" for test in tests]
    if report:
        with report.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    elif lines:
        print("\nNot run:\n" + "\n".join(lines))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
