#!/usr/bin/env python3
"""Heads-only training on real recordings: ESC-10, captions made from the labels, folds 1 and 2 to train, fold 3 to test.

    cargo build --release
    python3 bench/esc10.py --hark target/release/hark --esc10 FOLDER --model RUN/best

FOLDER holds esc10.csv and the recordings; MODEL is what a soundscape recipe trained. Its towers stay as they are
(recipes/finetune-own.toml), and so do the same towers with random weights, beside it. A query is a caption of a class; all test
clips of the class are relevant. Prints class-level mAP@10 with chance and the seconds that the training took.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

WORDS = {
    "dog": ["a dog barks", "the barking of a dog", "a dog is barking outside"],
    "rooster": ["a rooster crows", "the crowing of a rooster", "a cock crows loudly"],
    "rain": ["rain falls", "the sound of rain pouring down", "heavy rain is falling"],
    "sea_waves": ["waves roll onto a shore", "the sound of sea waves", "ocean waves are breaking"],
    "crackling_fire": ["a fire crackles", "the crackling of a fire", "wood is burning in a fire"],
    "crying_baby": ["a baby cries", "the crying of a baby", "an infant is crying"],
    "sneezing": ["a person sneezes", "somebody sneezing", "a person is sneezing loudly"],
    "clock_tick": ["a clock ticks", "the ticking of a clock", "a clock is ticking steadily"],
    "helicopter": ["a helicopter flies by", "the noise of a helicopter", "a helicopter hovers"],
    "chainsaw": ["a chainsaw runs", "the noise of a chainsaw", "a chainsaw is cutting wood"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", required=True, type=pathlib.Path)
    parser.add_argument("--esc10", required=True, type=pathlib.Path)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--recipe", default="recipes/finetune-own.toml")
    arguments = parser.parse_args()
    with (arguments.esc10 / "esc10.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    test = [row for row in rows if row["fold"] == "3"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for split, folds in (("pairs", "12"), ("pairs-validation", "2")):
            write_pairs(folder / f"{split}.csv", [row for row in rows if row["fold"] in folds], arguments.esc10)
        random_model = randomised(arguments, folder)
        for label, model in (("trained towers", arguments.model), ("random towers", random_model)):
            run = folder / label.replace(" ", "-")
            tables = [("train", "pairs"), ("validation", "pairs-validation")]
            command = [arguments.hark, "train", arguments.recipe, "--run", run, "--set", f"training.init-from={model}",
                       "--set", 'training.reinitialize=["audio.projection","text.projection"]']
            for split, table in tables:
                command += ["--set", f'data.{split}=[{{kind="table",file="{folder / table}.csv"}}]']
            start = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - start
            value, chance = judge(arguments, run / "best", test, folder)
            print(f"{label}: class-level mAP@10 {value:.3f}, chance {chance:.3f}, {value / chance:.1f} times chance; "
                  f"trained in {seconds:.1f} s, features included")


def write_pairs(path: pathlib.Path, rows: list[dict], folder: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption_1", "caption_2"])
        for row in rows:
            words = WORDS[row["category"]]
            # The third wording of each class is kept for the queries.
            table.writerow([(folder / row["file_name"]).resolve(), words[0], words[1]])


def randomised(arguments: argparse.Namespace, folder: pathlib.Path) -> pathlib.Path:
    """The same model with random numbers in its towers: normal, of each tensor's own mean and deviation."""
    source, target = arguments.model, folder / "random-model"
    target.mkdir()
    for name in ("card.json", "tokenizer.json"):
        (target / name).write_bytes((source / name).read_bytes())
    data = (source / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    body = np.frombuffer(data[8 + length:], dtype="<f4").copy()
    generator = np.random.default_rng(1)
    for name, tensor in header.items():
        if name != "__metadata__" and ".tower." in name:
            begin, end = (offset // 4 for offset in tensor["data_offsets"])
            part = body[begin:end]
            body[begin:end] = generator.normal(part.mean(), part.std(), end - begin)
    (target / "model.safetensors").write_bytes(data[:8 + length] + body.tobytes())
    return target


def judge(arguments: argparse.Namespace, model: pathlib.Path, test: list[dict], folder: pathlib.Path) -> tuple[float, float]:
    clips, queries = folder / "clips.npy", folder / "queries.npy"
    files = [str(arguments.esc10 / row["file_name"]) for row in test]
    subprocess.run([arguments.hark, "embed", *files, "--model", model, "-o", clips], check=True, stderr=subprocess.DEVNULL)
    classes = sorted(WORDS)
    texts = [option for name in classes for option in ("--text", WORDS[name][2])]
    subprocess.run([arguments.hark, "embed", *texts, "--model", model, "-o", queries], check=True, stderr=subprocess.DEVNULL)
    scores = np.load(queries) @ np.load(clips).T
    labels = np.array([row["category"] for row in test])
    precisions, chances = [], []
    for name, row in zip(classes, scores):
        relevant = labels[np.argsort(-row, kind="stable")][:10] == name
        count, items = int((labels == name).sum()), len(labels)
        hits = np.cumsum(relevant) / np.arange(1, 11)
        precisions.append(float((hits * relevant).sum() / count))
        ranks = np.arange(1, 11)
        chances.append(float(np.sum((1 + (ranks - 1) * (count - 1) / (items - 1)) / ranks) / items))
    return float(np.mean(precisions)), float(np.mean(chances))


if __name__ == "__main__":
    main()
