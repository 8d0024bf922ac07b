#!/usr/bin/env python3
"""Trains soundscape-quick with every objective, and once with captions shuffled against clips, and prints how far above chance
each is on test clips whose scenes were not trained on.

    cargo build --release
    python3 bench/objectives.py --hark target/release/hark [--jobs 2] [--set KEY=VALUE]...

Every objective must reach ten times chance in mAP@10 in both directions; with shuffled captions there is nothing to learn, and
it must stay below twice chance. The exit code says whether that holds.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

OBJECTIVES = ["infonce", "listnet-audio", "listnet-text", "listnet-both", "infonce-audio", "infonce-text", "smooth"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", required=True, type=pathlib.Path)
    parser.add_argument("--recipe", default="recipes/soundscape-quick.toml")
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    runs = [(name, [f"objective.name={name}"]) for name in OBJECTIVES]
    runs += [("infonce, shuffled", ["objective.name=infonce", "data.shuffle-captions=true"]),
             ("listnet-audio, shuffled", ["objective.name=listnet-audio", "data.shuffle-captions=true"])]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        # The soundscapes once, before the trainings meet over them.
        train(arguments, "warm", ["training.epochs=1"], folder)
        results = list(pool.map(lambda run: train(arguments, *run, folder), runs))
    print("| objective | text to audio mAP@10 | times chance | audio to text mAP@10 | times chance | seconds |")
    print("|---|---|---|---|---|---|")
    fine = True
    for (name, _), (result, seconds) in zip(runs, results):
        test = result["test"]
        row, ratios = [name], []
        for direction in ("text_to_audio", "audio_to_text"):
            value, chance = test[direction]["map_10"], test["chance"][direction]["map_10"]
            ratios.append(value / chance)
            row += [f"{100 * value:.1f}", f"{value / chance:.1f}"]
        print("| " + " | ".join(row + [f"{seconds:.0f}"]) + " |")
        fine &= max(ratios) < 2 if "shuffled" in name else min(ratios) >= 10
    print("holds" if fine else "does not hold")
    return 0 if fine else 1


def train(arguments: argparse.Namespace, name: str, changes: list[str], folder: str) -> tuple[dict, float]:
    run = pathlib.Path(folder) / name.replace(", ", "-")
    command = [arguments.hark, "train", arguments.recipe, "--run", run, "--json", "--threads", "1", "--workers", "1"]
    for change in arguments.set + changes:
        command += ["--set", change]
    start = time.monotonic()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout), time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
