"""Trains the tagger of the model `everyday` to follow a teacher on unlabelled recordings.

    python distil.py MELS TEACHER.pt VECTORS.npy OUT [--steps 4000] [--processes 2] [--without SOURCE ...] [--seed 1]

MELS         folder written by mels.py
TEACHER.pt   EfficientAT's mn04_as_mAP_432.pt
VECTORS.npy  a sentence embedding of each class name (README.md has the command)
OUT          gets student.safetensors, checkpoint.pt and log.txt. After an interruption, run the same command again:
             it resumes from the last checkpoint

The student starts from random weights and has its own layer widths (network.STUDENT). Its feature maps are compared
with the teacher's through learned 1x1 adapters, which are discarded after training. After each block, one adapter maps
the student's feature map to the teacher's (the hint loss); a second one maps the teacher's to the student's. The output
of the second replaces the student's own map as input of the next block with a probability that falls from 1 to 0 at
45 % of the steps (teacher forcing), so that deep blocks learn from the start. The stem and the last convolution are not
compared. The other losses are the cross-entropy with the teacher's probabilities, the error of its pooled feature
through a linear adapter, and the angle between the bridge embeddings of student and teacher.

Crops are 2.56 s long, and 5 s in the last fifth of the steps. There batch norm is frozen: batches have half as many
sounds, too few to estimate statistics, and the network is trained as it will be used. Each batch is split among
processes of one thread that average their gradients; on two cores this is faster than one process with two threads.
"""
import argparse
import csv
import math
import os
import time
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import distributed, nn

from network import BANDS, BLOCKS, STUDENT, TEACHER, Tagger, load_teacher

FLOOR = (math.log(1e-5) + 4.5) / 5
HELD_OUT = 50  # every 50th file is not trained on
# Sources of long recordings get more weight than short effects, telephone prompts less.
FACTORS = {"rafaelmardojai+blanket": 3, "thomasrosen+berlin_noise": 3,
           "luizhenrique07+relaxing-sounds": 2, "AntumMT+mod-sounds": 2, "RedundantC+wis_part1": 2,
           "Fris0uman+CDDA-Soundpacks": 2, "OpenRCT2+OpenSoundEffects": 2, "OpenTTD+OpenSFX": 2,
           "flightgear-data-base": 2, "tuxpaint-stamps-default": 2, "DeltaV-Station+Delta-v": 1.5,
           "PolarisSS13+Polaris": 1.5, "arianne+stendhal": 1.5, "VoxeLibre+VoxeLibre": 1.5, "runsy+petz": 1.5,
           "0ad-data": 1.5, "gveres+donateacry-corpus": 1.5, "espeak": 1.5, "asterisk-": 0.4}
ESC50_SHARE = 0.22
LONG_CROPS = 0.8  # share of the steps after which crops are long and batch norm keeps its statistics


