#!/usr/bin/env python3
"""Writes crates/encode/tests/golden/mn.json: outputs of EfficientAT's MN with weights and log-mels given by formulas.

  python3 golden/mn.py EFFICIENTAT

EFFICIENTAT is a checkout of fschmid56/EfficientAT (the values here are of commit a425fdc), which is run and not copied.
For two widths: features and class probabilities, with running means and with the statistics of the batch; the running
means and variances of the first and of the last norm after that batch; and the gradients of the probabilities' sum by some parameters.

  python3 golden/mn.py EFFICIENTAT --checkpoint mn04_as_mAP_432.pt --audio FOLDER -o FILE.npy

writes the features of recordings of at most 10 s, in the order of their names, for a comparison with hark embed.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "crates" / "encode" / "tests" / "golden" / "mn.json"
FRAMES = 75
GRADIENTS = ["features.0.0.weight", "features.1.block.0.0.weight", "features.16.1.weight", "classifier.5.bias"]


def formula(start: int, count: int) -> np.ndarray:
    """Numbers in [-1, 1): the upper 24 bits of SplitMix64's output for start, start + 1, ..."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(start) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype(np.float64) / (1 << 24) * 2 - 1).astype(np.float32)


def start(name: str) -> int:
    """FNV-1a of a name, as 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value >> 1


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """What a tensor holds, by the end of its name and by its shape."""
    numbers = formula(start(name), int(np.prod(shape))).reshape(shape)
    if len(shape) > 1:
        inputs = np.prod(shape[1:])
        return (numbers * np.sqrt(np.float32(3 / inputs))).astype(np.float32)
    if name.endswith("running_var"):
        return (1 + 0.5 * numbers).astype(np.float32)
    if name.endswith("weight"):
        return (1 + 0.1 * numbers).astype(np.float32)
    return (0.1 * numbers).astype(np.float32)


def log_mels(segments: int) -> torch.Tensor:
    numbers = formula(1 << 40, segments * 128 * FRAMES)
    return torch.from_numpy(numbers.reshape(segments, 1, 128, FRAMES))


def model(get_model, width: float):
    with contextlib.redirect_stdout(io.StringIO()):
        network = get_model(num_classes=527, width_mult=width, se_dims="c")
    return network


def rounded(tensor) -> list[float]:
    return [float(f"{x:.9g}") for x in np.asarray(tensor.detach(), dtype=np.float64).ravel()]


def golden(get_model) -> None:
    cases = []
    for width in (0.4, 0.1):
        network = model(get_model, width)
        state = {
            name: tensor if name.endswith("num_batches_tracked") else torch.from_numpy(weights(name, tuple(tensor.shape)))
            for name, tensor in network.state_dict().items()
        }
        network.load_state_dict(state)
        # In 64 bits, so that the difference is ours.
        network.double()
        # Dropout stands behind the features, and masks differ from program to program.
        network.classifier[4].p = 0.0
        x = log_mels(2).double()
        case = {"width": width, "frames": FRAMES, "segments": 2}
        network.eval()
        with torch.no_grad():
            logits, features = network(x)
        case["features"], case["probabilities"] = rounded(features), rounded(torch.sigmoid(logits))
        network.train()
        logits, features = network(x)
        torch.sigmoid(logits).sum().backward()
        case["batch_features"], case["batch_probabilities"] = rounded(features), rounded(torch.sigmoid(logits))
        after = network.state_dict()
        case["running"] = {
            f"features.{nth}.1.{what}": rounded(after[f"features.{nth}.1.{what}"])
            for nth in (0, 16)
            for what in ("running_mean", "running_var")
        }
        parameters = dict(network.named_parameters())
        case["gradients"] = {name: rounded(parameters[name].grad) for name in GRADIENTS}
        cases.append(case)
    OUT.write_text(json.dumps({"torch": torch.__version__, "cases": cases}) + "\n")
    print(f"{OUT}: {OUT.stat().st_size} bytes")


def recordings(get_model, checkpoint: str, folder: str, output: str) -> None:
    import soundfile
    import soxr
    from models.preprocess import AugmentMelSTFT

    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    width = {384: 0.4, 96: 0.1}.get(state["features.16.0.weight"].shape[0], 1.0)
    network = model(get_model, width)
    network.load_state_dict(state)
    network.eval()
    mel = AugmentMelSTFT(n_mels=128, sr=32000, win_length=800, hopsize=320, n_fft=1024, freqm=0, timem=0, fmin=0.0, fmax=15000.0)
    mel.eval()
    rows = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        samples = soxr.resample(samples.mean(axis=1), rate, 32000, quality="VHQ")
        with torch.no_grad():
            _, features = network(mel(torch.from_numpy(samples)[None]).unsqueeze(0))
        rows.append(features.reshape(-1).numpy())
    np.save(output, np.stack(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("efficientat")
    parser.add_argument("--checkpoint")
    parser.add_argument("--audio")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    for name in ("checkpoint", "audio", "output"):
        if getattr(args, name):
            setattr(args, name, str(pathlib.Path(getattr(args, name)).resolve()))
    sys.path.insert(0, args.efficientat)
    # It reads its class names from the folder that it is started in.
    os.chdir(args.efficientat)
    from models.mn.model import get_model

    if args.checkpoint:
        recordings(get_model, args.checkpoint, args.audio, args.output)
    else:
        golden(get_model)


main()
