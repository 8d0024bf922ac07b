#!/usr/bin/env python3
"""Captions for ESC-10, made from the names of its classes, as the tables that recipes/esc10.toml trains on.

Run, from the root of the repository:

  python3 bench/esc10_captions.py --esc10 FOLDER --out data/esc10

FOLDER holds esc10.csv (file_name, category, fold, source_id) and the recordings, which stay where they are: the tables name
them by their full paths. Written are

  train.csv        three quarters of folds 1 and 2
  validation.csv   the other quarter; takes of one source are on the same side
  test.csv         fold 3

ESC-10 has labels and no captions. Every recording of a class gets all of the class's sentences: the short phrases below, and
frames around them such as "the sound of ...". No sentence says anything of its recording but the class. HELD_OUT has queries
that are in no table, for bench/esc10_search.py: KNOWN in words that training captions of the class have, put together otherwise,
and NEW with words that stand in none of them.
"""

import argparse
import csv
import hashlib
from collections import Counter
from pathlib import Path

# What a class's captions are made of. "things" are phrases that frames may stand around, "sentences" are used as they are.
WORDS = {
    "dog": {
        "things": ["dog", "a dog", "dogs", "barking", "a barking dog", "dog barking", "a dog barking", "dog bark", "barks of a dog",
                   "a puppy yapping", "a puppy", "woofing"],
        "sentences": ["a dog barks", "dogs bark", "the dog is barking at someone", "a dog barks twice and stops", "a big dog woofs",
                      "a small dog yaps and barks", "a puppy barks", "an angry dog keeps barking"],
    },
    "rooster": {
        "things": ["rooster", "a rooster", "crowing", "a crowing rooster", "rooster crowing", "a rooster crowing", "cock crowing",
                   "a cock", "a cock crow", "cockerel", "a cockerel crowing", "cock-a-doodle-doo"],
        "sentences": ["a rooster crows", "roosters crow", "a cock crows in the morning", "the rooster is crowing at dawn",
                      "a cockerel crows on a farm", "a rooster crows loudly and again", "a farm bird crows", "the cock crows once"],
    },
    "rain": {
        "things": ["rain", "the rain", "rainfall", "raining", "rain falling", "heavy rain", "light rain", "pouring rain", "raindrops",
                   "rain on a roof", "a rain shower", "a downpour"],
        "sentences": ["rain falls", "it rains", "it is raining hard", "rain is pouring down", "rain patters on leaves",
                      "raindrops hit the ground", "a steady rain falls on a roof", "rain drips and splashes"],
    },
    "sea_waves": {
        "things": ["sea", "the sea", "waves", "sea waves", "ocean", "ocean waves", "the ocean", "surf", "waves breaking",
                   "waves on a beach", "the surf on a shore", "waves rolling in"],
        "sentences": ["waves break", "waves roll onto a beach", "sea waves wash over the shore", "the sea is rough",
                      "ocean waves crash on rocks", "waves come and go on a beach", "the surf roars", "a wave breaks on the shore"],
    },
    "crackling_fire": {
        "things": ["fire", "a fire", "crackling", "crackling fire", "a crackling fire", "fire crackling", "burning wood", "flames",
                   "a campfire", "a fireplace", "wood burning", "a bonfire"],
        "sentences": ["a fire crackles", "a fire burns", "wood crackles and pops in a fire", "a campfire is crackling",
                      "logs burn in a fireplace", "flames crackle", "a fire is burning and snapping", "twigs burn in a bonfire"],
    },
    "crying_baby": {
        "things": ["baby", "a baby", "crying", "crying baby", "a crying baby", "baby crying", "a baby crying", "an infant",
                   "an infant crying", "a newborn", "a baby wailing", "a child crying"],
        "sentences": ["a baby cries", "babies cry", "the baby is crying loudly", "an infant cries and screams", "a newborn wails",
                      "a baby sobs", "a small child is crying", "a hungry baby cries again and again"],
    },
    "sneezing": {
        "things": ["sneeze", "a sneeze", "sneezing", "a person sneezing", "man sneezing", "woman sneezing", "someone sneezing",
                   "loud sneeze", "sneezes", "a sneezing person", "achoo", "a fit of sneezing"],
        "sentences": ["a person sneezes", "someone sneezes", "a man sneezes loudly", "a woman sneezes twice", "somebody is sneezing",
                      "a man has a cold and sneezes", "a person goes achoo", "someone sneezes into a handkerchief"],
    },
    "clock_tick": {
        "things": ["clock", "a clock", "ticking", "ticking clock", "a ticking clock", "clock ticking", "a clock ticking", "clock tick",
                   "a watch ticking", "ticks of a clock", "tick-tock", "a wall clock"],
        "sentences": ["a clock ticks", "clocks tick", "the clock is ticking on the wall", "a watch ticks", "a clock ticks steadily",
                      "a clock goes tick-tock", "a wall clock ticks each second", "an alarm clock ticks"],
    },
    "helicopter": {
        "things": ["helicopter", "a helicopter", "helicopters", "chopper", "a chopper", "helicopter flying", "a helicopter flying by",
                   "helicopter rotor", "rotor blades", "a helicopter hovering", "a hovering chopper", "a helicopter overhead"],
        "sentences": ["a helicopter flies", "a helicopter flies by", "a helicopter hovers in the air", "the rotor of a helicopter turns",
                      "a chopper flies overhead", "helicopter blades beat the air", "a helicopter takes off", "a helicopter lands"],
    },
    "chainsaw": {
        "things": ["chainsaw", "a chainsaw", "chain saw", "chainsaws", "sawing", "a chainsaw running", "chainsaw cutting wood",
                   "a chainsaw cutting a tree", "saw motor", "a motor saw", "chainsaw engine", "sawing a tree"],
        "sentences": ["a chainsaw runs", "a chainsaw saws wood", "a chainsaw cuts a tree", "someone is sawing with a chainsaw",
                      "a chain saw revs and cuts", "a motor saw cuts through a log", "a chainsaw engine idles",
                      "a worker fells a tree with a chainsaw"],
    },
}

