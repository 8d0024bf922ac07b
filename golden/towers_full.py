#!/usr/bin/env python3
"""Compares `hark embed` with the reference classes on towers of the published sizes.

No weights of PaSST or RoBERTa come as packages, so both get seeded random ones: PaSST-S in the
architecture `passt_s_p16_s16_128_ap468` of hear21passt, and transformers' RobertaModel with the
configuration of roberta-large, as their classes initialise them, but with biases, norms, tokens and
position tables that matter. They are saved in three ways:

  authors.pt     the tuple of the paper's authors: both towers with their projections
  passt.pt       the PaSST state dict alone
  hf-roberta/    RoBERTa alone, as save_pretrained writes it, with its tokenizer

Then four clips of 10 s, made by formulas and written as 32-bit float WAV, and four captions go through
`hark embed` and through the reference: AugmentMelSTFT in evaluation mode and PaSST's feature, the first
token of RoBERTa with every caption padded to 32 tokens, all in float32. From the two towers alone hark
gives features, which are not normalised; from the pair, unit embeddings. The script prints the largest
absolute difference of each part, and ends with 1 if one is over 1e-4. As a measure it also prints how far
the reference's own float32 is from float64.

It needs about 8 GB of disk in the folder for temporary files, and as much memory; not for every day.
Everything is deleted at the end, unless --keep is given.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/towers_full.py --hark target/release/hark

The reference side alone, and later the comparison with what it left behind:

  python golden/towers_full.py --reference-only DIR
  python golden/towers_full.py --from DIR --hark target/release/hark
"""

import argparse
import contextlib
import copy
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

TOLERANCE = 1e-4
RATE = 32000
SECONDS = 10
MAX_TOKENS = 32
VOCABULARY = 800
CAPTIONS = [
    "Bursts of noise are coming and going.",
    "A whistle is rising higher and higher, then it stops",
    "Someone is clicking slowly in a quiet room",
    "A low steady hum with two other tones above it, as of a machine",
]


# ---------------------------------------------------------------- clips, by formula

def noise_bursts(t, noise):
    """Noise, open for 0.3 s of every 0.8 s, ever softer."""
    return 0.6 * noise * (np.mod(t, 0.8) < 0.3) * np.exp(-t / 8.0)


def sweep(t, noise):
    """A sine whose frequency rises from 60 Hz to 14 kHz, the same ratio in every second."""
    ratio = np.log(14000.0 / 60.0) / SECONDS
    return 0.7 * np.sin(2.0 * np.pi * 60.0 * np.expm1(ratio * t) / ratio)


def clicks(t, noise):
    """A click every 0.45 s, a wave of 2.2 kHz that dies within milliseconds; silence between."""
    since = np.mod(t, 0.45)
    return 0.9 * np.sin(2.0 * np.pi * 2200.0 * since) * np.exp(-since / 0.004) * (since < 0.05)


def sines(t, noise):
    """Three tones, one of them throbbing, and a trace of noise; louder towards the end."""
    tones = 0.3 * np.sin(2.0 * np.pi * 110.0 * t) + 0.2 * np.sin(2.0 * np.pi * 997.0 * t + 1.0)
    tones += 0.15 * np.sin(2.0 * np.pi * 6300.0 * t) * (1.0 + np.sin(2.0 * np.pi * 3.0 * t)) / 2.0
    return (tones + 0.001 * noise) * (0.4 + 0.06 * t)


CLIPS = [noise_bursts, sweep, clicks, sines]


def write_clips(folder):
    """Four WAV files of 32-bit floats; gives them as one array as well."""
    import soundfile

    from towers_tiny import splitmix64, unit_interval

    folder.mkdir(parents=True, exist_ok=True)
    count = RATE * SECONDS
    t = np.arange(count, dtype=np.float64) / RATE
    samples = []
    for number, clip in enumerate(CLIPS):
        noise = 2.0 * unit_interval(splitmix64(np.arange(count, dtype=np.uint64) + np.uint64(number << 32))) - 1.0
        samples.append(clip(t, noise).astype(np.float32))
        assert 0.05 < np.abs(samples[-1]).max() < 1.0
        soundfile.write(folder / f"{clip.__name__}.wav", samples[-1], RATE, subtype="FLOAT")
    return np.stack(samples)


def clip_paths(folder):
    return [folder / "clips" / f"{clip.__name__}.wav" for clip in CLIPS]


# ---------------------------------------------------------------- the networks

