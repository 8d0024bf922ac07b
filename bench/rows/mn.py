"""10 s clips through MN of width 0.4, class probabilities: EfficientAT on torch and ONNX Runtime; and the built-in model everyday.

Log-mels (128 bands, 1000 frames) are ready beforehand; loading is not counted. EfficientAT is not a package: the row needs a checkout
(--efficientat), which is run and not copied. Weights are random, with running means and variances of the inputs, or those of a
checkpoint (--mn-weights). everyday has no peer that computes the same.
"""

import contextlib
import io
import os
import sys
from pathlib import Path

from harness import agreement
from rows import inference
from rows.passt import BANDS, FRAMES
from rows.row import Row, batch_option

# Of probabilities, in 32 bits and in bf16.
TOLERANCE, TOLERANCE_BF16 = 1e-4, 0.05
WIDTH = 0.4


class MnNetwork(inference.Network):
    sizes = [1, 4, 8, 16]
    dynamic = [{0: "clips"}]

    def build(self, torch, arguments):
        sys.path.insert(0, str(arguments.efficientat))
        # It reads its class names from the folder that it is started in.
        os.chdir(arguments.efficientat)
        from models.mn.model import get_model

        class Probabilities(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                with contextlib.redirect_stdout(io.StringIO()):
                    self.mn = get_model(width_mult=WIDTH, head_type="mlp", se_dims="c")

            def forward(self, mels):
                return torch.sigmoid(self.mn(mels)[0])

        module = Probabilities()
        if arguments.checkpoint:
            module.mn.load_state_dict(torch.load(arguments.checkpoint, map_location="cpu", weights_only=True))
        self.trained = bool(arguments.checkpoint)
        return module.eval()

    def initialise(self, torch, module, example):
        if self.trained:
            return
        # The statistics of the inputs, so that what goes through the layers neither grows nor vanishes.
        for part in module.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.momentum = None
        module.train()
        with torch.no_grad():
            module(*example)
            module.mn.classifier[-1].weight.mul_(10.0)
        module.eval()

    def state(self, module):
        return module.mn.state_dict()

    def make_inputs(self, np, count):
        return np.random.default_rng(2).standard_normal((count, BANDS * FRAMES), dtype=np.float32)

    def batch(self, np, rows):
        return [rows.reshape(-1, 1, BANDS, FRAMES)]


class Mn(Row):
    name = "mn"
    what = "10 s clips through MN of width 0.4"
    peers = inference.PEERS
    precisions = ["bf16", "int8"]
    packages = ["torchvision", *inference.PACKAGES]

    def missing(self, options):
        return None if options.efficientat else "needs --efficientat, a checkout of fschmid56/EfficientAT"

    def count(self, options):
        return 16 if options.quick else 64

    def settings(self, options):
        return {"count": 64, "weights": str(options.mn_weights)}

    def peer(self, side, options, folder, *more):
        checkpoint = ["--checkpoint", options.mn_weights] if options.mn_weights else []
        return [options.python, "-m", "rows.mn", side, "--work", folder, "--efficientat", options.efficientat, *checkpoint, *more]

    def prepare(self, options, folder):
        return self.peer("prepare", options, folder, "--count", 64)

    def ours(self, options, folder, output, check):
        return [options.bench, "mn", "--width", WIDTH, "--clips", self.count(options), "--threads", options.threads, "--warm-up",
                "--repeat", 1 if check else 3, *options.at_precision(),
                "--weights", folder / "weights.safetensors", "--inputs", folder / "inputs.npy", "--output", output]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--count", self.count(options), "--threads", options.threads, "--output", output,
                         "--repeat", 1 if check else 3, *batch_option(options, choice))

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        rows = agreement.read_npy(our_output), agreement.read_npy(their_output)
        return agreement.differences(*rows, TOLERANCE_BF16 if peer == inference.BF16 else TOLERANCE)


class Everyday(Row):
    name = "everyday"
    what = "64 clips of 10 s through the built-in model everyday"

    def ours(self, options, folder, output, check):
        return [options.bench, "mn", "--clips", 16 if options.quick else 64, "--threads", options.threads, "--warm-up"]


ROWS = [Mn(), Everyday()]


def add_arguments(parser):
    parser.add_argument("--efficientat", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path)


if __name__ == "__main__":
    inference.main(MnNetwork(), __doc__, add_arguments)
