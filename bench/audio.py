#!/usr/bin/env python3
"""Recordings per second from file to log-mel: hark against what Python users run, in one run.

Every side decodes the same recordings, brings them to mono at 32 kHz and computes 128 log-mel bands
with PaSST's frames (window 800, hop 320, FFT 1024), one recording at a time, two at once. The peers:

  librosa + PaSST       librosa.load(sr=32000), whose default is soxr's high quality, then hear21passt's
                        AugmentMelSTFT on torch: what a user of PaSST runs. (It makes its mel bands anew for
                        every recording; that is part of what is measured.)
  librosa               the same decoding, then librosa.feature.melspectrogram and a logarithm
  torchaudio + PaSST    torchaudio.load, torchaudio.transforms.Resample with its defaults, AugmentMelSTFT.
                        Newer versions of torchaudio.load need torchcodec; where that is missing, soundfile
                        decodes instead, and the output says so.

On the other side stands `hark-bench mel FILE... --threads N`, which prints
{"files": .., "seconds": .., "audio_seconds": ..}.

Each peer runs with as many workers as hark has threads, each worker with one thread for its arithmetic.
Processes and threads are both tried before the rounds begin, which warms up everything as well, and the
faster of the two is kept for each peer. Workers start, import and build their front end outside the
time. The sides take turns, so that a change in the load of the machine meets all, and the ratios of
the medians are printed. Run it on an idle machine.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/audio.py --data FOLDER --bench target/release/hark-bench
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RATE = 32000
ENDINGS = {".flac", ".wav", ".ogg", ".mp3", ".aif", ".aiff"}

# One entry for each thing that a worker builds once: front ends and resamplers.
BUILT = {}


def once(key, build):
    if key not in BUILT:
        BUILT[key] = build()
    return BUILT[key]


def import_torch():
    """torch with one thread for each worker."""
    import torch

    # Nothing runs on a GPU. Without this, torchaudio refuses to start where it was built for another CUDA version.
    torch.version.cuda = None
    torch.set_num_threads(1)
    # Both are said for every recording, and neither is about us.
    warnings.filterwarnings("ignore", message=".*return_complex|.*autocast")
    return torch


def passt_front_end():
    import_torch()
    from hear21passt.models.preprocess import AugmentMelSTFT

    return AugmentMelSTFT(n_mels=128, sr=RATE, win_length=800, hopsize=320, n_fft=1024, freqm=48, timem=192,
                          htk=False, fmin=0.0, fmax=15000, norm=1, fmin_aug_range=10, fmax_aug_range=2000).eval()


def librosa_and_passt(path):
    import librosa

    torch = once("torch", import_torch)
    mel = once("mel", passt_front_end)
    samples, _ = librosa.load(path, sr=RATE)
    with torch.no_grad():
        return mel(torch.from_numpy(samples).unsqueeze(0)).shape[-1]


def librosa_alone(path):
    import librosa
    import numpy as np

    samples, _ = librosa.load(path, sr=RATE)
    power = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=1024, hop_length=320, win_length=800,
                                           n_mels=128, fmax=15000)
    return np.log(power + 1e-5).shape[-1]


def has_torchcodec():
    try:
        import torchcodec  # noqa: F401
    except Exception:  # missing, or built for another torch
        return False
    return True


def load_by_torchaudio(path):
    import torchaudio

    return torchaudio.load(path)


def load_by_soundfile(path):
    """Into the shape that torchaudio gives: channels first."""
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return once("torch", import_torch).from_numpy(samples.T), rate


def torchaudio_and_passt(path):
    torch = once("torch", import_torch)
    mel = once("mel", passt_front_end)
    import torchaudio

    load = once("load", lambda: load_by_torchaudio if has_torchcodec() else load_by_soundfile)
    samples, rate = load(path)
    resample = once(("resample", rate), lambda: torchaudio.transforms.Resample(rate, RATE))
    with torch.no_grad():
        return mel(resample(samples.mean(dim=0, keepdim=True))).shape[-1]


PEERS = {
    "librosa + PaSST": librosa_and_passt,
    "librosa": librosa_alone,
    "torchaudio + PaSST": torchaudio_and_passt,
}


def work(task):
    """One recording by one peer; gives the number of frames. At the top level, so that processes find it."""
    name, path = task
    return PEERS[name](path)


def timed(pool, name, files):
    start = time.perf_counter()
    # In processes, some at a time: asking for one by one costs more than it evens out.
    frames = sum(pool.map(work, [(name, file) for file in files], chunksize=4))
    seconds = time.perf_counter() - start
    if frames < len(files):
        sys.exit(f"{name}: {frames} frames of {len(files)} recordings")
    return seconds


def ask_hark(bench, files, threads):
    printed = subprocess.run([bench, "mel", *files, "--threads", str(threads)],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    timing = json.loads(printed)
    if timing["files"] != len(files):
        sys.exit(f"hark read {timing['files']} recordings, expected {len(files)}")
    return timing


def installed(names):
    listed = []
    for name in names:
        try:
            listed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            listed.append(f"{name} missing")
    return ", ".join(listed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="a folder of recordings")
    parser.add_argument("--count", type=int, help="only so many of them, evenly spaced (default all)")
    parser.add_argument("--bench", type=Path, metavar="BINARY",
                        help="the program hark-bench; without it only the peers are measured")
    parser.add_argument("--threads", type=int, default=2, help="threads or workers for all sides (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns for each side (default 5)")
    arguments = parser.parse_args()

    # Read by the libraries when they start, here and in the worker processes.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    import soundfile

    files = sorted(str(path) for path in arguments.data.iterdir() if path.suffix.lower() in ENDINGS)
    if arguments.count:
        files = [files[index * len(files) // arguments.count] for index in range(min(arguments.count, len(files)))]
    if not files:
        sys.exit(f"{arguments.data}: no recordings")
    audio = sum(soundfile.info(file).duration for file in files)
    rates = sorted({soundfile.info(file).samplerate for file in files})
    print(installed(["torch", "torchaudio", "torchcodec", "hear21passt", "librosa", "soxr", "soundfile", "numpy"]))
    print(f"{len(files)} recordings, {audio:.0f} s of sound at {', '.join(map(str, rates))} Hz, "
          f"{arguments.threads} threads or workers, {arguments.rounds} rounds, "
          f"load average before {os.getloadavg()[0]:.1f}")
    once("torch", import_torch)
    if not has_torchcodec():
        print("torchaudio.load has no torchcodec to decode by: soundfile decodes for torchaudio")

    speeds = {name: [] for name in (["hark"] if arguments.bench else []) + list(PEERS)}
    with (
        ProcessPoolExecutor(arguments.threads, mp_context=multiprocessing.get_context("spawn")) as processes,
        ThreadPoolExecutor(arguments.threads) as threads,
    ):
        pools = {"processes": processes, "threads": threads}
        chosen = {}
        for name in PEERS:
            # The first pass of each is the warming up; then the better of two, in turns.
            passes = [{kind: timed(pool, name, files) for kind, pool in pools.items()} for _ in range(3)]
            taken = {kind: min(each[kind] for each in passes[1:]) for kind in pools}
            chosen[name] = min(taken, key=taken.get)
            print(f"{name}: " + ", ".join(f"{kind} {len(files) / seconds:.1f}/s" for kind, seconds in taken.items())
                  + f"; {chosen[name]} taken", flush=True)
        if arguments.bench:
            ask_hark(arguments.bench, files, arguments.threads)
        for turn in range(arguments.rounds):
            for name in speeds:
                if name == "hark":
                    seconds = ask_hark(arguments.bench, files, arguments.threads)["seconds"]
                else:
                    seconds = timed(pools[chosen[name]], name, files)
                speeds[name].append(len(files) / seconds)
            print(f"round {turn + 1}: " + ", ".join(f"{name} {speed[-1]:.1f}/s" for name, speed in speeds.items()),
                  flush=True)

    medians = {name: statistics.median(speed) for name, speed in speeds.items()}
    print("medians: " + ", ".join(f"{name} {speed:.1f} recordings/s ({speed * audio / len(files):.0f} times real time)"
                                  for name, speed in medians.items()))
    if arguments.bench:
        for name in PEERS:
            print(f"hark / {name} = {medians['hark'] / medians[name]:.2f} (above 1: hark is faster)")


if __name__ == "__main__":
    main()