def build_passt():
    """PaSST-S; the package prints a page at every turn, which nobody needs."""
    from hear21passt.models import passt

    with contextlib.redirect_stdout(io.StringIO()):
        net = passt.get_model(arch="passt_s_p16_s16_128_ap468", pretrained=False, fstride=16, tstride=16,
                              input_tdim=1000)
    passt.first_RUN = False
    return net.eval()


def build_mel():
    from hear21passt.models.preprocess import AugmentMelSTFT

    with contextlib.redirect_stdout(io.StringIO()):
        return AugmentMelSTFT(n_mels=128, sr=RATE, win_length=800, hopsize=320, n_fft=1024, freqm=48, timem=192,
                              htk=False, fmin=0.0, fmax=None, norm=1, fmin_aug_range=10, fmax_aug_range=2000).eval()


def build_roberta():
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=50265, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0,
        eos_token_id=2,
    )
    return RobertaModel(config, add_pooling_layer=False).eval()


def enliven(model, seed):
    """Noise where the class begins with zeros, ones or next to nothing; wider weights of attention.

    With the initial weights attention is flat and every input has almost the same output.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.copy_(1.0 + 0.1 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.05 * noise)
            elif "pos_embed" in name or name.endswith("token"):
                parameter.copy_(0.3 * noise)
            elif "embeddings" in name:
                parameter.copy_(0.1 * noise)
            elif name.endswith(("attn.qkv.weight", "query.weight", "key.weight")):
                parameter.mul_(3.0)


# ---------------------------------------------------------------- the reference side

def make_tokenizer(folder):
    """A folder with a tokenizer.json; gives the loaded tokenizer."""
    from transformers import RobertaTokenizerFast

    from roberta_tokenizer import roberta_tokenizer, train_vocabulary, write_tokenizer

    write_tokenizer(folder, roberta_tokenizer(*train_vocabulary(VOCABULARY)))
    return RobertaTokenizerFast.from_pretrained(folder, model_max_length=MAX_TOKENS)


def unit(rows):
    import torch

    return torch.nn.functional.normalize(rows, dim=-1)


def features(mel, net, roberta, waves, batch):
    """The two towers on all inputs, in the number format of the inputs."""
    import torch

    with torch.no_grad():
        _, audio = net(mel(waves).unsqueeze(1))
        text = roberta(**batch).last_hidden_state[:, 0]
    return audio, text


def describe(name, values):
    """One line on how far from trivial a set of rows is."""
    cosine = unit(values) @ unit(values).T
    off = cosine[~np.eye(len(cosine), dtype=bool)]
    print(f"  {name}: {tuple(values.shape)}, largest {float(values.abs().max()):.3f}, "
          f"cosine between inputs {float(off.min()):.3f} to {float(off.max()):.3f}")


def prepare(folder, seed):
    """Writes weights, clips, tokenizer and what the reference makes of them."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    waves = torch.from_numpy(write_clips(folder / "clips"))
    tokenizer = make_tokenizer(folder / "tokenizer")
    batch = dict(tokenizer(CAPTIONS, padding="max_length", truncation=True, max_length=MAX_TOKENS,
                           return_tensors="pt"))
    # hark cuts at the model's own length, which differs between the pair and RoBERTa alone.
    assert max(len(tokenizer(caption)["input_ids"]) for caption in CAPTIONS) < MAX_TOKENS
    print(f"{len(waves)} clips of {SECONDS} s; captions of {batch['attention_mask'].sum(dim=1).tolist()} tokens")

    torch.manual_seed(seed)
    mel, net, roberta = build_mel(), build_passt(), build_roberta()
    projections = {
        side: torch.nn.Sequential(torch.nn.Linear(width, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
        for side, width in [("audio_proj", 768), ("text_proj", 1024)]
    }
    enliven(net, seed + 1)
    enliven(roberta, seed + 2)
    parts = {"audio_encoder.model.net.": net, "text_encoder.": roberta}
    parts |= {side + ".": layers for side, layers in projections.items()}
    state = {"audio_encoder.model.device_proxy": torch.zeros(1),
             "text_encoder.embeddings.position_ids": torch.arange(514).unsqueeze(0)}
    for prefix, module in parts.items():
        state |= {prefix + name: tensor for name, tensor in module.state_dict().items()}
    torch.save((state, {"state": {}, "param_groups": []}, {}), folder / "authors.pt")
    torch.save(net.state_dict(), folder / "passt.pt")
    roberta.save_pretrained(folder / "hf-roberta")
    shutil.copy(folder / "tokenizer" / "tokenizer.json", folder / "hf-roberta")

    def everything(mel, net, roberta, projections, waves):
        audio, text = features(mel, net, roberta, waves, batch)
        with torch.no_grad():
            return {
                "passt": audio,
                "roberta": text,
                "pair-audio": unit(projections["audio_proj"](audio)),
                "pair-text": unit(projections["text_proj"](text)),
            }

    values = everything(mel, net, roberta, projections, waves)
    expected = folder / "expected"
    expected.mkdir(exist_ok=True)
    for name, rows in values.items():
        np.save(expected / f"{name}.npy", rows.numpy())
        describe(name, rows)
    # The front end makes its mel bands in float32 whatever the input: it stays as it is.
    exact = everything(lambda x: mel(x.float()).double(), net.double(), roberta.double(),
                       {side: copy.deepcopy(layers).double() for side, layers in projections.items()}, waves)
    own = {name: float((values[name].double() - exact[name]).abs().max()) for name in values}
    (expected / "float32_errors.json").write_text(json.dumps(own) + "\n", encoding="utf-8")


# ---------------------------------------------------------------- the comparison

def run(hark, home, *words):
    """One run of hark with its own folder of models."""
    subprocess.run([str(word) for word in (hark, *words)], check=True, env=os.environ | {"HARK_HOME": str(home)})


def compare(folder, scratch, hark, threads):
    """Imports the three files, embeds all inputs and prints the differences; true if all are small."""
    home = scratch / "home"
    # Clips of 10 s, as the authors have them for AudioCaps; the layout's default is Clotho's 30 s.
    run(hark, home, "models", "import", folder / "authors.pt", "--name", "pair", "--tokenizer", folder / "tokenizer",
        "--clip-seconds", SECONDS)
    run(hark, home, "models", "import", folder / "passt.pt", "--name", "passt")
    run(hark, home, "models", "import", folder / "hf-roberta", "--name", "roberta")
    clips = clip_paths(folder)
    texts = [word for caption in CAPTIONS for word in ("--text", caption)]
    errors = json.loads((folder / "expected" / "float32_errors.json").read_text(encoding="utf-8"))
    good = True
    for name, model, inputs in [
        ("passt", "passt", clips),
        ("roberta", "roberta", texts),
        ("pair-audio", "pair", clips),
        ("pair-text", "pair", texts),
    ]:
        out = scratch / f"{name}.npy"
        start = time.perf_counter()
        run(hark, home, "embed", *inputs, "--model", model, "--threads", threads, "-o", out)
        seconds = time.perf_counter() - start
        ours, reference = np.load(out), np.load(folder / "expected" / f"{name}.npy")
        if ours.shape != reference.shape:
            print(f"{name}: shape {ours.shape}, expected {reference.shape}  FAILED")
            good = False
            continue
        difference = np.abs(ours.astype(np.float64) - reference.astype(np.float64))
        largest = difference.max()
        row, column = np.unravel_index(difference.argmax(), difference.shape)
        # NaN compares false with everything, so ask for what must hold.
        small = bool(largest <= TOLERANCE)
        good &= small
        print(f"{name}: largest absolute difference {largest:.2e} (row {row}, component {column}), tolerance "
              f"{TOLERANCE:.0e}; the reference's own float32 error {errors[name]:.1e}; {seconds:.1f} s with loading  "
              f"{'ok' if small else 'FAILED'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", type=Path, metavar="BINARY", help="the hark program")
    parser.add_argument("--reference-only", type=Path, metavar="DIR",
                        help="write weights, inputs and expected values into DIR, and stop")
    parser.add_argument("--from", type=Path, metavar="DIR", dest="made", help="use what --reference-only wrote")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder and say where it is")
    parser.add_argument("--seed", type=int, default=23, help="seed of the weights")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    arguments = parser.parse_args()
    if (arguments.hark is None) == (arguments.reference_only is None):
        parser.error("give either --hark or --reference-only")
    if arguments.made and arguments.reference_only:
        parser.error("--from and --reference-only exclude each other")

    if not arguments.made:
        import torch

        torch.version.cuda = None  # nothing runs on a GPU; see towers_tiny.py
        import transformers

        warnings.filterwarnings("ignore", message=".*return_complex|.*autocast")
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(arguments.threads)
        names = ["torch", "torchaudio", "transformers", "tokenizers", "hear21passt", "numpy"]
        print(", ".join(f"{name} {version(name)}" for name in names))
    if arguments.reference_only:
        prepare(arguments.reference_only, arguments.seed)
        return

    scratch = Path(tempfile.mkdtemp(prefix="towers-"))
    try:
        folder = arguments.made
        if folder is None:
            folder = scratch / "reference"
            prepare(folder, arguments.seed)
        good = compare(folder, scratch, arguments.hark, arguments.threads)
    finally:
        if arguments.keep:
            print(f"left behind: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
