"""PaSST's log-mel front end, and MobileNetV3 taggers of any widths: the teacher (EfficientAT's mn04) and the student.

Imported by the other scripts of this folder. Tensors are named as in EfficientAT's files, so that one loader reads both
and `hark models import` reads the student.
"""
import csv
import json

import numpy as np
import soundfile
import soxr
import torch
import torch.nn.functional as F
from torch import nn

RATE = 32000
BANDS = 128
# Kernel, squeeze-excitation, activation and stride of the 15 blocks of MobileNetV3-large.
LAYOUT = [(3, 0, "RE", 1), (3, 0, "RE", 2), (3, 0, "RE", 1), (5, 1, "RE", 2), (5, 1, "RE", 1), (5, 1, "RE", 1),
          (3, 0, "HS", 2), (3, 0, "HS", 1), (3, 0, "HS", 1), (3, 0, "HS", 1), (3, 1, "HS", 1), (3, 1, "HS", 1),
          (5, 1, "HS", 2), (5, 1, "HS", 1), (5, 1, "HS", 1)]
BLOCKS = range(1, 16)  # their places among the layers: 0 is the stem, 16 the last convolution

TEACHER = {"stem": 8, "last": 384, "hidden": 512, "classes": 527,
           "blocks": [[8, 8], [24, 16], [32, 16], [32, 16], [48, 16], [48, 16], [96, 32], [80, 32], [72, 32], [72, 32],
                      [192, 48], [272, 48], [272, 64], [384, 64], [384, 64]]}
# Wider between blocks and narrower inside them than the teacher, so that no layer has the teacher's shape.
STUDENT = {"stem": 12, "last": 432, "hidden": 464, "classes": 527,
           "blocks": [[12, 12], [28, 20], [28, 20], [28, 20], [40, 20], [40, 20], [80, 40], [68, 40], [64, 40],
                      [64, 40], [152, 60], [200, 60], [216, 84], [296, 84], [296, 84]]}


def squeezed(channels):
    """Width inside a squeeze-excitation layer: a quarter of its channels, rounded to a multiple of 8."""
    quarter = channels / 4
    rounded = max(8, int(quarter + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * quarter else rounded


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = nn.Module()
        inner.fc1, inner.fc2 = nn.Linear(channels, squeezed(channels)), nn.Linear(squeezed(channels), channels)
        self.conc_se_layers = nn.ModuleList([inner])

    def forward(self, x):
        inner = self.conc_se_layers[0]
        gate = torch.sigmoid(inner.fc2(F.relu(inner.fc1(x.mean((2, 3))))))
        return x * gate[:, :, None, None]


def convolution(inputs, outputs, kernel, stride, groups, activation):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.05)]
    if activation:
        layers.append(nn.ReLU() if activation == "RE" else nn.Hardswish())
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, inputs, expanded, outputs, kernel, squeeze, activation, stride):
        super().__init__()
        layers = []
        if expanded != inputs:
            layers.append(convolution(inputs, expanded, 1, 1, 1, activation))
        layers.append(convolution(expanded, expanded, kernel, stride, expanded, activation))
        if squeeze:
            layers.append(Squeeze(expanded))
        layers.append(convolution(expanded, outputs, 1, 1, 1, None))
        self.block = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.block(x) if self.residual else self.block(x)


class Tagger(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        layers, inputs = [convolution(1, shape["stem"], 3, 2, 1, "HS")], shape["stem"]
        for (expanded, outputs), (kernel, squeeze, activation, stride) in zip(shape["blocks"], LAYOUT):
            layers.append(Block(inputs, expanded, outputs, kernel, squeeze, activation, stride))
            inputs = outputs
        layers.append(convolution(inputs, shape["last"], 1, 1, 1, "HS"))
        self.features = nn.ModuleList(layers)
        self.classifier = nn.ModuleDict({"2": nn.Linear(shape["last"], shape["hidden"]),
                                         "5": nn.Linear(shape["hidden"], shape["classes"])})
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def head(self, feature):
        return self.classifier["5"](F.hardswish(self.classifier["2"](feature)))

    def forward(self, x):
        """Log-mels (batch, 1, bands, frames) to logits, pooled feature and the map after each layer."""
        maps = []
        for layer in self.features:
            x = layer(x)
            maps.append(x)
        feature = x.mean((2, 3))
        return self.head(feature), feature, maps

    def weights(self):
        """Name, module and batch norm (None for linear layers) of each layer with a weight matrix."""
        modules = dict(self.named_modules())
        for name, module in modules.items():
            if isinstance(module, nn.Conv2d):
                yield name, module, modules[name[:-1] + "1"]
            elif isinstance(module, nn.Linear):
                yield name, module, None


def load_teacher(path):
    net = Tagger(TEACHER)
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True), strict=True)
    return net.eval()


def load_student(path):
    from safetensors.torch import load_file
    net = Tagger(STUDENT)
    net.load_state_dict(load_file(path), strict=False)
    return net.eval()


class FrontEnd:
    """32 kHz samples to a log-mel of 128 bands and 100 frames a second, as PaSST's in evaluation."""

    def __init__(self):
        self.window = torch.zeros(1024)
        self.window[112:912] = torch.hann_window(800, periodic=False)

        def mel(hertz):
            return 1127 * np.log(1 + hertz / 700)
        edges = np.linspace(0, mel(15000.0), BANDS + 2)
        bins = mel(np.arange(512) * RATE / 1024)
        rising = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        falling = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
        bank = np.maximum(0, np.minimum(rising, falling))
        self.bank = torch.from_numpy(np.pad(bank, ((0, 0), (0, 1)))).float()

    def __call__(self, samples):
        x = torch.as_tensor(samples, dtype=torch.float32)
        x = x[1:] - 0.97 * x[:-1]
        if x.numel() < 1024:
            x = F.pad(x, (0, 1024 - x.numel()))
        frames = F.pad(x[None, None], (512, 512), mode="reflect")[0, 0].unfold(0, 1024, 320)
        power = torch.fft.rfft(frames * self.window).abs().square()
        return (torch.log(self.bank @ power.T + 1e-5) + 4.5) / 5


def read(path, start=0.0, seconds=None):
    """Mono samples at 32 kHz."""
    with soundfile.SoundFile(path) as f:
        if start:
            f.seek(int(start * f.samplerate))
        length = -1 if seconds is None else int(seconds * f.samplerate)
        x = f.read(length, dtype="float32", always_2d=True).mean(1)
        rate = f.samplerate
    return soxr.resample(x, rate, RATE) if rate != RATE else x


def class_names(path):
    with open(path, newline="") as f:
        return [row["display_name"] for row in csv.DictReader(f)]


def multiply_adds(shape, frames=1000):
    """Multiply-adds of the convolutions for so many frames."""
    height, width, inputs, total = BANDS // 2, frames // 2, shape["stem"], 0
    total += height * width * 9 * shape["stem"]
    for (expanded, outputs), (kernel, _, _, stride) in zip(shape["blocks"], LAYOUT):
        if expanded != inputs:
            total += height * width * inputs * expanded
        height, width = -(-height // stride), -(-width // stride)
        total += height * width * expanded * (kernel * kernel + outputs)
        inputs = outputs
    return total + height * width * inputs * shape["last"]


if __name__ == "__main__":
    for name, shape in (("teacher", TEACHER), ("student", STUDENT)):
        parameters = sum(p.numel() for p in Tagger(shape).parameters())
        print(json.dumps({"network": name, "parameters": parameters, "multiply_adds_of_10_s": multiply_adds(shape)}))
