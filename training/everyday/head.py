"""Trains a projection head beside the bridge, with words of file names as weak captions.

    python head.py MELS STUDENT.safetensors VECTORS.npy HARK OUT [--data DATA]

MELS         folder written by mels.py
VECTORS.npy  a sentence embedding of each class name, as for distil.py
HARK         the program, whose sentence encoder caption-static embeds the weak captions
OUT          gets head.safetensors, captions.txt, captions.npy and features.pt (reused by the next run)
--data       folder with esc50/ and captioned/ as for bench/real_sounds.py: prints results without and with the head

The head is a perceptron 432-512-256 on the student's pooled feature. For each clip of a batch, the captions of all
clips are graded by their similarity to its own; a listwise loss makes the softmax of the scores follow these grades, in
both directions. A clip's embedding is the normalised bridge embedding plus SHARE times the head's. Spoken prompts and
songs are left out: their file names say what is spoken, not what is heard.
"""
import argparse
import csv
import os
import re
import subprocess
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from distil import FLOOR, HELD_OUT
from network import BANDS, STUDENT, FrontEnd, load_student, read

SHARE = 0.6
GRADES = 0.07  # temperature of the similarity between captions
SCORES = 0.07  # temperature of the head's scores
FRAMES = 500
STEPS = 1200
BATCH = 512
SPOKEN = re.compile(r"asterisk-|fillets-ng|ktuberling|espeak|synthetic|esc50|spoken-digit|AudioMNIST|Precise|"
                    r"fretsonfire|-music|moh-opsound|/music/|/voices?/|/speech/|_desc|singularity", re.I)
EMPTY_WORDS = set("""sound sounds sfx audio data effect effects loop loops mono stereo left right default misc ogg wav
mp3 flac usr share games game the and new old alt short long low high med test final version part base main common other
self unit units ambient ambience ambiance soundtrack theme resources assets media core mods mod var take src res samples
lossless sources object""".split())


def words(text):
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)
    return [part.lower() for part in parts if len(part) > 2 and part.lower() not in EMPTY_WORDS]


def weak_caption(path):
    """Words of a file's folder and name, in this order, each once; empty if the name says nothing."""
    folder, name = os.path.split(path)
    own = words(os.path.splitext(name)[0])
    return " ".join(dict.fromkeys(words(os.path.basename(folder)) + own)) if own else ""


def embed(hark, texts, out):
    source, target = os.path.join(out, "captions.txt"), os.path.join(out, "captions.npy")
    with open(source, "w") as f:
        f.write("".join(text + "\n" for text in texts))
    subprocess.run([hark, "embed", "--captions", source, "--format", "text", "--no-cache", "--model", "caption-static",
                    "-o", target], check=True, capture_output=True)
    return F.normalize(torch.from_numpy(np.load(target).astype(np.float32)), dim=1)


