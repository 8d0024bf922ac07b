"""Damaged sound files: does the decoder stay within its bounds?

Takes the files below a folder in turn, changes bytes, cuts, repeats or moves parts of them by a seeded generator, and lets hark decode the
result. Faults are a program that ends by itself, a file that takes longer than `--seconds`, and a file whose decoding takes more memory
than `--megabytes`. Every fault is kept in `--keep`, with the seed that makes it. The exit code is 1 if there was one.

    cargo build -p hark-audio --example decode
    python bench/mutations.py crates/audio/tests/files target/debug/examples/decode --count 30000

Linux only: the memory is that of /proc. Needs Python alone.
"""

import argparse
import collections
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Larger files only take time: what is wrong with a header shows in their first part.
LARGEST = 300_000
# Values at which sizes, counts and signs go wrong.
EDGES = [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF]


class Decoder:
    """The example `decode`, which takes paths on its standard input."""

    def __init__(self, program):
        environment = {**os.environ, "HARK_FFMPEG": ""}
        self.process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )

    def decode(self, path, seconds):
        """What it says, the peak of its memory in MB, or what went wrong."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        self.process.stdin.write(f"{path}\n".encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            return None, 0, f"no answer within {seconds} s"
        line = self.process.stdout.readline()
        if not line:
            return None, 0, f"the program ended with {self.process.wait()}"
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM:"))
        return json.loads(line), peak / 1024, None

    def end(self):
        self.process.kill()
        self.process.wait()


def mutate(data, source):
    """A changed copy: few or many bytes, near the beginning or anywhere, whole parts gone, doubled or exchanged."""
    out = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
        if not out:
            break
        kind = source.randrange(8)
        reach = len(out) if source.random() < 0.5 else min(len(out), 700)
        at = source.randrange(reach)
        length = source.choice([1, 2, 4, 8, 64, 1024])
        if kind == 0:
            out[at] = source.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            out[at : at + length] = bytes([source.choice(EDGES)]) * len(out[at : at + length])
        elif kind == 3:
            out[at : at + length] = source.randbytes(len(out[at : at + length]))
        elif kind == 4:
            del out[at : at + length]
        elif kind == 5:
            out[at:at] = out[at : at + length]
        elif kind == 6:
            del out[source.randrange(len(out)) :]
        else:
            other = source.randrange(len(out))
            part = out[other : other + length]
            out[at : at + len(part)] = part
    return bytes(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="sound files, in folders of any depth")
    parser.add_argument("program", type=Path, help="the example `decode` of hark-audio")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first mutation; the others follow")
    parser.add_argument("--seconds", type=float, default=3.0, help="the most that a file may take")
    parser.add_argument("--megabytes", type=float, default=60.0, help="the most memory that the program may take")
    parser.add_argument("--keep", type=Path, default=Path("mutations"), help="folder for files that show a fault")
    given = parser.parse_args()
    files = sorted(path for path in given.folder.rglob("*") if path.is_file() and path.stat().st_size > 0)
    if not files:
        sys.exit(f"{given.folder}: no files")
    outcomes, faults, most, slowest = collections.Counter(), 0, (0, ""), (0, "")
    decoder = Decoder(given.program)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seed, given.seed + given.count):
            source = random.Random(seed)
            origin = files[seed % len(files)]
            with origin.open("rb") as file:
                data = mutate(file.read(LARGEST), source)
            path = Path(folder) / f"{seed}{origin.suffix}"
            path.write_bytes(data)
            began = time.monotonic()
            report, peak, fault = decoder.decode(path, given.seconds)
            took = time.monotonic() - began
            most, slowest = max(most, (peak, str(path.name))), max(slowest, (took, str(path.name)))
            if fault is None and peak > given.megabytes:
                fault = f"{peak:.0f} MB"
            if fault:
                faults += 1
                given.keep.mkdir(parents=True, exist_ok=True)
                path.rename(given.keep / path.name)
                print(f"{given.keep / path.name} (seed {seed}, from {origin}): {fault}", flush=True)
                decoder.end()
                decoder = Decoder(given.program)
            else:
                outcomes["refused" if "error" in report else "damaged" if report["damage"] else "whole"] += 1
                path.unlink()
            if (seed - given.seed + 1) % 1000 == 0:
                print(f"{seed - given.seed + 1} of {given.count}: {dict(outcomes)}, {faults} faults", file=sys.stderr)
    decoder.end()
    print(f"{given.count} mutations of {len(files)} files: {outcomes['refused']} refused, {outcomes['damaged']} with damage reported, "
          f"{outcomes['whole']} without, {faults} faults; most memory {most[0]:.0f} MB ({most[1]}), longest {slowest[0]:.2f} s ({slowest[1]})")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
