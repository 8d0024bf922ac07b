#!/usr/bin/env python3
"""How long recordings fare in a search: whether they come first where they should not, and whether the right moment is found.

  python3 bench/moments.py HARK ESC50 MODEL [--hop SECONDS]

HARK is the program, ESC50 a folder with recordings of ESC-50 and its esc50.csv, MODEL a dual encoder by name or folder.
120 clips, drawn with a fixed seed, are joined into one recording of ten minutes; 400 others stay single. All are indexed
into a library of their own, in a temporary folder, and searched by the 50 class names. Counted are the queries for which

  first      the long recording is the first hit,
  wrongly    and the moment that is shown is of another class (IoU with an event of the class below 0.5),
  moment     the best moment of the long recording has an IoU of at least 0.5 with an event of the class, of those classes
             that it contains.

The single clips give the mean average precision of the same search, and what a correction for hubs does to all of it is
printed beside: the query less a part of the mean of the class names' vectors, which subtracts from each window its mean
similarity to these texts.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import tempfile

import numpy as np
import soundfile

RATE, EVENT, LONG, SINGLE = 44_100, 5, 120, 400


def overlap(a: tuple[float, float], b: tuple[float, float]) -> float:
    inside = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return inside / ((a[1] - a[0]) + (b[1] - b[0]) - inside)


def average_precision(relevant: np.ndarray) -> float:
    hits = np.cumsum(relevant)
    return float((hits * relevant / np.arange(1, len(relevant) + 1)).sum() / relevant.sum())


class Search:
    def __init__(self, hark: str, home: str, model: str) -> None:
        self.hark, self.model = hark, model
        self.environment = os.environ | {"HARK_HOME": home} if home else dict(os.environ)

    def run(self, *arguments: str) -> str:
        done = subprocess.run([self.hark, *arguments], check=True, capture_output=True, text=True, env=self.environment)
        return done.stdout

    def embed(self, place: pathlib.Path, *arguments: str) -> np.ndarray:
        self.run("embed", *arguments, "--model", self.model, "-o", str(place))
        return np.load(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hark")
    parser.add_argument("esc50", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("--hop", default="5")
    args = parser.parse_args()
    with open(args.esc50 / "esc50.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    random.Random(16).shuffle(rows)
    joined, singles = rows[:LONG], rows[LONG : LONG + SINGLE]
    names = sorted({row["category"] for row in rows})
    events = {name: [(EVENT * n, EVENT * (n + 1)) for n, row in enumerate(joined) if row["category"] == name] for name in names}
    search = Search(args.hark, "", args.model)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / "sounds"
        folder.mkdir()
        pieces = [np.resize(soundfile.read(args.esc50 / row["filename"])[0], EVENT * RATE) for row in joined]
        soundfile.write(folder / "long.wav", np.concatenate(pieces), RATE, subtype="PCM_16")
        for row in singles:
            os.symlink((args.esc50 / row["filename"]).resolve(), folder / row["filename"])
        library = "hark-bench-moments"
        try:
            search.run("index", str(folder), "--model", args.model, "--hop", args.hop, "--name", library, "--json")
            first = wrongly = 0
            right, precision = [], []
            for name in names:
                words = name.replace("_", " ")
                hits = json.loads(search.run("search", "--meaning", words, "--name", library, "-n", "401", "--json"))["hits"]
                is_long = ["long.wav" in hit["file"]["path"] for hit in hits]
                best = hits[is_long.index(True)]
                moment = (best["start"], best["end"])
                found = any(overlap(moment, event) >= 0.5 - 1e-9 for event in events[name])
                first += is_long[0]
                wrongly += is_long[0] and not found
                if events[name]:
                    right.append(found)
                category = {row["filename"]: row["category"] for row in singles}
                relevant = [category[pathlib.Path(hit["file"]["path"]).name] == name for hit, long in zip(hits, is_long) if not long]
                if any(relevant):
                    precision.append(average_precision(np.array(relevant)))
        finally:
            search.run("index", "--delete", library)
        print(
            f"long recording first {first} of {len(names)}, wrongly {wrongly}; right moment {sum(right)} of {len(right)}"
            f" = {np.mean(right):.3f}; mAP of single clips {np.mean(precision):.3f}"
        )
        texts = pathlib.Path(place) / "names.txt"
        texts.write_text("".join(name.replace("_", " ") + "\n" for name in names))
        queries = search.embed(pathlib.Path(place) / "q.npy", "--captions", str(texts))
        clips = search.embed(pathlib.Path(place) / "c.npy", *(str(args.esc50 / row["filename"]) for row in singles))
        own = np.array([row["category"] for row in singles])
        for part in (0.0, 0.25, 0.5, 1.0):
            scores = (queries - part * queries.mean(axis=0)) @ clips.T
            figures = [average_precision((own == name)[np.argsort(-row, kind="stable")]) for name, row in zip(names, scores) if (own == name).any()]
            print(f"less {part} of the mean text: mAP of single clips {np.mean(figures):.3f}")


main()
