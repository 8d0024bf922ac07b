#!/usr/bin/env python3
"""How well words find real recordings: ESC-10, a model trained on folds 1 and 2, queries for the 80 recordings of fold 3.

Run, from the root of the repository:

  python3 bench/esc10_captions.py --esc10 FOLDER --out data/esc10
  python3 bench/esc10_search.py --hark target/release/hark --esc10 FOLDER --seeds 3

trains recipes/esc10.toml with the seeds 1, 2 and 3 and scores each model; --model DIR scores one that is there. Queries are of four
kinds: `name`, the class's bare name; `trained`, all captions that training saw; `known`, held-out wordings in words of the
training captions; `new`, held-out ones in words that no training caption has. All recordings of the query's class are relevant.
Printed are the means over classes of precision@10, of R-precision (the precision among the first 8, as 8 are relevant) and
of mAP over the whole ranking; precision@10 cannot be above 0.8. Chance is computed, not drawn. Needs numpy.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import esc10_captions as esc10
import numpy as np

NAMES = {"sea_waves": "sea waves", "crackling_fire": "crackling fire", "crying_baby": "crying baby", "clock_tick": "clock tick"}
MEASURES = ("precision@10", "R-precision", "mAP")


def queries():
    """Queries by kind and class."""
    kinds = {
        "name": {name: [NAMES.get(name, name)] for name in esc10.WORDS},
        "trained": {name: esc10.captions(name) for name in esc10.WORDS},
        "known": esc10.HELD_OUT["KNOWN"],
        "new": esc10.HELD_OUT["NEW"],
    }
    seen = {caption for captions in kinds["trained"].values() for caption in captions}
    for kind in ("known", "new"):
        repeated = seen.intersection(query for each in kinds[kind].values() for query in each)
        if repeated:
            raise SystemExit(f"{kind} queries that training saw: {repeated}")
    return kinds


def embed(hark, model, folder, recordings, texts):
    """Vectors of recordings and of texts."""
    clips, words, file = folder / "clips.npy", folder / "words.npy", folder / "queries.txt"
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for arguments in ([*recordings, "-o", clips], ["--captions", file, "--format", "text", "-o", words]):
        subprocess.run([hark, "embed", "--model", model, "--no-cache", *arguments], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return np.load(clips), np.load(words)


def measures(relevant):
    """The three measures of one ranking, a row of truths with the best first."""
    count = int(relevant.sum())
    precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return relevant[:10].mean(), relevant[:count].mean(), (precisions * relevant).sum() / count


def chance(items, count):
    """What random rankings have on average."""
    ranks = np.arange(1, items + 1)
    precision = np.sum((1 + (ranks - 1) * (count - 1) / (items - 1)) / ranks) / items
    return count / items, count / items, float(precision)


def score(hark, model, folder, rows):
    """Measures by kind of query, and those of single classes over the kinds `name` and `known`."""
    kinds = queries()
    asked = [(kind, name, text) for kind, each in kinds.items() for name, texts in each.items() for text in texts]
    with tempfile.TemporaryDirectory() as work:
        clips, words = embed(hark, model, Path(work), [folder / row["file_name"] for row in rows], [text for *_, text in asked])
    if (len(clips), len(words)) != (len(rows), len(asked)):
        raise SystemExit("some recordings or queries have no vector")
    labels = np.array([row["category"] for row in rows])
    orders = np.argsort(-(words @ clips.T), axis=1, kind="stable")
    found = [measures((labels[order] == name).astype(float)) for (_, name, _), order in zip(asked, orders)]
    by_kind = {kind: np.mean([mean(asked, found, [kind], name) for name in esc10.WORDS], axis=0) for kind in kinds}
    by_class = {name: mean(asked, found, ["name", "known"], name) for name in esc10.WORDS}
    return by_kind, by_class


def mean(asked, found, kinds, name):
    """The mean over the queries for a class that are of one of these kinds."""
    return np.mean([values for (kind, of, _), values in zip(asked, found) if kind in kinds and of == name], axis=0)


def train(arguments, seed):
    """Trains with a seed and says where the model is."""
    run = arguments.runs / f"esc10-{seed}"
    command = [arguments.hark, "train", arguments.recipe, "--run", run, "--set", f"seed={seed}"]
    command += [part for change in arguments.set for part in ("--set", change)]
    if not (run / "best").is_dir():
        subprocess.run([*command, "--threads", str(arguments.threads)], check=True, stdout=subprocess.DEVNULL)
    return run / "best"


def show(title, rows):
    """A table; a value is a mean with the deviation over models beside it, where there are several."""
    print(f"\n| {title} | " + " | ".join(MEASURES) + " |\n|---|" + "---|" * len(MEASURES))
    for name, values in rows:
        values = np.atleast_2d(values)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else None
        cells = [f"{mean:.3f}" + ("" if spread is None else f" ± {spread[nth]:.3f}") for nth, mean in enumerate(values.mean(axis=0))]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", type=Path, required=True, metavar="BINARY")
    parser.add_argument("--esc10", type=Path, required=True, metavar="FOLDER", help="esc10.csv and the recordings")
    parser.add_argument("--model", type=Path, action="append", default=[], metavar="DIR", help="score this instead of training")
    parser.add_argument("--recipe", type=Path, default=Path("recipes/esc10.toml"))
    parser.add_argument("--seeds", type=int, default=3, help="trainings (default 3)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change of the recipe, as hark train takes it")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the trainings go (default runs)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--split", default="test", choices=["test", "validation"], help="what is searched (default test)")
    parser.add_argument("--part", type=int, default=0, help="with --split validation: the quarter that the tables were made with")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = esc10.split(esc10.read(arguments.esc10), arguments.part)[arguments.split]
    models = arguments.model or [train(arguments, seed) for seed in range(1, arguments.seeds + 1)]
    scores = [score(arguments.hark, model, arguments.esc10, rows) for model in models]
    counts = [sum(row["category"] == name for row in rows) for name in esc10.WORDS]
    chances = np.mean([chance(len(rows), count) for count in counts], axis=0)
    if arguments.json:
        print(json.dumps([{kind: dict(zip(MEASURES, map(float, values))) for kind, values in one.items()} for one, _ in scores]))
        return
    print(f"{len(rows)} recordings, {len(models)} models")
    show("queries", [*((kind, [one[kind] for one, _ in scores]) for kind in scores[0][0]), ("chance", chances)])
    show("class (name and known)", [(name, [one[name] for _, one in scores]) for name in esc10.WORDS])


if __name__ == "__main__":
    main()
