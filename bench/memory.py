#!/usr/bin/env python3
"""Peak memory and time of a training step: the batch at once, in chunks, and with blocks computed again.

Runs `hark-bench step` once for each way, in a process of its own, and prints the most memory that the process held, as the operating
system counts it, and the time of a step. Ratios are to the batch at once. The losses of all ways must agree to 1e-4.

Run, from the root of the repository:

  cargo build --release -p hark-bench
  python3 bench/memory.py --size small --batch 256 --chunk 16
  python3 bench/memory.py --size full --batch 2
"""

import argparse
import json
import subprocess
import sys


def measure(program, arguments):
    done = subprocess.run([program, "step", *arguments], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    seconds = sorted(found["seconds"])
    return {
        "seconds": seconds[len(seconds) // 2],
        "memory": found["peak_memory_bytes"],
        "losses": found["losses"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark-bench", default="target/release/hark-bench", metavar="PROGRAM")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--segments", type=int, default=1)
    parser.add_argument("--chunk", type=int, help="also in chunks of so many pairs")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    shared = ["--size", arguments.size, "--batch", arguments.batch, "--segments", arguments.segments, "--steps", arguments.steps, "--threads", arguments.threads]
    shared = [str(part) for part in shared]
    again = ["--gradient-checkpointing"]
    ways = {"at once": [], "blocks computed again": again}
    if arguments.chunk:
        chunk = ["--chunk", str(arguments.chunk)]
        ways[f"chunks of {arguments.chunk}"] = chunk
        ways[f"chunks of {arguments.chunk}, blocks computed again"] = chunk + again
    first = None
    print("| way | peak memory | ratio | seconds per step | ratio |\n|---|--:|--:|--:|--:|")
    for name, options in ways.items():
        found = measure(arguments.hark_bench, shared + options)
        first = first or found
        memory, seconds = found["memory"] / first["memory"], found["seconds"] / first["seconds"]
        print(f"| {name} | {found['memory'] / 1e9:.2f} GB | {memory:.2f} | {found['seconds']:.2f} | {seconds:.2f} |", flush=True)
        if any(abs(one - other) > 1e-4 * abs(other) for one, other in zip(found["losses"], first["losses"])):
            print(f"memory: {name}: other losses: {found['losses']} and {first['losses']}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