FRAMES = ["the sound of {}", "sound of {}", "a recording of {}", "the noise of {}", "{} in the distance", "{} nearby", "{} outside"]

# Queries that no table has, for measuring.
HELD_OUT = {
    "KNOWN": {
        "dog": ["dog barks", "a woofing puppy", "small dogs barking at someone"],
        "rooster": ["rooster crow", "a cockerel at dawn", "a cock crowing on a farm"],
        "rain": ["rain pouring", "rain shower on leaves", "it is raining on a roof"],
        "sea_waves": ["sea surf", "waves at the ocean", "the sea breaking on rocks"],
        "crackling_fire": ["fireplace crackling", "logs burning", "a wood fire pops"],
        "crying_baby": ["baby cry", "wailing infant", "a newborn is crying"],
        "sneezing": ["man sneezes", "a sneeze of a woman", "somebody with a cold sneezing"],
        "clock_tick": ["clock ticks", "wall clock ticking", "tick of a watch"],
        "helicopter": ["chopper flying", "helicopter blades", "the rotor of a hovering helicopter"],
        "chainsaw": ["chainsaw saws", "cutting wood with a motor saw", "a saw engine revs"],
    },
    "NEW": {
        "dog": ["canine", "a hound howls", "my terrier growls"],
        "rooster": ["poultry", "a chicken calls at sunrise", "barnyard fowl"],
        "rain": ["drizzle", "a wet stormy day", "water dripping from clouds"],
        "sea_waves": ["seaside", "tide at the coast", "water lapping against a pier"],
        "crackling_fire": ["hearth", "a blaze with sparks", "a lit stove"],
        "crying_baby": ["toddler weeping", "an upset kid", "bawling"],
        "sneezing": ["atchoo", "hay fever", "a nose tickled by pepper"],
        "clock_tick": ["timepiece", "a pendulum swings", "seconds going by on a metronome"],
        "helicopter": ["aircraft", "rotorcraft whirring", "a flight of a military aeroplane"],
        "chainsaw": ["lumberjack", "logging machinery in a forest", "power tool"],
    },
}

# Captions of a class, and parts of the training recordings of which one is for validation.
CAPTIONS = 40
PARTS = 4


def captions(name):
    """The training captions of a class, each once."""
    words = WORDS[name]
    framed = [frame.format(thing) for thing in words["things"] for frame in FRAMES if fits(frame, thing)]
    return list(dict.fromkeys(words["things"] + words["sentences"] + framed))[:CAPTIONS]


def fits(frame, thing):
    """A third of the frames for each phrase: which, its name decides, so that every frame meets some phrases of each class."""
    return digest(frame + thing) % 3 == 0


def digest(text):
    """A number that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def read(folder):
    """The rows of esc10.csv."""
    with (folder / "esc10.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parts(rows):
    """For each row, which of PARTS it is in: all takes of a source in one, the takes of a class spread evenly."""
    sizes = Counter((row["category"], row["source_id"]) for row in rows)
    filled, place = Counter(), {}
    # The largest sources first, so that small ones even out.
    for name, source in sorted(sizes, key=lambda key: (-sizes[key], digest("/".join(key)))):
        part = min(range(PARTS), key=lambda part: (filled[name, part], digest(f"{name}/{source}/{part}")))
        filled[name, part] += sizes[name, source]
        place[name, source] = part
    return [place[row["category"], row["source_id"]] for row in rows]


def split(rows, validation_part=0):
    """The rows of the three tables, by name."""
    learned = [row for row in rows if row["fold"] in ("1", "2")]
    placed = list(zip(learned, parts(learned)))
    return {
        "train": [row for row, part in placed if part != validation_part],
        "validation": [row for row, part in placed if part == validation_part],
        "test": [row for row in rows if row["fold"] == "3"],
    }


def write(path, rows, folder):
    """One table: a recording's path and the captions of its class."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", *(f"caption_{nth}" for nth in range(1, CAPTIONS + 1))])
        for row in rows:
            table.writerow([(folder / row["file_name"]).resolve(), *captions(row["category"])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--esc10", type=Path, required=True, metavar="FOLDER", help="esc10.csv and the recordings")
    parser.add_argument("--out", type=Path, default=Path("data/esc10"), help="where the tables go (default data/esc10)")
    parser.add_argument("--part", type=int, default=0, choices=range(PARTS), help="which quarter is for validation (default 0)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, rows in split(read(arguments.esc10), arguments.part).items():
        write(arguments.out / f"{name}.csv", rows, arguments.esc10)
        print(f"{arguments.out / name}.csv: {len(rows)} recordings of {len({row['source_id'] for row in rows})} sources")


if __name__ == "__main__":
    main()
