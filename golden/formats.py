#!/usr/bin/env python3
"""The same recording in several formats: how near the log-mels are that hark makes of them.

Takes some recordings of a folder, writes each as WAV and FLAC (lossless) and as MP3, Opus, AAC and Vorbis with
ffmpeg, and has the example program `logmel` decode, resample and analyse every file, and all the other
recordings of the folder as well.

- FLAC and WAV must give the same log-mel within 1e-4.
- The log-mel of a lossy file, less its mean, must be nearer to the recording's own (root of the mean square
  difference, over the frames that both have) than those of 99 of 100 other recordings are.

Prints the largest difference of the lossless pair and, for every lossy format, the worst share of other recordings
that are farther away; ends with 1 if one of them is not as it should be. Everything stays in a temporary folder.

Run, from the root of the repository, with ffmpeg on the path:

  cargo build --release -p hark-audio --example logmel
  pip install -r golden/requirements.txt
  python golden/formats.py --data FOLDER
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MELS = 128
LOSSLESS = {"wav": ["-c:a", "pcm_s16le"], "flac": ["-c:a", "flac"]}
LOSSY = {
    "mp3": ["-c:a", "libmp3lame", "-b:a", "128k"],
    "opus": ["-c:a", "libopus", "-b:a", "64k"],
    "m4a": ["-c:a", "aac", "-b:a", "128k"],
    "ogg": ["-c:a", "libvorbis", "-q:a", "4"],
}


def log_mel(program, path, scratch):
    out = scratch / "out.mel"
    subprocess.run([program, path, out], check=True)
    return np.fromfile(out, dtype="<f4").reshape(MELS, -1).astype(np.float64)


def distance(a, b):
    """Root mean square difference of two log-mels, each less its mean, over the frames that both have."""
    frames = min(a.shape[1], b.shape[1])
    a, b = a[:, :frames], b[:, :frames]
    return float(np.sqrt(np.mean(((a - a.mean()) - (b - b.mean())) ** 2)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="a folder of FLAC recordings")
    parser.add_argument("--example", type=Path, default=Path("target/release/examples/logmel"), metavar="BINARY",
                        help="the example program logmel")
    parser.add_argument("--count", type=int, default=20, help="how many recordings are converted (default 20)")
    arguments = parser.parse_args()

    version = subprocess.run(["ffmpeg", "-version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(version.splitlines()[0])
    recordings = sorted(arguments.data.glob("*.flac"))
    if len(recordings) < 2:
        sys.exit(f"{arguments.data}: needs at least two .flac files")
    chosen = range(0, len(recordings), max(1, len(recordings) // arguments.count))
    lossless, shares = 0.0, {name: 1.0 for name in LOSSY}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        mels = [log_mel(arguments.example, path, scratch) for path in recordings]
        for index in chosen:
            own = mels[index]
            others = np.array([distance(mel, own) for place, mel in enumerate(mels) if place != index])
            made = {}
            for name, options in (LOSSLESS | LOSSY).items():
                path = scratch / f"converted.{name}"
                subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", recordings[index], *options, path], check=True)
                made[name] = log_mel(arguments.example, path, scratch)
            lossless = max(lossless, float(np.abs(made["wav"] - made["flac"]).max()))
            for name in LOSSY:
                share = float(np.mean(others > distance(made[name], own)))
                shares[name] = min(shares[name], share)
    print(f"{len(list(chosen))} of {len(recordings)} recordings converted")
    print(f"FLAC against WAV: {lossless:.2e}")
    for name, share in shares.items():
        print(f"{name}: nearer than {share:.1%} of other recordings, at worst")
    return 1 if lossless > 1e-4 or min(shares.values()) < 0.99 else 0


if __name__ == "__main__":
    sys.exit(main())
