"""From file to log-mel: librosa or torchaudio, with PaSST's front end.

Every side decodes the same recordings, brings them to mono at 32 kHz and computes 128 log-mel bands with PaSST's frames (window 800,
hop 320, FFT 1024), one recording at a time, as many at once as there are threads. Recordings are those of --audio, or 120 FLAC files
of 5 s at 44.1 kHz that are generated. Peers:

- librosa: librosa.load(sr=32000), whose default is soxr's high quality, then hear21passt's AugmentMelSTFT on torch: what a user of
  PaSST runs. (It makes its mel bands anew for every recording; that is part of what is measured.)
- torchaudio: soundfile decodes, torchaudio.transforms.Resample, AugmentMelSTFT. (torchaudio.load itself needs torchcodec.) The default
  filter of Resample is 6 zero crossings long and less steep than those of the others: it changes mean log-mels by up to 0.1, and
  some files miss the agreement below. The filter here has 64 zero crossings and a roll-off of 0.95, with which mean log-mels have a
  cosine of 0.9999999 to librosa's. It is slower than the default.

A peer works with threads and with processes, each with one thread for its arithmetic; the faster is kept. Workers start, import and
build their front end before the clock starts. Memory is not compared: processes share none. Results are log-mels averaged over frames.
"""

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from harness import agreement
from rows.row import Row, answer, fastest, load_torch, peer_parser, silence, timed

RATE = 32_000
ENDINGS = {".flac", ".wav", ".ogg", ".mp3", ".aif", ".aiff"}
# Resamplers differ near the upper end of the band.
COSINE = 0.999
# A filter of torchaudio's that is as sharp as soxr's and hark's.
SHARP = {"lowpass_filter_width": 64, "rolloff": 0.95}

# One entry for each thing that a worker builds once: front ends and resamplers.
BUILT = {}


def once(key, build):
    if key not in BUILT:
        BUILT[key] = build()
    return BUILT[key]


def front_end():
    warnings.filterwarnings("ignore")
    once("torch", lambda: load_torch(1))
    from hear21passt.models.preprocess import AugmentMelSTFT

    return AugmentMelSTFT(n_mels=128, sr=RATE, win_length=800, hopsize=320, n_fft=1024, freqm=48, timem=192, htk=False, fmin=0.0,
                          fmax=15_000, norm=1, fmin_aug_range=10, fmax_aug_range=2000).eval()


def by_librosa(path):
    import librosa

    torch = once("torch", lambda: load_torch(1))
    return torch.from_numpy(librosa.load(path, sr=RATE)[0]).unsqueeze(0)


def by_torchaudio(path):
    torch = once("torch", lambda: load_torch(1))
    import soundfile
    import torchaudio

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    resample = once(("resample", rate), lambda: torchaudio.transforms.Resample(rate, RATE, **SHARP))
    return resample(torch.from_numpy(samples.mean(axis=1)).unsqueeze(0))


PEERS = {"librosa": by_librosa, "torchaudio": by_torchaudio}


def work(task):
    """The mean log-mel of one recording by one peer. At the top level, so that processes find it."""
    peer, path = task
    torch = once("torch", lambda: load_torch(1))
    mel = once("mel", front_end)
    with torch.no_grad():
        return mel(PEERS[peer](path))[0].mean(dim=-1).numpy()


def recordings(arguments):
    return sorted(str(path) for path in arguments.audio.iterdir() if path.suffix.lower() in ENDINGS)[: arguments.count]


def measure(arguments):
    import numpy as np

    files = recordings(arguments)
    tasks = [(arguments.side, file) for file in files]
    with (ProcessPoolExecutor(arguments.threads, mp_context=multiprocessing.get_context("spawn")) as processes,
          ThreadPoolExecutor(arguments.threads) as threads):
        pools = {"processes": processes, "threads": threads}

        def run(kind):
            # In processes, some at a time: asking for one by one costs more than it evens out.
            return list(pools[kind].map(work, tasks, chunksize=4))

        choice = arguments.choice or fastest(run, list(pools))
        seconds, means = timed(lambda: run(choice), arguments.repeat)
    np.save(arguments.output, np.stack(means).astype(np.float32))
    answer(seconds=seconds, count=len(files), choice=choice)


def prepare(arguments):
    """Bursts of filtered noise and tones, another mixture in each file."""
    import numpy as np
    import soundfile

    random = np.random.default_rng(8)
    rate, seconds = 44_100, 5
    t = np.arange(rate * seconds) / rate
    arguments.audio.mkdir(exist_ok=True)
    for number in range(arguments.count):
        noise = np.fft.irfft(np.fft.rfft(random.standard_normal(len(t))) / (1 + np.arange(len(t) // 2 + 1) / random.uniform(50, 50_000)))
        samples = noise / np.abs(noise).max() * (np.mod(t, random.uniform(0.3, 2)) < 0.5)
        samples = samples + np.sin(2 * np.pi * random.uniform(60, 9_000) * t) * np.exp(-t / random.uniform(0.2, 3))
        soundfile.write(arguments.audio / f"{number:04}.flac", (0.4 * samples).astype(np.float32), rate, subtype="PCM_16")
    answer()


class Mel(Row):
    name = "mel"
    what = "recordings from file to log-mel"
    peers = list(PEERS)
    packages = ["librosa", "soxr", "soundfile", "torchaudio", "torch", "hear21passt", "numpy"]
    memory = False

    def audio(self, options, folder):
        return options.audio or folder / "audio"

    def count(self, options):
        return 24 if options.quick else 120

    def settings(self, options):
        return {"count": 120, "audio": str(options.audio)}

    def environment(self, options):
        return {name: "1" for name in super().environment(options)}

    def peer(self, side, options, folder, *more):
        return [options.python, "-m", "rows.mel", side, "--work", folder, "--audio", self.audio(options, folder),
                "--threads", options.threads, *more]

    def prepare(self, options, folder):
        return None if options.audio else self.peer("prepare", options, folder, "--count", 120)

    def ours(self, options, folder, output, check):
        files = sorted(path for path in Path(self.audio(options, folder)).iterdir() if path.suffix.lower() in ENDINGS)
        return [options.bench, "mel", *files[: self.count(options)], "--threads", options.threads, "--output", output, "--warm-up",
                "--repeat", 1 if check else 3]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--count", self.count(options), "--output", output, "--repeat", 1 if check else 3,
                         *(["--choice", choice] if choice else []))

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        return agreement.cosines(agreement.read_npy(our_output), agreement.read_npy(their_output), COSINE)


ROWS = [Mel()]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--audio", type=Path, required=True)
    parser.add_argument("--choice", choices=["processes", "threads"])
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    (prepare if arguments.side == "prepare" else measure)(arguments)


if __name__ == "__main__":
    main()
