"""A training step: forward, the loss `listnet-audio`, backward, clipping of the gradient's norm and one update by AdamW, in fp32.

At full size the model is PaSST-S with RoBERTa-large and their projections, and a batch has 4 pairs: a clip of 10 s (a log-mel of 128
bands and 1000 frames, ready beforehand) and a caption of 8 to 30 tokens. Dropout is the paper's (0.2 in RoBERTa, hidden and
attention), and so is structured patchout (15 columns, 2 rows). At the small size it is the model of recipes/soundscape-full.toml with
a batch of 32 and clips of 4 s. The peers are hear21passt, transformers and the same convolutions on torch, with scaled-dot-product
attention and the fused AdamW, in 32 bits and with bf16 autocast.

Both sides begin with the same weights and inputs. Dropout is random on each side, so that losses and gradient norms of two steps
without it are compared first; steps with dropout are timed. The first step of a process, in which the optimizer's moments are
allocated, is not counted. Full size needs about 10 GB of memory.
"""

import sys
import time
import warnings

from harness import agreement
from rows.inference import BF16, TORCH, enliven, save_weights
from rows.passt import build_passt
from rows.roberta import SIZES, padded, roberta_config, token_rows
from rows.row import Row, answer, load_torch, peer_parser, silence

TAU = OMEGA = 0.05
MAX_NORM = 1.0
CAPTION_DIM = 768
FULL = {"batch": 4, "bands": 128, "frames": 1000, "vocabulary": 50265, "rate": 2e-5}
SMALL = {"batch": 32, "bands": 64, "frames": 100, "vocabulary": 1000, "rate": 1e-3}
SETTINGS = {"full": FULL, "small": SMALL}


def convolutional(torch):
    """The audio tower of recipes/soundscape-full.toml, with the names of its tensors in hark."""

    class Cnn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            channels = [1, 16, 32, 64, 128]
            self.stages = torch.nn.ModuleList(
                torch.nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(channels, channels[1:]))
            self.gather = torch.nn.Linear(128 * 4, 256)

        def forward(self, x):
            for stage in self.stages:
                x = torch.relu(stage(x))
            x = torch.relu(self.gather(x.flatten(1, 2).transpose(1, 2)))
            return x.mean(dim=1) + x.amax(dim=1)

    return Cnn()


def build(torch, size, dropout):
    from transformers import RobertaModel

    torch.manual_seed(1)

    def projection(*widths):
        layers = [torch.nn.Linear(widths[0], widths[1])]
        for a, b in zip(widths[1:], widths[2:]):
            layers += [torch.nn.ReLU(), torch.nn.Linear(a, b)]
        return torch.nn.Sequential(*layers)

    if size == "full":
        rate = 0.2 if dropout else 0.0
        audio = build_passt(**({"s_patchout_t": 15, "s_patchout_f": 2} if dropout else {}))
        # What the classifiers compute is thrown away, and they have no gradient.
        audio.head = audio.head_dist = torch.nn.Identity()
        sizes = SIZES["large"]
        projections = projection(768, 1024, 1024), projection(1024, 1024, 1024)
    else:
        rate = 0.1 if dropout else 0.0
        audio = convolutional(torch)
        sizes = {"vocab_size": 1000, "max_position_embeddings": 34, "hidden_size": 128, "intermediate_size": 256,
                 "num_hidden_layers": 2, "num_attention_heads": 4}
        projections = projection(256, 128), projection(128, 128)
    text = RobertaModel(roberta_config(hidden_dropout_prob=rate, attention_probs_dropout_prob=rate, **sizes),
                        add_pooling_layer=False)
    parts = {"audio": audio, "text": text, "audio-projection": projections[0], "text-projection": projections[1]}
    return torch.nn.ModuleDict(parts).train()


def prepare(arguments):
    import numpy as np

    torch = load_torch(arguments.threads)
    settings = SETTINGS[arguments.size]
    model = build(torch, arguments.size, dropout=False)
    enliven(torch, model, 4)
    save_weights(model.state_dict(), arguments.work / "weights.safetensors")
    random = np.random.default_rng(5)
    batch = settings["batch"]
    mels = random.standard_normal((batch, settings["bands"] * settings["frames"]), dtype=np.float32)
    captions = random.standard_normal((batch, CAPTION_DIM)) + random.standard_normal(CAPTION_DIM)
    np.save(arguments.work / "mels.npy", mels)
    np.save(arguments.work / "tokens.npy", token_rows(np, batch, settings["vocabulary"], 6))
    np.save(arguments.work / "captions.npy", (captions / np.linalg.norm(captions, axis=1, keepdims=True)).astype(np.float32))
    answer()


