"""10 s clips through PaSST-S: hear21passt on torch and ONNX Runtime.

Both sides compute features of log-mels (128 bands, 1000 frames) that are ready beforehand, with the same random weights in the
architecture `passt_s_p16_s16_128_ap468`: 498 tokens, 768 wide, 12 blocks. Loading is not counted. torch is tried with batches of
1, 4 and 8, and the fastest is kept; hark computes one clip on each thread.
"""

import contextlib
import io

from rows import inference
from rows.row import Row, batch_option

BANDS, FRAMES = 128, 1000


def build_passt(**changes):
    """PaSST-S as the package initialises it; what it prints is left out."""
    from hear21passt.models import passt

    with contextlib.redirect_stdout(io.StringIO()):
        model = passt.get_model(arch="passt_s_p16_s16_128_ap468", pretrained=False, fstride=16, tstride=16, input_tdim=FRAMES,
                                **changes)
    passt.first_RUN = False
    return model


class PasstNetwork(inference.Network):
    dynamic = [{0: "clips"}]

    def build(self, torch, arguments):
        class Features(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                self.passt = build_passt()
                # What the classifiers compute is not asked for.
                self.passt.head = self.passt.head_dist = torch.nn.Identity()

            def forward(self, mels):
                return self.passt(mels)[1]

        return Features().eval()

    def state(self, module):
        return module.passt.state_dict()

    def make_inputs(self, np, count):
        return np.random.default_rng(2).standard_normal((count, BANDS * FRAMES), dtype=np.float32)

    def batch(self, np, rows):
        return [rows.reshape(-1, 1, BANDS, FRAMES)]


class Passt(Row):
    name = "passt"
    what = "10 s clips through PaSST-S"
    peers = inference.PEERS
    precisions = ["bf16", "int8"]
    packages = ["hear21passt", *inference.PACKAGES]

    def count(self, options):
        return 4 if options.quick else 8

    def settings(self, options):
        return {"count": 16}

    def prepare(self, options, folder):
        return [options.python, "-m", "rows.passt", "prepare", "--work", folder, "--count", 16]

    def ours(self, options, folder, output, check):
        threads = options.threads if options.device == "cpu" else 1
        return [options.bench, "passt", "--clips", self.count(options), "--threads", threads, "--warm-up", *options.on_device(),
                *options.at_precision(),
                "--weights", folder / "weights.safetensors", "--inputs", folder / "inputs.npy", "--output", output]

    def theirs(self, peer, options, folder, output, check, choice):
        return [options.python, "-m", "rows.passt", peer, "--work", folder, "--count", self.count(options),
                "--threads", options.threads, "--output", output, *batch_option(options, choice)]


ROWS = [Passt()]

if __name__ == "__main__":
    inference.main(PasstNetwork(), __doc__)
