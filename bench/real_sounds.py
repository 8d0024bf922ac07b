#!/usr/bin/env python3
"""Text-to-audio retrieval on real recordings: ESC-50's fold 3 by class names and by other words, and captioned recordings.

  python3 bench/real_sounds.py HARK DATA MODEL [--precision bf16]

HARK is the program, MODEL a dual encoder by name or folder. DATA has esc50/ (recordings, esc50.csv with filename, fold and
category, paraphrases.csv with category and a query in other words) and captioned/ (recordings, captions.csv with file_name
and caption). Chance is the mean over random rankings.
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile

import numpy as np


def table(path: pathlib.Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Model:
    def __init__(self, hark: str, name: str, precision: str, place: pathlib.Path) -> None:
        self.hark, self.name, self.precision, self.place = hark, name, precision, place

    def embed(self, *arguments: str) -> np.ndarray:
        out = self.place / "out.npy"
        subprocess.run([self.hark, "embed", *arguments, "--model", self.name, "--precision", self.precision, "-o", out], check=True, capture_output=True)
        return np.load(out)

    def recordings(self, paths: list[pathlib.Path]) -> np.ndarray:
        return self.embed(*map(str, paths))

    def texts(self, texts: list[str]) -> np.ndarray:
        file = self.place / "texts.txt"
        file.write_text("".join(text + "\n" for text in texts))
        return self.embed("--captions", str(file))


def by_class(scores: np.ndarray, classes: list[str], own: np.ndarray) -> str:
    precision, first_ten = [], []
    for name, row in zip(classes, scores):
        relevant = (own == name)[np.argsort(-row, kind="stable")]
        hits = np.cumsum(relevant)
        precision.append((hits * relevant / np.arange(1, len(own) + 1)).sum() / relevant.sum())
        first_ten.append(relevant[:10].sum() / min(10, relevant.sum()))
    return f"mAP {np.mean(precision):.3f}  P@10 {np.mean(first_ten):.3f}"


def by_caption(scores: np.ndarray, own: list[int]) -> str:
    ranks = np.array([(row > row[clip]).sum() for row, clip in zip(scores, own)])
    gains = np.where(ranks < 10, 1 / (ranks + 1), 0)
    return f"mAP@10 {gains.mean():.3f}  R@1 {(ranks < 1).mean():.3f}  R@10 {(ranks < 10).mean():.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hark")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("--precision", default="f32", help="of the model's weights: f32, bf16 or int8 [default: f32]")
    args = parser.parse_args()
    noise = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as place:
        model = Model(args.hark, args.model, args.precision, pathlib.Path(place))
        rows = [row for row in table(args.data / "esc50" / "esc50.csv") if row["fold"] == "3"]
        clips = model.recordings([args.data / "esc50" / row["filename"] for row in rows])
        own = np.array([row["category"] for row in rows])
        classes = sorted(set(own))
        others = {row["category"]: next(text for key, text in row.items() if key != "category") for row in table(args.data / "esc50" / "paraphrases.csv")}
        for what, queries in (("class names", [name.replace("_", " ") for name in classes]), ("other words", [others[name] for name in classes])):
            print(f"ESC-50 fold 3, {what}: {by_class(model.texts(queries) @ clips.T, classes, own)}")
        print(f"  chance: {by_class(noise.random((len(classes), len(own))), classes, own)}")
        rows = table(args.data / "captioned" / "captions.csv")
        files = sorted({row["file_name"] for row in rows})
        clips = model.recordings([args.data / "captioned" / name for name in files])
        scores = model.texts([row["caption"] for row in rows]) @ clips.T
        own_clips = [files.index(row["file_name"]) for row in rows]
        print(f"{len(files)} captioned recordings, {len(rows)} captions: {by_caption(scores, own_clips)}")
        print(f"  chance: {by_caption(noise.random(scores.shape), own_clips)}")


main()
