#!/usr/bin/env python3
"""Seconds per training step of the paper's model: hark against torch, in one run.

A step is forward, the loss `listnet-audio`, backward, clipping of the gradient's norm and one update by AdamW. The model
is PaSST-S (`passt_s_p16_s16_128_ap468`) with RoBERTa-large and their projections, of random weights, in fp32. A batch has 2
pairs: a clip of one 10 s segment (a log-mel of 128 bands and 1000 frames, ready beforehand) and a caption of 32 tokens.
Dropout is the paper's (0.2 in RoBERTa, hidden and attention), and so is structured patchout (15 columns, 2 rows).

On the one side stand hear21passt and transformers on torch: scaled-dot-product attention and torch's fused AdamW,
which are the fastest that it offers on a CPU. On the other stands

  hark-bench step --batch B --steps N --threads T

which prints {"seconds_per_step": [..], "peak_memory_bytes": n, ..}. Each side runs in a process of its own, one after
the other, so that neither is in the other's memory. Each makes one step more than is counted: in the first the
optimizer's moments are allocated. The ratio of the medians is printed, and for both the largest resident memory
as the operating system counted it for that process, loading included. About 9 GB of memory are needed.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/step.py --bench target/release/hark-bench
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

from measure import run

FRAMES = 1000
TOKENS = 32
VOCABULARY = 50265
TAU = OMEGA = 0.05
RATE = 2e-5
MAX_NORM = 1.0


# ---------------------------------------------------------------- torch, in a process of its own

def build(torch):
    """Both towers as their classes initialise them, and the projections; what they print is left out."""
    # Nothing runs on a GPU. Without this, torchaudio refuses to start where it was built for another CUDA version.
    torch.version.cuda = None
    from hear21passt.models import passt
    from transformers import RobertaConfig, RobertaModel

    torch.manual_seed(1)
    with contextlib.redirect_stdout(io.StringIO()):
        audio = passt.get_model(arch="passt_s_p16_s16_128_ap468", pretrained=False, fstride=16, tstride=16,
                                input_tdim=FRAMES, s_patchout_t=15, s_patchout_f=2)
    passt.first_RUN = False
    # What the classifiers compute is thrown away, and they have no gradient.
    audio.head = audio.head_dist = torch.nn.Identity()
    config = RobertaConfig(
        vocab_size=VOCABULARY, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.2, pad_token_id=1, bos_token_id=0, eos_token_id=2, attn_implementation="sdpa",
    )
    text = RobertaModel(config, add_pooling_layer=False)

    def projection(width):
        return torch.nn.Sequential(torch.nn.Linear(width, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))

    parts = {"audio": audio, "text": text, "audio_proj": projection(768), "text_proj": projection(1024)}
    return torch.nn.ModuleDict(parts).train()


def listnet_audio(torch, text, audio, target):
    return -(target * torch.log_softmax(text @ audio.T / TAU, dim=1)).sum(dim=1).mean()


def train(torch, model, batch, steps):
    """Seconds of each step, and the losses."""
    normalize = torch.nn.functional.normalize
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, fused=True)
    mels = torch.randn(batch, 1, 128, FRAMES, generator=generator)
    ids = torch.randint(3, VOCABULARY, (batch, TOKENS), generator=generator)
    ids[:, 0], ids[:, -1] = 0, 2
    mask = torch.ones_like(ids)
    captions = normalize(torch.randn(batch, 768, generator=generator), dim=1)
    target = torch.softmax(torch.sigmoid(4.58 * captions @ captions.T - 2.73) / OMEGA, dim=1)
    seconds, losses = [], []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        audio = normalize(model["audio_proj"](model["audio"](mels)[1]), dim=1)
        hidden = model["text"](input_ids=ids, attention_mask=mask).last_hidden_state
        text = normalize(model["text_proj"](hidden[:, 0]), dim=1)
        loss = listnet_audio(torch, text, audio, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return seconds, losses


def torch_side(arguments):
    # Read by torch when it starts.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import torch

    torch.set_num_threads(arguments.threads)
    model = build(torch)
    seconds, losses = train(torch, model, arguments.batch, arguments.steps)
    print(json.dumps({
        "seconds_per_step": seconds, "losses": losses, "parameters": sum(p.numel() for p in model.parameters()),
        "versions": {"torch": torch.__version__} | {name: version(name) for name in ("hear21passt", "transformers")},
    }))


# ---------------------------------------------------------------- both sides, measured in the same way

def command_of(side, arguments):
    count = ["--batch", arguments.batch, "--steps", arguments.steps + 1, "--threads", arguments.threads]
    if side == "hark":
        return [arguments.bench, "step", *count]
    return [sys.executable, __file__, "--torch-side", *count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, metavar="BINARY", help="the program hark-bench; without it only torch is measured")
    parser.add_argument("--batch", type=int, default=2, help="pairs in a batch (default 2)")
    parser.add_argument("--steps", type=int, default=3, help="steps that count, in each round (default 3)")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    parser.add_argument("--rounds", type=int, default=1, help="turns for each side (default 1)")
    parser.add_argument("--torch-side", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if min(arguments.batch, arguments.steps, arguments.threads, arguments.rounds) < 1:
        parser.error("--batch, --steps, --threads and --rounds must be at least 1")
    if arguments.torch_side:
        return torch_side(arguments)

    print(f"batch {arguments.batch}, {arguments.threads} threads, {arguments.rounds} rounds of {arguments.steps} steps, "
          f"load average before {os.getloadavg()[0]:.1f}", flush=True)
    sides = (["hark"] if arguments.bench else []) + ["torch"]
    seconds, memory = {side: [] for side in sides}, {side: 0 for side in sides}
    for turn in range(arguments.rounds):
        for side in sides:
            timing, peak = run(command_of(side, arguments))
            first, *counted = timing["seconds_per_step"]
            if len(counted) != arguments.steps:
                sys.exit(f"{side} made {len(counted) + 1} steps, expected {arguments.steps + 1}")
            seconds[side] += counted
            memory[side] = max(memory[side], peak)
            own = timing.get("peak_memory_bytes")
            print(f"round {turn + 1}, {side}: " + ", ".join(f"{step:.2f}" for step in counted) + f" s (the first {first:.2f} s)"
                  + (f", {own / 1e9:.2f} GB by its own count" if own else ""), flush=True)
            if turn == 0 and side == "torch":
                print(f"torch: {timing['parameters'] / 1e6:.1f} million parameters, "
                      + ", ".join(f"{name} {value}" for name, value in timing["versions"].items()))
    medians = {side: statistics.median(each) for side, each in seconds.items()}
    for side in sides:
        print(f"{side}: median {medians[side]:.2f} s per step, peak memory {memory[side] / 1e9:.2f} GB")
    if arguments.bench:
        print(f"torch / hark = {medians['torch'] / medians['hark']:.2f} in time (above 1: hark is faster), "
              f"hark / torch = {memory['hark'] / memory['torch']:.2f} in memory")


if __name__ == "__main__":
    main()
