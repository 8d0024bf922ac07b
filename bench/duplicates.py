#!/usr/bin/env python3
"""Whether the same recording is recognised in other formats, and told from others, on the recordings of ESC-10.

ffmpeg writes each recording in the formats of VARIANTS; `hark-bench fingerprints` prints how
far each original is from its variants and from every other original. Printed are, for each format, how many variants
are recognised and how far the farthest is; how many pairs of different recordings are taken for one, and how near the
nearest are; and the same for takes of one source, which are cuts of one longer recording and may overlap. Folds 1 and 2
are those that the thresholds in `fingerprint.rs` were chosen on, fold 3 the one that they were not.

Run, from the root of the repository, with ffmpeg on the path:

  cargo build --release -p hark-bench
  python bench/duplicates.py --data FOLDER --variants FOLDER --bench target/release/hark-bench

FOLDER of the data holds esc10.csv (file_name, category, fold, source_id, take) and the files it names. Variants that are
there already are not made anew.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Name, ending, what ffmpeg is told. Delay and padding that a codec adds stay in where the container cannot tell them.
VARIANTS = [
    ("mp3 128k", "128.mp3", ["-c:a", "libmp3lame", "-b:a", "128k"]),
    ("mp3 64k, 22.05 kHz, -6 dB", "64.mp3", ["-af", "volume=-6dB", "-ar", "22050", "-c:a", "libmp3lame", "-b:a", "64k"]),
    ("mp3 without gapless header", "bare.mp3", ["-c:a", "libmp3lame", "-b:a", "128k", "-write_xing", "0"]),
    ("vorbis q4, stereo", "ogg", ["-ac", "2", "-c:a", "libvorbis", "-q:a", "4"]),
    ("opus 64k", "64.opus", ["-c:a", "libopus", "-b:a", "64k"]),
    ("opus 24k", "24.opus", ["-c:a", "libopus", "-b:a", "24k"]),
    ("aac 128k in mp4", "m4a", ["-c:a", "aac", "-b:a", "128k"]),
    ("aac 96k, bare stream", "aac", ["-c:a", "aac", "-b:a", "96k"]),
    ("wav 32 kHz, 90 ms late, -20 dB", "late.wav", ["-af", "volume=-20dB,adelay=90", "-ar", "32000"]),
    ("wav 8 kHz", "8.wav", ["-ar", "8000"]),
    ("flac 24-bit, 96 kHz, panned", "96.flac",
     ["-af", "pan=stereo|c0=0.8*c0|c1=0.2*c0", "-ar", "96000", "-sample_fmt", "s32", "-c:a", "flac"]),
]


def variant(folder, stem, ending):
    return folder / f"{stem}.{ending}"


def cut(source, folder, seconds):
    """The beginning of a recording as a file of its own."""
    path = folder / f"{source.stem}.flac"
    if not path.exists():
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", str(source), "-t", str(seconds), str(path)], check=True)
    return path


def transcode(source, folder):
    """All variants of one recording that are missing, in one run of ffmpeg."""
    outputs = []
    for _, ending, options in VARIANTS:
        path = variant(folder, source.stem, ending)
        if not path.exists():
            outputs += ["-map", "0:a", *options, str(path)]
    if outputs:
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-threads", "1", "-i", str(source), *outputs],
                       check=True)


def ask(bench, lists):
    """Distances between the recordings of groups: `(first, second) -> (alike, distance)` by their paths."""
    lines = "".join("\t".join(map(str, line)) + "\n" for line in lists)
    printed = subprocess.run([bench, "fingerprints"], input=lines, check=True, stdout=subprocess.PIPE, text=True).stdout
    measured = json.loads(printed)
    print(f"pairs a second: {measured['pairs_per_second']}; bytes: {measured['fingerprint_bytes']}", file=sys.stderr)
    for pair in measured["pairs"]:
        yield pair["kind"], pair["first"], pair["second"], pair["alike"], pair["distance"]


def share(count, of):
    return f"{count}/{of}" + (f" ({100 * count / of:.2f} %)" if of else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="recordings and esc10.csv")
    parser.add_argument("--variants", type=Path, required=True, metavar="FOLDER", help="where variants are written")
    parser.add_argument("--bench", type=Path, metavar="BINARY", help="the program hark-bench; without it variants are made only")
    parser.add_argument("--cut", type=float, metavar="SECONDS",
                        help="use only the beginnings of the recordings, so long; give each length a FOLDER of variants")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="runs of ffmpeg at once")
    parser.add_argument("--pairs", type=int, default=10, help="how many nearest pairs of different recordings to list")
    arguments = parser.parse_args()

    with open(arguments.data / "esc10.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    arguments.variants.mkdir(parents=True, exist_ok=True)

    def prepare(row):
        source = arguments.data / row["file_name"]
        if arguments.cut:
            source = cut(source, arguments.variants, arguments.cut)
        transcode(source, arguments.variants)
        return str(source), row

    with ThreadPoolExecutor(arguments.threads) as pool:
        about = dict(pool.map(prepare, rows))
    if not arguments.bench:
        return
    names = {}
    lists = []
    for path in about:
        line = [path]
        for name, ending, _ in VARIANTS:
            made = variant(arguments.variants, Path(path).stem, ending)
            names[str(made)] = name
            line.append(made)
        lists.append(line)
    results = list(ask(arguments.bench, lists))
    for title, folds in (("folds 1 and 2", {"1", "2"}), ("fold 3", {"3"}), ("all folds", {"1", "2", "3"})):
        report(title, folds, results, about, names, arguments.pairs)


def report(title, folds, results, about, names, most):
    same = defaultdict(list)
    others, takes = [], []
    for kind, first, second, alike, distance in results:
        if about[first]["fold"] not in folds:
            continue
        if kind == "same":
            same[names[second]].append((distance, alike, first))
        elif about[second]["fold"] in folds:
            one_source = about[first]["source_id"] == about[second]["source_id"]
            (takes if one_source else others).append((distance, alike, first, second))
    if not others:
        sys.exit(f"{title}: no pairs")
    print(f"\n{title}")
    for name, found in same.items():
        found.sort()
        print(f"  {name:32} recognised {share(sum(alike for _, alike, _ in found), len(found)):18} "
              f"median {found[len(found) // 2][0]:.3f}, 95 % {found[len(found) * 95 // 100][0]:.3f}, "
              f"farthest {found[-1][0]:.3f} {Path(found[-1][2]).name}")
    for name, pairs in (("other sources", others), ("takes of one source", takes)):
        pairs.sort()
        wrong = sum(alike for _, alike, *_ in pairs)
        nearest = f", nearest {pairs[0][0]:.3f}" if pairs else ""
        print(f"  {name:32} taken for one {share(wrong, len(pairs))}{nearest}")
        for distance, alike, first, second in pairs[:most]:
            kinds = {about[first]["category"], about[second]["category"]}
            print(f"    {distance:.3f} {'alike' if alike else '     '} {Path(first).name} {Path(second).name} "
                  f"{' / '.join(sorted(kinds))}")


if __name__ == "__main__":
    main()
