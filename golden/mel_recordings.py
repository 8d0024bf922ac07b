#!/usr/bin/env python3
"""Our log-mel spectrograms against AugmentMelSTFT on real recordings.

Reads every recording of a folder with librosa.load(sr=32000): mono, resampled by soxr_hq, librosa's default. The
package hear21passt has no loader of its own: its functions take waveforms at 32 kHz. Both sides get the
same samples, ours through a temporary file and the example program `logmel`.

Prints, over all recordings, the largest difference between ours and the class run in float64, ours and the class
run in float32, and between the two runs of the class, each with how many values differ by more than --tolerance.
Ends with 1 if ours is more than that away from the float64 run. The float32 run is no judge: it rounds the corner
points of its bands, which moves weights by 1e-5, and where a loud bin lies at the foot of a quiet band that alone
is more than 1e-4 in the logarithm. Writes nothing else.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  cargo build --release -p hark-audio --example logmel
  python golden/mel_recordings.py --data FOLDER
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import librosa
import numpy as np
import torch

from mel import EVALUATION, RATE, reference

KINDS = {".flac", ".wav", ".ogg", ".mp3"}


class Largest:
    """The largest difference so far, where it was, and how many were over the tolerance."""

    def __init__(self, what, tolerance):
        self.what, self.tolerance = what, tolerance
        self.value, self.place, self.over = -1.0, "", 0

    def see(self, one, other, name):
        difference = np.abs(one - other)
        self.over += int((difference > self.tolerance).sum())
        if difference.max() > self.value:
            band, frame = np.unravel_index(difference.argmax(), difference.shape)
            self.value, self.place = float(difference.max()), f"{name}, band {band}, frame {frame}"

    def __str__(self):
        return f"{self.what}: {self.value:.2e} ({self.place}); over {self.tolerance:g}: {self.over} values"


def ours(program, samples, folder):
    """What the example program makes of the samples."""
    source, target = folder / "samples.f32", folder / "logmel.f32"
    samples.astype("<f4").tofile(source)
    subprocess.run([program, source, target], check=True)
    return np.fromfile(target, dtype="<f4").reshape(128, -1).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="a folder of recordings")
    parser.add_argument("--example", type=Path, default=Path("target/release/examples/logmel"), metavar="PATH",
                        help="the example program (default target/release/examples/logmel)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="the largest difference allowed (default 1e-4)")
    arguments = parser.parse_args()

    paths = sorted(path for path in arguments.data.iterdir() if path.suffix.lower() in KINDS)
    if not paths:
        sys.exit(f"{arguments.data}: no recordings")
    double, single, itself = (Largest(what, arguments.tolerance)
                              for what in ("ours to float64", "ours to float32", "float32 to float64"))
    values = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            samples, _ = librosa.load(path, sr=RATE, mono=True)
            made = ours(arguments.example, samples, Path(folder))
            in32 = reference(samples, EVALUATION, torch.float32)
            in64 = reference(samples, EVALUATION, torch.float64)
            if made.shape != in64.shape:
                sys.exit(f"{path.name}: {made.shape[1]} frames, but the reference has {in64.shape[1]}")
            single.see(made, in32, path.name)
            double.see(made, in64, path.name)
            itself.see(in32, in64, path.name)
            values += made.size
    print(f"{len(paths)} recordings, {values} values")
    for largest in (double, single, itself):
        print(largest)
    sys.exit(1 if double.over else 0)


if __name__ == "__main__":
    main()
