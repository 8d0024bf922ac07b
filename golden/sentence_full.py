#!/usr/bin/env python3
"""Compares `hark embed` with sentence-transformers on real weights and real captions.

Takes captions evenly spaced over a Clotho caption file (`file_name, caption_1 .. caption_5`), encodes
them with sentence_transformers.SentenceTransformer for every model folder under --models, runs
`hark embed` on the same captions, and prints the largest absolute difference in any component for
each model. Ends with 1 if one of them is over the tolerance.

The captions are not part of the repository: they and the vectors stay in a temporary folder.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/sentence_full.py --models DIR --captions clotho_captions_evaluation.csv \\
      --hark target/release/hark
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 1e-4


def read_captions(path):
    """All captions of a CSV file, row by row, from its columns named `caption` or `caption_N`."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        columns = [name for name in rows.fieldnames or [] if name == "caption" or name.startswith("caption_")]
        if not columns:
            sys.exit(f"{path}: no column is named `caption` or `caption_N`")
        # One line each in the file that hark reads.
        return [" ".join(row[name].splitlines()) for row in rows for name in columns if row[name].strip()]


def evenly(items, count):
    """`count` of the items, evenly spaced, the first one included; all of them if there are fewer."""
    count = min(count, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR",
                        help="folder whose subfolders are Sentence-Transformers models (those with a modules.json)")
    parser.add_argument("--captions", type=Path, required=True, metavar="CSV", help="a Clotho caption file")
    parser.add_argument("--count", type=int, default=500, help="how many captions (default 500)")
    parser.add_argument("--hark", type=Path, required=True, metavar="BINARY", help="the hark program")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    arguments = parser.parse_args()

    import numpy as np
    import torch

    # Nothing runs on a GPU, and torchaudio, which transformers loads, refuses a torch of another CUDA version.
    torch.version.cuda = None
    import sentence_transformers
    import transformers

    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"sentence-transformers {sentence_transformers.__version__}, numpy {np.__version__}")

    folders = sorted(path.parent for path in arguments.models.glob("*/modules.json"))
    if not folders:
        sys.exit(f"{arguments.models}: no subfolder has a modules.json")
    captions = evenly(read_captions(arguments.captions), arguments.count)
    print(f"{len(captions)} captions of {arguments.captions.name}")

    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "captions.txt"
        text.write_text("".join(caption + "\n" for caption in captions), encoding="utf-8")
        for folder in folders:
            model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
            # hark's vectors have length 1 even where a model folder ends without its own norm.
            reference = model.encode(captions, normalize_embeddings=True)
            out = Path(scratch) / f"{folder.name}.npy"
            # Without the cache: the vectors of an earlier build must not answer for this one.
            subprocess.run(
                [arguments.hark, "embed", "--captions", text, "--format", "text", "--model", folder, "--no-cache",
                 "--threads", str(arguments.threads), "-o", out],
                check=True,
            )
            ours = np.load(out)
            if ours.shape != reference.shape:
                print(f"{folder.name}: shape {ours.shape}, expected {reference.shape}  FAILED")
                failed = True
                continue
            difference = np.abs(ours.astype(np.float64) - reference.astype(np.float64))
            largest = difference.max()
            # NaN compares false with everything, so ask for what must hold.
            good = bool(largest <= TOLERANCE)
            row, column = np.unravel_index(difference.argmax(), difference.shape)
            print(f"{folder.name}: largest absolute difference {largest:.2e} (caption {row}, component {column}), "
                  f"tolerance {TOLERANCE:.0e}  {'ok' if good else 'FAILED'}")
            failed |= not good
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
