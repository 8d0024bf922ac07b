#!/usr/bin/env python3
"""Expected learning rates of the training schedule.

Writes crates/learn/tests/golden/schedule.json: 200 points of

  e  = epoch + b / steps_per_epoch, with epoch from 0 and b, the step within the epoch, from 1
  lr = peak e / warm_up                                                           for e < warm_up
       floor + (peak - floor) (1 + cos(pi (e - warm_up) / (end - warm_up))) / 2   for warm_up <= e < end
       floor                                                                      from there on

in Python's floats. `step` counts all steps from 0, so epoch = step // steps_per_epoch and
b = step % steps_per_epoch + 1. The paper's schedule is the one called "paper". Only around the two joints does it
matter on which side a rounded e falls: there e is whole, or computed from the same quotient.

Run, from the root of the repository:

  python golden/schedule.py
"""

import argparse
import json
import math
import platform
import random
from pathlib import Path

OUT = Path(__file__).parent.parent / "crates/learn/tests/golden/schedule.json"
POINTS = 20

# Name, settings, and the numbers of steps in an epoch: 20 points of each.
SCHEDULES = [
    ("paper", {"peak": 2e-5, "floor": 1e-7, "warm_up": 1.0, "end": 20.0}, [1, 4, 599, 1427, 12537]),
    ("the twenty steps of training.py", {"peak": 1e-3, "floor": 1e-5, "warm_up": 1.0, "end": 4.0}, [4]),
    ("no warm-up", {"peak": 3e-4, "floor": 0.0, "warm_up": 0.0, "end": 10.0}, [37]),
    ("half an epoch of warm-up", {"peak": 1e-4, "floor": 1e-6, "warm_up": 0.5, "end": 7.5}, [10]),
    ("no way down", {"peak": 5e-5, "floor": 5e-5, "warm_up": 2.0, "end": 2.0}, [25]),
    ("five epochs of warm-up", {"peak": 2e-5, "floor": 1e-7, "warm_up": 5.0, "end": 25.0}, [600]),
]


def rate(step, steps_per_epoch, peak, floor, warm_up, end):
    e = step // steps_per_epoch + (step % steps_per_epoch + 1) / steps_per_epoch
    if e < warm_up:
        return peak * e / warm_up
    if e < end:
        return floor + (peak - floor) * (1.0 + math.cos(math.pi * (e - warm_up) / (end - warm_up))) / 2.0
    return floor


def steps_of(generator, steps_per_epoch, warm_up, end):
    """The first step, those around both joints, one long after the end, and others at random."""
    joints = [round(epoch * steps_per_epoch) for epoch in (warm_up, end)]
    chosen = {0, *(joint + near for joint in joints for near in (-2, -1, 0, 1)), joints[1] * 3 + 5}
    chosen = {step for step in chosen if step >= 0}
    last = max(round((end + 5) * steps_per_epoch), POINTS * 2)
    while len(chosen) < POINTS:
        chosen.add(generator.randrange(last))
    return sorted(chosen)


def schedules(seed):
    generator = random.Random(seed)
    for name, settings, lengths in SCHEDULES:
        points = []
        for steps_per_epoch in lengths:
            for step in steps_of(generator, steps_per_epoch, settings["warm_up"], settings["end"]):
                points.append({"step": step, "steps_per_epoch": steps_per_epoch,
                               "rate": rate(step, steps_per_epoch, **settings)})
        rates = [point["rate"] for point in points]
        print(f"{name}: {len(points)} points, rates from {min(rates):.3g} to {max(rates):.3g}")
        yield {"name": name, **settings, "points": points}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the file to write")
    parser.add_argument("--seed", type=int, default=31, help="seed of the points")
    arguments = parser.parse_args()
    found = list(schedules(arguments.seed))
    assert sum(len(each["points"]) for each in found) == 200
    head = {"made_by": "golden/schedule.py", "versions": {"python": platform.python_version()}, "seed": arguments.seed}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(head | {"schedules": found}, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
