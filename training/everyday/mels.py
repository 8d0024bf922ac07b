"""Computes the log-mel spectrograms of the pool of sounds once.

    python mels.py POOL OUT [--cap 400] [--processes 2]

POOL  folder written by sounds.py
OUT   gets mels.f16 (frames x 128 bands, 16-bit floats), index.csv (source, path, first frame, frames) and sources.csv
      (POOL/sources.csv with the files, segments and seconds used). After an interruption, run the same command again

At most --cap files of a source are used, or the number in CAPS. Files longer than 12 s are cut into segments of 10 s,
spread over the file; shorter ones are trimmed of silence at both ends. Quiet segments are amplified to a peak of
-26 dB, silent ones left out.
"""
import argparse
import csv
import functools
import os
import random
from multiprocessing import Pool

import numpy as np
import soundfile
import torch

from network import BANDS, FrontEnd, read

CAPS = {"esc50": 10000, "DeltaV-Station+Delta-v": 1000, "PolarisSS13+Polaris": 800, "AntumMT+mod-sounds": 700,
        "Fris0uman+CDDA-Soundpacks": 500, "gveres+donateacry-corpus": 200, "tuxpaint-stamps-default": 600,
        "0ad-data": 700, "Jakobovski+free-spoken-digit-dataset": 50, "soerenab+AudioMNIST": 150,
        "bucklespring-data": 40, "synthetic": 1000, "espeak": 1000, "nbrosowsky+tonejs-instruments": 250,
        "sgossner+VSCO-2-CE": 300, "hydrogen-drumkits": 200, "lmms-common": 150, "wesnoth-1.16-data": 500,
        "redeclipse-data": 500, "flightgear-data-base": 500, "planetblupi-common": 100, "fillets-ng-data-cs": 250}
SEGMENTS = 6  # most segments of a file
MORE_SEGMENTS = {"rafaelmardojai+blanket": 12, "luizhenrique07+relaxing-sounds": 12}
FRAME_BYTES = 2 * BANDS


@functools.cache
def front_end():
    torch.set_num_threads(1)
    return FrontEnd()


def segments(path, most):
    """Log-mels (frames, bands) of a file's segments."""
    with soundfile.SoundFile(path) as f:
        seconds = f.frames / f.samplerate
    if seconds < 0.05:
        return
    short = seconds <= 12
    starts = [0.0] if short else np.linspace(0, seconds - 10, min(most, int(seconds // 10)))
    for start in starts:
        x = read(path, start, 10.0)
        level = np.abs(x)
        peak = level.max(initial=0)
        if peak < 1e-3 or not np.isfinite(peak):
            continue
        if short:
            loud = np.flatnonzero(level > peak * 0.003)
            x = x[max(0, loud[0] - 1600):loud[-1] + 1600]
        yield front_end()(x * max(1, 0.05 / peak)).T.half().numpy()[:1000]


def work(job):
    source, path, file = job
    try:
        return source, path, list(segments(file, MORE_SEGMENTS.get(source, SEGMENTS)))
    except (soundfile.LibsndfileError, RuntimeError, ValueError) as error:
        print(f"cannot read {path}: {error}")
        return source, path, []


def choose(pool, cap):
    """Random files of each source, in random order."""
    by_source = {}
    with open(os.path.join(pool, "files.csv"), newline="") as f:
        for row in csv.DictReader(f):
            by_source.setdefault(row["source"], []).append(row["path"])
    jobs = []
    for source, paths in sorted(by_source.items()):
        chosen = random.Random(source).sample(paths, min(len(paths), CAPS.get(source, cap)))
        jobs += [(source, path, os.path.join(pool, path)) for path in chosen]
    random.Random(1).shuffle(jobs)
    return jobs


def finished(index, data):
    """Rows of an earlier run whose frames are all in the file of data, which is cut after them."""
    rows, at = [], 0
    if os.path.exists(index):
        whole = os.path.getsize(data) // FRAME_BYTES
        with open(index, newline="") as f:
            for row in csv.DictReader(f):
                if row["frames"] and int(row["start"]) == at and at + int(row["frames"]) <= whole:
                    rows.append([row["source"], row["path"], at, int(row["frames"])])
                    at += int(row["frames"])
        os.truncate(data, at * FRAME_BYTES)
    return rows, at


def write_sources(pool, index, out):
    files, count, seconds = {}, {}, {}
    with open(index, newline="") as f:
        for row in csv.DictReader(f):
            source = row["source"]
            files.setdefault(source, set()).add(row["path"])
            count[source] = count.get(source, 0) + 1
            seconds[source] = seconds.get(source, 0) + int(row["frames"]) / 100
    with open(os.path.join(pool, "sources.csv"), newline="") as f, open(out, "w", newline="") as g:
        table = csv.writer(g, lineterminator="\n")
        table.writerow(["source", "url", "licence", "files", "segments", "seconds"])
        for row in csv.DictReader(f):
            source = row["source"]
            if source in files:
                used = [len(files[source]), count[source], round(seconds[source])]
                table.writerow([source, row["url"], row["licence"], *used])
    print(f"{sum(count.values())} segments of {len(files)} sources, {sum(seconds.values()) / 3600:.1f} hours")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("out")
    parser.add_argument("--cap", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    index, data = os.path.join(args.out, "index.csv"), os.path.join(args.out, "mels.f16")
    rows, at = finished(index, data)
    done = {row[1] for row in rows}
    jobs = [job for job in choose(args.pool, args.cap) if job[1] not in done]
    with open(data, "ab") as mels, open(index, "w", newline="") as f, Pool(args.processes) as pool:
        table = csv.writer(f)
        table.writerow(["source", "path", "start", "frames"])
        table.writerows(rows)
        for i, (source, path, parts) in enumerate(pool.imap(work, jobs, chunksize=16)):
            for part in parts:
                mels.write(part.tobytes())
                table.writerow([source, path, at, len(part)])
                at += len(part)
            if i % 50 == 0:
                mels.flush()
                f.flush()
            if i % 500 == 0:
                print(f"{i} of {len(jobs)} files, {at // 100} s", flush=True)
    write_sources(args.pool, index, os.path.join(args.out, "sources.csv"))


if __name__ == "__main__":
    main()
