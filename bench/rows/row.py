"""What a row is, for bench/compare; and what the peers' side of a row needs when it runs in the venv.

A module of this folder defines ROWS, and has a `main` that is run with the venv's Python:

  python -m rows.passt prepare --work DIR ...      writes weights and inputs that both sides read
  python -m rows.passt PEER --work DIR ...         runs a peer and prints {"seconds": [..], ..}

Imports at the top of a module are of the standard library alone: bench/compare imports it, and has no packages.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness import agreement

# For 32-bit sides; a peer in 16 bits is asked for less.
COSINE = 0.9999
COSINE_BF16 = 0.99


@dataclass
class Options:
    """What bench/compare was asked for, as rows see it."""

    bench: Path
    hark: Path
    python: Path
    work: Path
    threads: int
    quick: bool
    efficientat: Path | None = None
    mn_weights: Path | None = None
    audio: Path | None = None
    captions: Path | None = None
    sentence_model: Path | None = None
    device: str = "cpu"
    # Of hark's weights, in rows that have other precisions than f32.
    precision: str = "f32"

    def at_precision(self):
        """Arguments of hark-bench for rows with several precisions."""
        return [] if self.precision == "f32" else ["--precision", self.precision]

    def on_device(self):
        """Arguments of hark-bench for rows that run on any device. Its library has threads of its own."""
        return [] if self.device == "cpu" else ["--device", self.device]


class Row:
    """One line of the report: hark against one or more peers.

    `ours` and `theirs` give commands that print {"seconds": [..], ..}. `check` is true in the first call of a run, whose results
    are compared. In it `choice` is None: a peer may try several ways of working, such as batch sizes, and print its choice, which
    later calls get. "parts" in the JSON are further measurements of the same process, by name.
    """

    name = ""
    what = ""
    peers: list[str] = []
    # Packages whose versions belong to the result, and whose change makes the work folder anew.
    packages: list[str] = []
    # Whether the peak memory of one process is that of a side: not where a side starts others.
    memory = True
    # What hark is measured in beside 32 bits: each is compared with 32 bits, and bf16 with peers in bf16.
    precisions: list[str] = []

    def missing(self, options):
        """Why the row cannot be run, or None."""
        return None

    def settings(self, options):
        """What the files in the work folder depend on, beside the packages' versions."""
        return {}

    def prepare(self, options, folder):
        """The command that fills the work folder, or None."""
        return None

    def ours(self, options, folder, output, check):
        raise NotImplementedError

    def theirs(self, peer, options, folder, output, check, choice):
        raise NotImplementedError

    def environment(self, options):
        """Threads of the libraries, which read them when they start."""
        threads = str(options.threads)
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
        return {name: threads for name in names}

    def check_command(self, peer, options, folder, ours, theirs):
        """A command that compares the two outputs, prints {"wrong": why or null}; None to compare here."""
        return None

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        """What is different between the results of the two sides, or None."""
        least = COSINE_BF16 if "bf16" in peer else COSINE
        return agreement.cosines(agreement.read_npy(our_output), agreement.read_npy(their_output), least)


def batch_option(options, choice):
    """The batch size of a peer: its choice; quick runs try none."""
    return ["--batch", choice or 1] if choice or options.quick else []


# ---------------------------------------------------------------- the peers' side, in the venv


def peer_parser(description):
    """Arguments that all peers' programs take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("side")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--batch", type=int, help="without it the fastest is looked for")
    parser.add_argument("--threads", type=int, default=1)
    return parser


def load_torch(threads):
    import torch

    # Nothing runs on a GPU. Without this, torchaudio refuses to start where it was built for another CUDA version.
    torch.version.cuda = None
    torch.set_num_threads(threads)
    return torch


def timed(work, repeat):
    """Seconds of each repetition after one that is not counted, and the result of the last."""
    result = work()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def fastest(work, sizes):
    """The batch size with which `work(size)` takes the least time: the better of two passes each, in turns."""
    taken = {size: float("inf") for size in sizes}
    for _ in range(2):
        for size in sizes:
            start = time.perf_counter()
            work(size)
            taken[size] = min(taken[size], time.perf_counter() - start)
    return min(taken, key=taken.get)


def answer(**figures):
    """Prints the JSON document that bench/compare reads. Libraries may have printed to stdout before."""
    sys.stdout = sys.__stdout__
    print(json.dumps(figures))


def silence():
    """Sends what libraries print to stderr, so that stdout has the answer alone."""
    sys.stdout = sys.stderr
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
