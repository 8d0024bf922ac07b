#!/usr/bin/env python3
"""Golden log-mel spectrograms of AugmentMelSTFT, the front end of PaSST.

Writes two files:

  mel.f32   the spectrograms, raw little-endian float32, `[mels, frames]` row by row, one after the other
  mel.txt   one line for each of them: name of the signal, samples, low edge, high edge, frames, and how far the
            class run in float32 is from itself run in float64 at most; lines that begin with # are notes

The values are those of the float64 run, rounded to float32. The float32 run, which is what others use, is off by
more than 1e-4 beside a full-scale tone of high frequency: too far to be a measure.

The signals are made by formula, below and again in the test that reads the files: noise by an integer hash, tones
by a sine whose phase is reduced in whole numbers, so that the samples are the same in both.

torchaudio refuses to load beside a torch that was built for another CUDA, although nothing here runs on CUDA; its
check is passed by hiding torch's CUDA version while it loads.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/mel.py --out crates/audio/tests/golden
"""

import argparse
import math
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

RATE = 32000
EVALUATION = (0.0, 15000.0)
# Low and high edges that a training run could draw, the outermost among them.
JITTERED = [(0.0, 16000.0), (9.0, 14001.0), (4.0, 15321.0), (7.0, 14787.0)]
WORD = (1 << 64) - 1


def reference_class():
    """AugmentMelSTFT, with torchaudio under it."""
    cuda, torch.version.cuda = torch.version.cuda, None
    try:
        import torchaudio.compliance.kaldi  # noqa: F401  (the class calls it by its full name)
        from hear21passt.models.preprocess import AugmentMelSTFT
    finally:
        torch.version.cuda = cuda
    return AugmentMelSTFT


def reference(samples, edges, dtype):
    """What PaSST's front end gives at evaluation, all of it in one precision."""
    torch.set_default_dtype(dtype)
    try:
        mel = reference_class()(n_mels=128, sr=RATE, win_length=800, hopsize=320, n_fft=1024, freqm=48, timem=192,
                                htk=False, fmin=edges[0], fmax=edges[1], norm=1, fmin_aug_range=10,
                                fmax_aug_range=2000).eval()
        with torch.no_grad():
            return mel(torch.from_numpy(samples).to(dtype).unsqueeze(0))[0].to(torch.float64).numpy()
    finally:
        torch.set_default_dtype(torch.float32)


def scramble(z):
    """SplitMix64's output function."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def noise(i):
    """Uniform in [-1, 1), in steps of 2^-23."""
    return (scramble(((i + 1) * 0x9E3779B97F4A7C15) & WORD) >> 40) / (1 << 23) - 1.0


def turn(part, whole):
    """The sine of part / whole of a turn."""
    return math.sin(2.0 * math.pi * ((part % whole) / whole))


SIGNALS = {
    "silence": lambda i: 0.0,
    "constant": lambda i: 0.75,
    "tone-50": lambda i: turn(50 * i, RATE),
    "tone-1000": lambda i: 0.5 * turn(1000 * i, RATE),
    "tone-15000": lambda i: turn(15000 * i, RATE),
    "loud-tone-8000": lambda i: 100.0 * turn(8000 * i + 4000, RATE),
    "noise": noise,
    "faint-noise": lambda i: noise(i) / 4096.0,
    "clicks": lambda i: 1.0 if i % 701 == 350 else 0.0,
    # From 20 Hz to just under 16 kHz.
    "sweep": lambda i: turn(54 * i * i + 655 * i, 1 << 20),
    "burst": lambda i: 0.9 * turn(3000 * i, RATE) if 1600 <= i < 3200 else 0.0,
}


def signal(name, length):
    return np.array([SIGNALS[name](i) for i in range(length)], dtype=np.float64).astype(np.float32)


def cases():
    """Name, samples and edges of every spectrogram."""
    for name in SIGNALS:
        yield name, 4800, EVALUATION
    # The shortest clip there is, and lengths around a whole number of hops.
    for length in (514, 2240, 2241):
        yield "noise", length, EVALUATION
    for edges in JITTERED:
        yield "noise", 1601, edges
        yield "sweep", 4800, edges


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the two files go")
    arguments = parser.parse_args()

    versions = ", ".join(f"{name} {version(name)}" for name in ("hear21passt", "torchaudio", "torch", "numpy"))
    lines = ["# AugmentMelSTFT at evaluation, float64; golden/mel.py", f"# {versions}",
             "# signal samples low high frames float32_error"]
    values = []
    for name, length, edges in cases():
        samples = signal(name, length)
        exact = reference(samples, edges, torch.float64)
        error = np.abs(reference(samples, edges, torch.float32) - exact).max()
        lines.append(f"{name} {length} {edges[0]:g} {edges[1]:g} {exact.shape[1]} {error:.1e}")
        values.append(exact.astype("<f4").tobytes())
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "mel.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (arguments.out / "mel.f32").write_bytes(b"".join(values))


if __name__ == "__main__":
    main()
