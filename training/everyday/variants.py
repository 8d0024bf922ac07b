"""Ways to make vectors of class probabilities: what helps retrieval, and what does not.

    python variants.py TEACHER.pt DATA HARK

DATA has models/audioset_labels.csv, esc50/ and captioned/ as bench/real_sounds.py wants them; HARK is the program, whose
built-in sentence encoder embeds names and queries. Prints mAP by class names and by other words on ESC-50's folds 1 and 2,
by which a way is chosen, and on fold 3, and mAP@10 on captioned recordings.
"""
import argparse
import csv
import pathlib
import subprocess
import tempfile

import numpy as np
import torch

from network import FrontEnd, class_names, load_teacher, read

SEGMENT = 500  # frames


def table(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def embed(hark, texts):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "texts.txt"), pathlib.Path(folder, "vectors.npy")
        source.write_text("".join(text + "\n" for text in texts))
        subprocess.run([hark, "embed", "--captions", source, "--format", "text", "--no-cache", "--model", "caption-static",
                        "-o", target], check=True, capture_output=True)
        return np.load(target)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


class Recordings:
    """Class probabilities of recordings: the mean over segments of 5 s, by their length."""

    def __init__(self, teacher):
        self.net, self.front_end = load_teacher(teacher), FrontEnd()

    @torch.no_grad()
    def probabilities(self, path):
        mel = self.front_end(read(path))
        segments = [mel[:, at:at + SEGMENT] for at in range(0, max(1, mel.shape[1] - SEGMENT // 10), SEGMENT)]
        found = np.stack([torch.sigmoid(self.net(segment[None, None])[0])[0].numpy() for segment in segments])
        return np.average(found, axis=0, weights=[segment.shape[1] for segment in segments])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("hark")
    args = parser.parse_args()
    recordings = Recordings(args.teacher)
    rows = [row for row in table(args.data / "esc50/esc50.csv") if (args.data / "esc50" / row["filename"]).exists()]
    clips = np.stack([recordings.probabilities(args.data / "esc50" / row["filename"]) for row in rows])
    own = np.array([row["category"] for row in rows])
    dev, test = (np.isin([row["fold"] for row in rows], folds) for folds in (["1", "2"], ["3"]))
    captions = table(args.data / "captioned/captions.csv")
    files = sorted({row["file_name"] for row in captions})
    captioned = np.stack([recordings.probabilities(args.data / "captioned" / name) for name in files])
    relevant = np.array([files.index(row["file_name"]) for row in captions])
    categories = sorted(set(own))
    other_words = {row["category"]: row["query"] for row in table(args.data / "esc50/paraphrases.csv")}
    queries = [embed(args.hark, [name.replace("_", " ") for name in categories]),
               embed(args.hark, [other_words[name] for name in categories])]
    questions = embed(args.hark, [row["caption"] for row in captions])
    names = class_names(args.data / "models/audioset_labels.csv")
    plain = embed(args.hark, names)

    def mean_precision(vectors, texts, classes):
        found = []
        for name, text in zip(categories, texts):
            ranks = np.flatnonzero((classes == name)[np.argsort(-(vectors @ text), kind="stable")]) + 1
            if len(ranks):
                found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        return np.mean(found)

    def show(what, matrix=plain, weigh=lambda p: p, centre=0.0):
        figures = []
        for chosen in (dev, test):
            vectors = unit(weigh(clips[chosen]) @ matrix)
            figures += [mean_precision(vectors, texts - centre, own[chosen]) for texts in queries]
        scores = unit(questions - centre) @ unit(weigh(captioned) @ matrix).T
        rank = (scores > scores[np.arange(len(scores)), relevant][:, None]).sum(1)
        figures.append(np.mean(np.where(rank < 10, 1 / (rank + 1), 0)))
        print(f"| {what} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |")

    def phrased(*templates):
        return unit(sum(embed(args.hark, [template.format(name.lower()) for name in names]) for template in templates))

    parts = [[part.strip() for part in name.split(",")] for name in names]
    ends = np.cumsum([len(some) for some in parts])
    vectors = embed(args.hark, [part for some in parts for part in some])
    of_parts = unit(np.stack([vectors[end - len(some):end].mean(0) for some, end in zip(parts, ends)]))
    prior, mean = clips[dev].mean(0), plain.mean(0)
    near = (unit(plain) @ unit(plain).T > 0.6).sum(1)
    print("| vectors | folds 1-2: names | other words | fold 3: names | other words | captioned |\n|---|--:|--:|--:|--:|--:|")
    show("names of classes")
    show("`the sound of {}`", phrased("the sound of {}"))
    show("mean of `{}`, `the sound of {}`, `{} can be heard`", phrased("{}", "the sound of {}", "{} can be heard"))
    show("mean of the parts of a name", of_parts)
    show("mean of name and parts", unit(of_parts + plain))
    for share in (0.5, 1.0):
        show(f"centred, {share:g} of the mean", plain - share * mean, centre=share * mean)
    for power in (0.5, 0.85, 1.2):
        show(f"p^{power:g}", weigh=lambda p, power=power: p ** power)
    for power in (0.1, 0.3, 0.5):
        show(f"p / prior^{power:g}", weigh=lambda p, power=power: p / (prior + 1e-3) ** power)
    for count in (5, 20):
        show(f"the {count} strongest", weigh=lambda p, count=count: np.where(p >= np.sort(p, 1)[:, [-count]], p, 0))
    show("p / sqrt(classes of similar names)", weigh=lambda p: p / np.sqrt(near))


if __name__ == "__main__":
    main()
