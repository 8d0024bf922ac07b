#!/usr/bin/env python3
"""Captions per second: hark against sentence-transformers on the same model, in one run.

Both sides encode the same captions, taken evenly over a caption file. On the one side stands
sentence_transformers.SentenceTransformer.encode with its defaults (batches of 32, sorted by length);
on the other `hark-bench encode`, which prints {"seconds": .., "captions": ..}. Loading the model is left out on both sides. The two take turns, so
that a change in the load of the machine meets both, and the ratio of the medians is printed. Run it
on an idle machine all the same: with other programs on its cores torch slows down out of proportion.

The caption file is plain text, one caption per line, or a .csv with columns named `caption` or
`caption_N`. The captions taken are handed to hark in a temporary text file.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/encode.py --model FOLDER --captions train.csv --count 2000 --bench target/release/hark-bench
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def read_captions(path):
    """All captions of a text or CSV file, in order, each on one line."""
    with open(path, encoding="utf-8", newline="") as file:
        if path.suffix.lower() != ".csv":
            return [line.strip() for line in file if line.strip()]
        rows = csv.DictReader(file)
        columns = [name for name in rows.fieldnames or [] if name == "caption" or name.startswith("caption_")]
        if not columns:
            sys.exit(f"{path}: no column is named `caption` or `caption_N`")
        return [" ".join(row[name].splitlines()) for row in rows for name in columns if row[name].strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER",
                        help="a Sentence-Transformers model folder")
    parser.add_argument("--captions", type=Path, required=True, metavar="FILE", help="captions, plain text or .csv")
    parser.add_argument("--count", type=int, default=2000, help="how many captions (default 2000)")
    parser.add_argument("--bench", type=Path, metavar="BINARY",
                        help="the program hark-bench; without it only sentence-transformers is measured")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns for each side (default 3)")
    arguments = parser.parse_args()

    # Read by the libraries when they start: OpenMP for torch, rayon for its tokenizer.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    # Off by itself after a fork, with a warning; said aloud here, as its batches are small.
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import torch

    # Nothing runs on a GPU, and torchaudio, which transformers loads, refuses a torch of another CUDA version.
    torch.version.cuda = None
    import sentence_transformers
    import transformers

    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"sentence-transformers {sentence_transformers.__version__}")

    everything = read_captions(arguments.captions)
    count = min(arguments.count, len(everything))
    if count < 1:
        sys.exit(f"{arguments.captions}: no captions")
    captions = [everything[index * len(everything) // count] for index in range(count)]
    model = sentence_transformers.SentenceTransformer(str(arguments.model), device="cpu")
    model.encode(captions[:32])
    print(f"{arguments.model.name}, {count} captions of {arguments.captions.name}, "
          f"{arguments.threads} threads, {arguments.rounds} rounds, "
          f"load average before {os.getloadavg()[0]:.1f}")

    rates = {"hark": [], "sentence-transformers": []}
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "captions.txt"
        text.write_text("".join(caption + "\n" for caption in captions), encoding="utf-8")
        for turn in range(arguments.rounds):
            if arguments.bench:
                printed = subprocess.run(
                    [arguments.bench, "encode", "--model", arguments.model, "--captions", text,
                     "--format", "text", "--count", str(count), "--threads", str(arguments.threads)],
                    check=True, stdout=subprocess.PIPE, text=True,
                ).stdout
                timing = json.loads(printed)
                if timing["captions"] != count:
                    sys.exit(f"hark encoded {timing['captions']} captions, expected {count}")
                rates["hark"].append(count / timing["seconds"])

            start = time.perf_counter()
            model.encode(captions, show_progress_bar=False)
            rates["sentence-transformers"].append(count / (time.perf_counter() - start))
            print(f"round {turn + 1}: " + ", ".join(f"{name} {rate[-1]:.1f}/s" for name, rate in rates.items() if rate),
                  flush=True)

    peer = statistics.median(rates["sentence-transformers"])
    if not rates["hark"]:
        print(f"median: sentence-transformers {peer:.1f} captions/s")
        return
    hark = statistics.median(rates["hark"])
    print(f"medians: hark {hark:.1f} captions/s, sentence-transformers {peer:.1f} captions/s; "
          f"hark / sentence-transformers = {hark / peer:.2f} (above 1: hark is faster)")


if __name__ == "__main__":
    main()
