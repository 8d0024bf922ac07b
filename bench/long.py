#!/usr/bin/env python3
"""Peak memory of `hark embed` on one long recording.

Writes a recording of some hours (noise whose loudness and colour change, 16-bit WAV at 16 kHz), embeds it with
a model that has an audio tower, and prints the most memory that the program held, as the operating system counts
it. Ends with 1 if that is over the limit. The recording stays in a temporary folder.

Run, from the root of the repository, with PaSST-S or any other model (three hours take a quarter of an hour on two
cores):

  hark models pull passt-s
  python bench/long.py --hark target/release/hark --model passt-s --hours 3
"""

import argparse
import array
import math
import random
import resource
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

RATE = 16000


def write_recording(path, hours):
    """Second after second of filtered noise, seeded."""
    numbers = random.Random(1)
    last = 0.0
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        # A minute of noise is drawn once and played at other loudnesses: three hours of drawing would take longer
        # than the embedding.
        minute = []
        for place in range(60 * RATE):
            last += (numbers.uniform(-1, 1) - last) * (0.1 + 0.8 * (place // RATE % 10) / 10)
            minute.append(last)
        for count in range(round(hours * 60)):
            loudness = 12000 * (0.6 + 0.4 * math.sin(count))
            file.writeframes(array.array("h", (int(x * loudness) for x in minute)).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", type=Path, required=True, metavar="BINARY", help="the hark program")
    parser.add_argument("--model", required=True, help="a model with an audio tower")
    parser.add_argument("--hours", type=float, default=3.0, help="length of the recording (default 3)")
    parser.add_argument("--limit", type=float, default=1.5, help="gigabytes that are allowed (default 1.5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        recording = Path(scratch) / "long.wav"
        write_recording(recording, arguments.hours)
        print(f"{arguments.hours} h, {recording.stat().st_size / 1e6:.0f} MB")
        command = [arguments.hark, "embed", recording, "--model", arguments.model, "--clip-seconds", "full",
                   "-o", Path(scratch) / "long.npy"]
        subprocess.run(command, check=True)
        print((Path(scratch) / "long.rows.csv").read_text(encoding="utf-8").splitlines()[1].split(",", 2)[2])
    # Kilobytes on Linux.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    print(f"peak memory {peak:.2f} GB")
    return 1 if peak > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
