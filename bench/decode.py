"""ffmpeg beside hark on a folder of sound files.

Every file below the folder is decoded by both and mixed to one channel. The table has a row per extension: files that both decode, that
only ffmpeg or only hark decodes, lengths that differ by more than 1 % and 50 ms (short: hark gives less; of these, silent:
without a reported damage), and samples that correlate by less than 0.9 at the best of some shifts. Rows may be written to a file and
files listed, to see why.

    cargo build --release -p hark-audio --example decode
    python bench/decode.py FOLDER target/release/examples/decode --list files.jsonl

Needs ffmpeg and NumPy. `--refuse` gives the program a PATH without ffmpeg, so that hark decodes alone.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

RATE = 8000
COLUMNS = ["files", "both", "only ffmpeg", "only hark", "neither", "short", "silent", "long", "r < 0.9"]


def run(program, path, folder, alone):
    """hark's report, and its samples."""
    environment = {**os.environ, "HARK_FFMPEG": "", "PATH": "/nonexistent"} if alone else None
    command = [str(program), "--samples", str(folder), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return {"error": "no report"}, None
    if "error" in report:
        return report, None
    return report, np.fromfile(folder / "0.f32", dtype="<f4")


def reference(path):
    """The first audio stream by ffmpeg: the mean of all channels, its rate."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-protocol_whitelist", "file", "-i", f"file:{path}", "-map", "0:a:0", "-map_metadata", "-1",
               "-c:a", "pcm_f32le", "-fflags", "+bitexact", "-f", "wav", "pipe:1"]
    try:
        data = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL).stdout
    except subprocess.TimeoutExpired:
        return None
    at = data.find(b"data", 12)
    form = data.find(b"fmt ", 12)
    if at < 0 or form < 0:
        return None
    channels = int.from_bytes(data[form + 10 : form + 12], "little")
    rate = int.from_bytes(data[form + 12 : form + 16], "little")
    samples = np.frombuffer(data[at + 8 : at + 8 + (len(data) - at - 8) // (4 * channels) * 4 * channels], dtype="<f4")
    if len(samples) == 0:
        return None
    return np.nan_to_num(samples.reshape(-1, channels)).mean(axis=1), rate


def correlation(ours, theirs):
    """At the best shift of up to 50 ms, over at most ten seconds; `None` for silence."""
    count = min(len(ours), len(theirs), 480_000)
    a, b = ours[:count].astype(np.float64), theirs[:count].astype(np.float64)
    if count < 64 or np.std(a) < 1e-6 or np.std(b) < 1e-6:
        return None
    size = 1 << (2 * count - 1).bit_length()
    cross = np.fft.irfft(np.fft.rfft(a, size) * np.conj(np.fft.rfft(b, size)), size)
    near = np.concatenate([cross[:2400], cross[-2400:]])
    return float(np.max(near) / np.sqrt(np.dot(a, a) * np.dot(b, b)))


def compare(program, path, theirs, folder, alone):
    report, ours = run(program, path, folder, alone)
    row = {"path": str(path), "hark": report}
    if theirs is None or ours is None:
        row["who"] = "neither" if theirs is None and ours is None else "only hark" if theirs is None else "only ffmpeg"
        return row
    samples, rate = theirs
    row |= {"who": "both", "ffmpeg_seconds": len(samples) / rate}
    difference = report["seconds"] - row["ffmpeg_seconds"]
    if abs(difference) > 0.05 and abs(difference) > 0.01 * row["ffmpeg_seconds"]:
        row["length"] = "short" if difference < 0 else "long"
    if rate == report["rate"]:
        row["r"] = correlation(ours, samples)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("program", type=Path, nargs="+", help="the example `decode` of hark-audio; several of them, of several versions")
    parser.add_argument("--list", type=Path, help="one JSON object per file and program")
    parser.add_argument("--refuse", action="store_true", help="hark without ffmpeg on the PATH")
    parser.add_argument("--every", type=int, default=1, help="take every n-th file")
    given = parser.parse_args()
    counts = [defaultdict(Counter) for _ in given.program]
    out = given.list.open("w") if given.list else None
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(path for path in given.folder.rglob("*") if path.is_file())[:: given.every]
        for path in files:
            theirs = reference(path)
            for program, table in zip(given.program, counts, strict=True):
                row = compare(program, path, theirs, Path(folder), given.refuse)
                if out:
                    print(json.dumps({"program": str(program), **row}), file=out, flush=True)
                count_row(row, table, path.suffix.lower().lstrip("."))
    for program, table in zip(given.program, counts, strict=True):
        print(f"{program}\n\n| format | " + " | ".join(COLUMNS) + " |")
        print("|---|" + "---|" * len(COLUMNS))
        for kind in sorted(table, key=lambda kind: (kind == "all", kind)):
            print(f"| {kind} | " + " | ".join(str(table[kind][column]) for column in COLUMNS) + " |")
        print()


def count_row(row, table, extension):
    for kind in (extension, "all"):
        count = table[kind]
        count["files"] += 1
        count[row["who"]] += 1
        if "length" in row:
            count[row["length"]] += 1
            count["silent"] += row["length"] == "short" and row["hark"]["damage"] is None
        count["r < 0.9"] += row.get("r") is not None and row["r"] < 0.9


if __name__ == "__main__":
    main()