class Sounds(torch.utils.data.IterableDataset):
    """Random log-mels, augmented in the domain of mel power; batches of the sizes that `plan` asks for."""

    def __init__(self, folder, without, seed, plan):
        path = os.path.join(folder, "mels.f16")
        self.data = np.memmap(path, dtype=np.float16, mode="r", shape=(os.path.getsize(path) // (2 * BANDS), BANDS))
        self.plan, self.rng = plan, np.random.RandomState(seed)
        groups, self.held_out = {}, []
        with open(os.path.join(folder, "index.csv"), newline="") as f:
            for row in csv.DictReader(f):
                if row["source"] in without:
                    continue
                segment = (int(row["start"]), int(row["frames"]))
                if zlib.crc32(row["path"].encode()) % HELD_OUT == 0:
                    self.held_out.append(segment)
                else:
                    groups.setdefault(row["source"], []).append(segment)
        weights = {name: len(of) ** 0.7 * next((f for s, f in FACTORS.items() if name.startswith(s)), 1.0)
                   for name, of in groups.items()}
        if "esc50" in weights:
            others = sum(weights.values()) - weights["esc50"]
            weights["esc50"] = others * ESC50_SHARE / (1 - ESC50_SHARE)
        self.groups = list(groups.values())
        self.shares = np.array([weights[name] for name in groups])
        self.cumulated = np.cumsum(self.shares / self.shares.sum())
        self.count = sum(len(group) for group in self.groups)

    def power(self, frames):
        """One sound as mel power: cut or repeated to `frames`, played faster or slower, shifted in frequency."""
        rng = self.rng
        group = self.groups[min(np.searchsorted(self.cumulated, rng.rand()), len(self.groups) - 1)]
        start, length = group[rng.randint(len(group))]
        speed = math.exp(rng.uniform(math.log(0.75), math.log(1.33))) if rng.rand() < 0.5 else 1.0
        need = math.ceil(frames * speed)
        if length > need:
            at = start + rng.randint(length - need + 1)
            x = self.data[at:at + need].astype(np.float32)
        else:
            sound = self.data[start:start + length].astype(np.float32)
            x = np.full((need, BANDS), FLOOR, np.float32)
            at = rng.randint(0, need - length + 1) if rng.rand() < 0.5 else 0
            gap = rng.randint(0, 120)
            repeated = rng.rand() < 0.6
            while at < need:
                n = min(length, need - at)
                x[at:at + n] = sound[:n]
                at += length + gap
                if not repeated:
                    break
        if speed != 1.0:
            position = np.minimum(np.arange(frames) * speed, need - 1.001)
            low = position.astype(int)
            share = (position - low)[:, None].astype(np.float32)
            x = x[low] * (1 - share) + x[np.minimum(low + 1, need - 1)] * share
        shift = rng.randint(-8, 9) if rng.rand() < 0.35 else 0
        if shift:
            x = np.roll(x, shift, 1)
            x[:, slice(0, shift) if shift > 0 else slice(shift, None)] = FLOOR
        return np.maximum(np.exp(5 * x - 4.5) - 1e-5, 0)

    def example(self, frames):
        """One to four sounds at several levels, with another gain, another tone and sometimes noise."""
        rng = self.rng
        total = self.power(frames)
        for _ in range(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])):
            other = self.power(frames)
            level = 10 ** (rng.uniform(-15, 10) / 10) * (total.mean() + 1e-9) / (other.mean() + 1e-9)
            if rng.rand() < 0.3:
                other[:rng.randint(frames)] = 0
            total = total + other * level
        bands = np.arange(BANDS)
        decibels = np.zeros(BANDS)
        if rng.rand() < 0.7:
            decibels += rng.uniform(-20, 10)
        if rng.rand() < 0.3:
            decibels += np.interp(bands, np.linspace(0, BANDS - 1, 6), rng.uniform(-9, 9, 6))
        if rng.rand() < 0.05:
            decibels -= np.maximum(0, bands - rng.randint(50, 120)) * rng.uniform(1, 4)
        total = total * (10 ** (decibels / 10)).astype(np.float32)
        if rng.rand() < 0.12:
            tone = 10 ** (np.interp(bands, [0, BANDS - 1], rng.uniform(-10, 10, 2)) / 10)
            level = 10 ** (rng.uniform(-40, -5) / 10) * (total.mean() + 1e-6)
            total = total + (tone * rng.gamma(2.0, 0.5, (frames, BANDS)) * level).astype(np.float32)
        return ((np.log(total + 1e-5) + 4.5) / 5).astype(np.float32)

    def batch(self, size, frames):
        examples = np.stack([self.example(frames) for _ in range(size)])
        return torch.from_numpy(examples).transpose(1, 2)[:, None].contiguous()

    def __iter__(self):
        for size, frames in self.plan:
            yield self.batch(size, frames)

    def validation(self, count=120, frames=500):
        """Sounds that are not trained on, as they are."""
        chosen = self.held_out[::max(1, len(self.held_out) // count)][:count]
        x = np.full((len(chosen), frames, BANDS), FLOOR, np.float32)
        for row, (start, length) in zip(x, chosen):
            n = min(frames, length)
            row[:n] = self.data[start:start + n]
        return torch.from_numpy(x).transpose(1, 2)[:, None].contiguous()


class Adapters(nn.Module):
    """Between the maps of student and teacher, for each block in both directions, and from feature to feature."""

    def __init__(self):
        super().__init__()
        pairs = [(s[1], t[1]) for s, t in zip(STUDENT["blocks"], TEACHER["blocks"])]
        self.to_teacher = nn.ModuleList(nn.Conv2d(s, t, 1) for s, t in pairs)
        self.to_student = nn.ModuleList(nn.Conv2d(t, s, 1) for s, t in pairs)
        self.feature = nn.Linear(STUDENT["last"], TEACHER["last"])
        for layers in (self.to_teacher, self.to_student):
            for layer in layers:
                nn.init.orthogonal_(layer.weight.flatten(1))
                nn.init.zeros_(layer.bias)


class Teacher:
    """What the teacher makes of a batch: maps and feature with unit variance, probabilities, vectors of the bridge."""

    def __init__(self, path, labels, sounds):
        self.net = load_teacher(path).to(memory_format=torch.channels_last)
        self.labels = labels
        with torch.no_grad():
            runs = [self.net(sounds.batch(16, 256)) for _ in range(3)]
            self.mean_probabilities = torch.cat([torch.sigmoid(run[0]) for run in runs]).mean(0)
            feature = torch.cat([run[1] for run in runs])
            self.feature = feature.mean(0), feature.std(0) + 1e-3
            self.maps = {}
            for block in BLOCKS:
                values = torch.cat([run[2][block].transpose(0, 1).flatten(1) for run in runs], 1)
                self.maps[block] = (values.mean(1)[:, None, None], values.std(1)[:, None, None] + 1e-3)

    @torch.no_grad()
    def __call__(self, x):
        logits, feature, maps = self.net(x)
        probabilities = torch.sigmoid(logits)
        return (probabilities, (feature - self.feature[0]) / self.feature[1], self.bridge(probabilities),
                {block: (maps[block] - mean) / std for block, (mean, std) in self.maps.items()})

    def bridge(self, probabilities):
        return F.normalize(probabilities @ self.labels, dim=1)


def losses(student, adapters, teacher, x, forcing, rng):
    """Cross-entropy, feature error, angle of the bridge's vectors, hint and the second adapters' error."""
    probabilities, wanted_feature, vector, maps = teacher(x)
    h, hints, forced = x, [], []
    for i, layer in enumerate(student.features):
        if i - 1 in maps and rng.rand() < forcing:
            h = adapters.to_student[i - 2](maps[i - 1])
        h = layer(h)
        if i in maps:
            hints.append(F.mse_loss(adapters.to_teacher[i - 1](h), maps[i]))
            if forcing > 0:
                own = h.detach()
                forced.append(F.mse_loss(adapters.to_student[i - 1](maps[i]), own) / own.var())
    feature = h.mean((2, 3))
    logits = student.head(feature)
    cross = F.binary_cross_entropy_with_logits(logits, probabilities, reduction="none").sum(1).mean()
    feature_error = F.mse_loss(adapters.feature(feature), wanted_feature)
    angle = (1 - (teacher.bridge(torch.sigmoid(logits)) * vector).sum(1)).mean()
    return cross, feature_error, angle, sum(hints) / len(hints), sum(forced) / max(1, len(forced)) + x.new_zeros(())


def average_over_processes(tensors):
    """Replaces tensors by their means over all processes."""
    if not distributed.is_initialized():
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        tensor.copy_(mean.view_as(tensor))


def train(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if args.processes > 1:
        meeting = "file://" + os.path.abspath(os.path.join(args.out, "meeting"))
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=args.processes)
    log = open(os.path.join(args.out, "log.txt"), "a") if rank == 0 else None

    def say(text):
        if rank == 0:
            print(text, flush=True)
            print(text, file=log, flush=True)

    size = args.batch // args.processes
    plan = [(size, 256) if step < LONG_CROPS * args.steps else (size // 2, 500) for step in range(args.steps)]
    sounds = Sounds(args.mels, args.without, args.seed, plan)
    say(f"{sounds.count} segments of {len(sounds.groups)} sources, {len(sounds.held_out)} held out")
    labels = F.normalize(torch.from_numpy(np.load(args.vectors).astype(np.float32)), dim=1)
    assert len(labels) == STUDENT["classes"], "one vector for each class"
    teacher = Teacher(args.teacher, labels, sounds)
    student = Tagger(STUDENT).to(memory_format=torch.channels_last)
    adapters = Adapters()
    with torch.no_grad():
        chance = teacher.mean_probabilities.clamp(1e-4, 0.9)
        student.classifier["5"].bias.copy_(torch.log(chance / (1 - chance)))
        student.classifier["5"].weight.mul_(0.3)
    average = Tagger(STUDENT)
    average.load_state_dict(student.state_dict())
    average.eval()
    parameters = [*student.parameters(), *adapters.parameters()]
    norms = [module for module in student.modules() if isinstance(module, nn.BatchNorm2d)]
    statistics = [tensor for norm in norms for tensor in (norm.running_mean, norm.running_var)]
    optimiser = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": 1e-4},
                                   {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}],
                                  lr=args.rate, betas=(0.9, 0.99))
    parts = {"student": student, "adapters": adapters, "average": average, "optimiser": optimiser}
    checkpoint, first = os.path.join(args.out, "checkpoint.pt"), 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint, weights_only=True)
        first = saved["step"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        say(f"resuming at step {first}")
    held_out = sounds.validation()

    def save(step):
        state = {"step": step, **{name: part.state_dict() for name, part in parts.items()}}
        torch.save(state, checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
        weights = {k: v.contiguous().clone() for k, v in average.state_dict().items() if "num_batches" not in k}
        save_file(weights, os.path.join(args.out, "student.safetensors"))
        with torch.no_grad():
            cosine, cross = [], []
            for x in held_out.split(20):
                wanted, _, vector, _ = teacher(x)
                logits = average(x)[0]
                cosine.append((teacher.bridge(torch.sigmoid(logits)) * vector).sum(1))
                cross.append(F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(1))
        cosine, cross = torch.cat(cosine).mean(), torch.cat(cross).mean()
        say(f"step {step}: held out: cosine {cosine:.4f}, cross-entropy {cross:.3f}")

    sounds.plan = plan[first:]
    seed = (args.seed * 100 + rank) * 100000 + first
    sounds.rng, rng = np.random.RandomState(seed), np.random.RandomState(seed + 50000)
    student.train()
    begin, sums = time.time(), np.zeros(5)
    for step, x in enumerate(sounds, first):
        progress = step / args.steps
        for norm in norms:
            norm.train(progress < LONG_CROPS)
        rate = args.rate * min(1, (step + 1) / 50) * (0.005 + 0.995 * (1 + math.cos(math.pi * progress)) / 2)
        for group in optimiser.param_groups:
            group["lr"] = rate
        forcing = max(0.0, 1 - progress / 0.45)
        hint_weight = 5.0 * min(1.0, max(0.1, 1 - (progress - 0.6) / 0.3))
        cross, feature, angle, hint, forced = losses(
            student, adapters, teacher, x.to(memory_format=torch.channels_last), forcing, rng)
        optimiser.zero_grad()
        (0.1 * cross + feature + 2 * angle + hint_weight * hint + forced).backward()
        average_over_processes([p.grad for p in parameters if p.grad is not None] + statistics)
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimiser.step()
        decay = min(0.99, (1 + step) / (20 + step))
        with torch.no_grad():
            for kept, now in zip(average.state_dict().values(), student.state_dict().values()):
                if kept.dtype.is_floating_point:
                    kept.lerp_(now, 1 - decay)
        sums += [part.item() for part in (cross, feature, angle, hint, forced)]
        if (step + 1) % 25 == 0:
            means = dict(zip(("cross-entropy", "feature", "angle", "hint", "forced"), sums / 25))
            pace = (time.time() - begin) / (step + 1 - first)
            say(f"{step + 1}/{args.steps} {pace:.2f} s a step; " + ", ".join(f"{k} {v:.4f}" for k, v in means.items()))
            sums[:] = 0
        if rank == 0 and ((step + 1) % 200 == 0 or step + 1 == args.steps):
            save(step + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mels")
    parser.add_argument("teacher")
    parser.add_argument("vectors")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=32, help="of all processes together")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--without", nargs="*", default=[], help="sources that are not trained on")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    meeting = os.path.join(args.out, "meeting")
    if os.path.exists(meeting):  # of a run that was interrupted
        os.remove(meeting)
    if args.processes > 1:
        torch.multiprocessing.spawn(train, (args,), nprocs=args.processes)
        os.remove(meeting)
    else:
        train(0, args)


if __name__ == "__main__":
    main()