@torch.no_grad()
def encode(student, mels):
    """Probabilities and pooled feature of log-mels (bands, frames): means over parts of 5 s."""
    parts = mels[:, :max(FRAMES, mels.shape[1] // FRAMES * FRAMES)].split(FRAMES, 1)
    full = torch.stack([F.pad(part, (0, FRAMES - part.shape[1]), value=FLOOR) for part in parts])
    logits, feature, _ = student(full[:, None])
    return torch.sigmoid(logits).mean(0), feature.mean(0)


def pool_features(folder, student, out):
    """Weak caption, feature and whether it is held out for each segment with a caption."""
    kept = os.path.join(out, "features.pt")
    if os.path.exists(kept):
        return torch.load(kept, weights_only=True)
    path = os.path.join(folder, "mels.f16")
    data = np.memmap(path, dtype=np.float16, mode="r", shape=(os.path.getsize(path) // (2 * BANDS), BANDS))
    captions, features, held_out = [], [], []
    with open(os.path.join(folder, "index.csv"), newline="") as f:
        for row in csv.DictReader(f):
            caption = weak_caption(row["path"])
            if not caption or SPOKEN.search(row["source"] + "/" + row["path"]):
                continue
            start, frames = int(row["start"]), int(row["frames"])
            mels = torch.from_numpy(data[start:start + frames].astype(np.float32)).T
            captions.append(caption)
            features.append(encode(student, mels)[1])
            held_out.append(zlib.crc32(row["path"].encode()) % HELD_OUT == 0)
    found = captions, torch.stack(features), torch.tensor(held_out)
    torch.save(found, kept)
    return found


def listwise(vectors, captions):
    """Cross-entropy between grades and scores, over the captions of a clip and over the clips of a caption."""
    grades = F.softmax(captions @ captions.T / GRADES, 1)
    scores = vectors @ captions.T / SCORES
    return sum(-(grades * F.log_softmax(s, 1)).sum(1).mean() / 2 for s in (scores, scores.T))


class Head(nn.Module):
    def __init__(self, mean, std, dimension):
        super().__init__()
        self.mean, self.std = nn.Parameter(mean, requires_grad=False), nn.Parameter(std, requires_grad=False)
        self.layers = nn.Sequential(
            nn.Linear(STUDENT["last"], 512), nn.Hardswish(), nn.Dropout(0.3), nn.Linear(512, dimension))

    def forward(self, feature):
        return F.normalize(self.layers((feature - self.mean) / self.std), dim=1)


def train(features, vectors, held_out):
    torch.manual_seed(1)
    head = Head(features.mean(0), features.std(0) + 1e-3, vectors.shape[1])
    optimiser = torch.optim.AdamW(head.parameters(), lr=2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, STEPS, pct_start=0.05)
    trained = torch.nonzero(~held_out)[:, 0]
    for step in range(1, STEPS + 1):
        chosen = trained[torch.randint(len(trained), (BATCH,))]
        noisy = features[chosen] + 0.1 * head.std * torch.randn(BATCH, features.shape[1])
        loss = listwise(head(noisy), vectors[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            head.eval()
            with torch.no_grad():
                own = listwise(head(features[held_out]), vectors[held_out]).item()
            head.train()
            print(f"{step}/{STEPS}: loss {loss.item():.3f}, held out {own:.3f}", flush=True)
    return head.eval()


def by_class(scores, classes, own):
    precisions = []
    for name, row in zip(classes, scores):
        relevant = (own == name)[np.argsort(-row, kind="stable")]
        precisions.append((np.cumsum(relevant) * relevant / np.arange(1, len(own) + 1)).sum() / relevant.sum())
    return f"mAP {np.mean(precisions):.3f}"


def by_caption(scores, own):
    ranks = np.array([(row > row[clip]).sum() for row, clip in zip(scores, own)])
    gains = np.where(ranks < 10, 1 / (ranks + 1), 0)
    return f"mAP@10 {gains.mean():.3f}  R@1 {(ranks < 1).mean():.3f}  R@10 {(ranks < 10).mean():.3f}"


def table(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def evaluate(data, hark, out, student, labels, head):
    front = FrontEnd()

    def clips(paths):
        found = [encode(student, front(read(path))) for path in paths]
        bridge = F.normalize(torch.stack([probabilities for probabilities, _ in found]) @ labels, dim=1)
        with torch.no_grad():
            added = head(torch.stack([feature for _, feature in found]))
        return {"bridge": bridge.numpy(), f"bridge + {SHARE} head": F.normalize(bridge + SHARE * added, dim=1).numpy()}

    folder = os.path.join(data, "esc50")
    rows = [row for row in table(os.path.join(folder, "esc50.csv")) if row["fold"] == "3"]
    own = np.array([row["category"] for row in rows])
    classes = sorted(set(own))
    other_words = {row["category"]: row["query"] for row in table(os.path.join(folder, "paraphrases.csv"))}
    names = embed(hark, [name.replace("_", " ") for name in classes], out).numpy()
    others = embed(hark, [other_words[name] for name in classes], out).numpy()
    for kind, vectors in clips([os.path.join(folder, row["filename"]) for row in rows]).items():
        print(f"{kind}: ESC-50 fold 3, class names: {by_class(names @ vectors.T, classes, own)}")
        print(f"{kind}: ESC-50 fold 3, other words: {by_class(others @ vectors.T, classes, own)}")
    folder = os.path.join(data, "captioned")
    rows = table(os.path.join(folder, "captions.csv"))
    files = sorted({row["file_name"] for row in rows})
    captions = embed(hark, [row["caption"].replace("\n", " ") for row in rows], out).numpy()
    for kind, vectors in clips([os.path.join(folder, name) for name in files]).items():
        print(f"{kind}: captioned: {by_caption(captions @ vectors.T, [files.index(row['file_name']) for row in rows])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mels")
    parser.add_argument("student")
    parser.add_argument("vectors")
    parser.add_argument("hark")
    parser.add_argument("out")
    parser.add_argument("--data")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.set_num_threads(1)
    student = load_student(args.student)
    captions, features, held_out = pool_features(args.mels, student, args.out)
    unique = sorted(set(captions))
    print(f"{len(captions)} segments with {len(unique)} weak captions, {int(held_out.sum())} held out", flush=True)
    vectors = embed(args.hark, unique, args.out)
    place = {caption: i for i, caption in enumerate(unique)}
    head = train(features, vectors[[place[caption] for caption in captions]], held_out)
    save_file(head.state_dict(), os.path.join(args.out, "head.safetensors"))
    if args.data:
        labels = F.normalize(torch.from_numpy(np.load(args.vectors).astype(np.float32)), dim=1)
        evaluate(args.data, args.hark, args.out, student, labels, head)


if __name__ == "__main__":
    main()
