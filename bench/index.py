#!/usr/bin/env python3
"""Recordings per second of `hark index` with the built-in model, decoding included, and of the same steps on torch.

  python bench/index.py HARK RECORDINGS --count 10000 [--efficientat EFFICIENTAT]

Makes COUNT WAV files of 5 s from the recordings of a folder, each with another gain, so that no two have the same content,
and indexes them as a fresh user would: hashing, decoding, log-mels, the network, waveforms, fingerprints and the catalogue.
With a checkout of fschmid56/EfficientAT, the same files are read with soundfile, resampled with soxr and given to its front
end and its network mn04 (random weights), one after the other on the same cores, before and after hark's turn; the first
--peer files are enough for a rate. Nothing else that hark does is done there. Needs numpy, soundfile, soxr, torch and
torchaudio for that, and disk for the files: 0.44 MB each.
"""

import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import soundfile
import soxr

RATE, SECONDS = 44_100, 5


def make(recordings: list[pathlib.Path], folder: pathlib.Path, count: int) -> list[pathlib.Path]:
    sounds, paths = [], []
    for path in recordings[:count]:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        samples = soxr.resample(samples.mean(1), rate, RATE)[: RATE * SECONDS]
        sounds.append(np.pad(samples, (0, RATE * SECONDS - len(samples))))
    for number in range(count):
        path = folder / f"{number % 100:02}" / f"{number:06}.wav"
        path.parent.mkdir(exist_ok=True)
        gain = 0.9 - 0.8 * (number // len(sounds)) / max(1, count // len(sounds))
        soundfile.write(path, gain * sounds[number % len(sounds)], RATE, subtype="PCM_16")
        paths.append(path)
    return paths


class Peer:
    def __init__(self, checkout: str, threads: int) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        # Nothing runs on a GPU. Without this, torchaudio may refuse to start.
        torch.version.cuda = None
        sys.path.insert(0, checkout)
        os.chdir(checkout)
        from models.mn.model import get_model
        from models.preprocess import AugmentMelSTFT

        with contextlib.redirect_stdout(io.StringIO()):
            self.model = get_model(width_mult=0.4, head_type="mlp", se_dims="c").eval()
            self.mel = AugmentMelSTFT(n_mels=128, sr=32_000, win_length=800, hopsize=320).eval()

    def rate(self, paths: list[pathlib.Path]) -> float:
        start = time.perf_counter()
        with self.torch.no_grad():
            for path in paths:
                samples, rate = soundfile.read(path, dtype="float32")
                samples = soxr.resample(samples, rate, 32_000)
                mel = self.mel(self.torch.from_numpy(samples)[None])
                self.torch.sigmoid(self.model(mel[:, None])[0])
        return len(paths) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hark", type=pathlib.Path)
    parser.add_argument("recordings", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--efficientat", type=str)
    parser.add_argument("--peer", type=int, default=300)
    args = parser.parse_args()
    hark = args.hark.resolve()
    found = sorted(path for path in args.recordings.iterdir() if path.suffix in (".wav", ".ogg", ".flac"))
    with tempfile.TemporaryDirectory() as place:
        sounds = pathlib.Path(place, "sounds")
        sounds.mkdir()
        paths = make(found, sounds, args.count)
        peer = Peer(os.path.abspath(args.efficientat), args.threads) if args.efficientat else None
        if peer:
            peer.rate(paths[:20])  # fills caches and pools
        rates = [peer.rate(paths[: args.peer])] if peer else []
        home = {**os.environ, "HARK_HOME": f"{place}/home", "XDG_DATA_HOME": f"{place}/data"}
        start = time.perf_counter()
        subprocess.run([hark, "index", sounds, "--threads", str(args.threads)], env=home, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        if peer:
            rates.append(peer.rate(paths[: args.peer]))
    own = args.count / seconds
    print(f"hark index: {args.count} recordings of {SECONDS} s in {seconds / 60:.1f} minutes, {own:.1f} a second")
    if rates:
        other = sum(rates) / len(rates)
        print(f"soundfile, soxr and EfficientAT: {', '.join(f'{rate:.1f}' for rate in rates)} a second; hark / peer = {own / other:.2f}")


if __name__ == "__main__":
    main()