def train(arguments):
    import numpy as np
    from safetensors.torch import load_file

    torch = load_torch(arguments.threads)
    settings = SETTINGS[arguments.size]
    batch = arguments.batch
    model = build(torch, arguments.size, dropout=not arguments.without_dropout)
    model.load_state_dict(load_file(arguments.work / "weights.safetensors"), strict=False)

    def rows(name):
        return np.load(arguments.work / f"{name}.npy")[:batch]

    mels = torch.from_numpy(rows("mels")).reshape(batch, 1, settings["bands"], settings["frames"])
    ids, mask = (torch.from_numpy(array) for array in padded(np, rows("tokens")))
    captions = torch.from_numpy(rows("captions"))
    target = torch.softmax(torch.sigmoid(4.58 * captions @ captions.T - 2.73) / OMEGA, dim=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["rate"], betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                                  fused=True)
    normalize = torch.nn.functional.normalize

    def forward():
        features = model["audio"](mels)
        features = features[1] if arguments.size == "full" else features
        audio = normalize(model["audio-projection"](features), dim=1)
        hidden = model["text"](input_ids=ids, attention_mask=mask).last_hidden_state
        text = normalize(model["text-projection"](hidden[:, 0]), dim=1)
        return -(target * torch.log_softmax(text.float() @ audio.float().T / TAU, dim=1)).sum(dim=1).mean()

    seconds, losses, norms = [], [], []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.side == BF16):
            loss = forward()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    answer(seconds=seconds[1:] or seconds, first_step_seconds=seconds[0], losses=losses, norms=norms, count=batch)


class Step(Row):
    peers = [TORCH, BF16]
    packages = ["torch", "transformers", "hear21passt", "numpy", "safetensors"]

    def __init__(self, size, what):
        self.size, self.what = size, what
        self.name = f"step-{size}"

    def steps(self, options, check):
        if check:
            return 2
        return {"full": 2, "small": 11}[self.size] if options.quick else {"full": 3, "small": 101}[self.size]

    def batch(self, options):
        return 2 if options.quick and self.size == "full" else SETTINGS[self.size]["batch"]

    def settings(self, options):
        return {"size": self.size}

    def prepare(self, options, folder):
        return [options.python, "-m", "rows.step", "prepare", "--work", folder, "--size", self.size]

    def arguments(self, options, check):
        return ["--size", self.size, "--batch", self.batch(options), "--steps", self.steps(options, check),
                "--threads", options.threads, *(["--without-dropout"] if check else [])]

    def ours(self, options, folder, output, check):
        return [options.bench, "step", *self.arguments(options, check), "--weights", folder / "weights.safetensors",
                "--inputs", folder, *options.on_device()]

    def theirs(self, peer, options, folder, output, check, choice):
        return [options.python, "-m", "rows.step", peer, "--work", folder, *self.arguments(options, check)]

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        # In bf16 a norm keeps two digits, and a loss of about 1 three.
        near = peer == BF16
        # The first loss is of equal weights; the second is behind an update, whose size does not depend on a gradient's.
        first = {"losses": ours["losses"][:1]}, {"losses": theirs["losses"][:1]}
        return (agreement.figures(*first, {"losses": 0.05 if near else 1e-4})
                or agreement.figures(ours, theirs, {"losses": 0.1 if near else 1e-3,
                                                    "norms": ("relative", 0.1 if near else 1e-3)}))


ROWS = [
    Step("full", "training step, PaSST-S with RoBERTa-large, 4 pairs of 10 s"),
    Step("small", "training step, small towers of the soundscape recipe, 32 pairs of 4 s"),
]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--size", choices=SETTINGS, required=True)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--without-dropout", action="store_true")
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    (prepare if arguments.side == "prepare" else train)(arguments)


if __name__ == "__main__":
    sys.exit(main())
