#!/usr/bin/env python3
"""The winner of the 2024 challenge in small, from caption text and samples to metrics.

Writes into one folder:

  winner.ckpt    a seeded checkpoint in the layout of the published one: a Lightning dict with PaSST-S (stride 16, 10 s) and
                 RoBERTa, each with one linear layer behind it, and tensors that nothing reads. All is as published but the widths
                 and the numbers of layers, and the vocabulary, which is that of towers_tiny.py. A head is 64 wide, as there.
  expected.json  lengths and parameters of twelve recordings that are made by a formula, the sixty captions, their scores with
                 all recordings, and the metrics of both directions

The reference is the system as its authors describe it. Captions are lower-cased, punctuation is removed, and 32 tokens are
kept. A recording is cut into segments of 10 s, the last one filled up with zeros. Each goes through AugmentMelSTFT and PaSST of
hear21passt; only segments that begin within the recording are averaged. All is computed in float64 on the float32 weights of
the file. The script asserts that no two scores of a ranking are so close that rounding could change a metric.

Run, from the root of the repository, after towers_tiny.py:

  pip install -r golden/requirements.txt
  python golden/winner.py --out crates/hark/tests/golden/winner
"""

import argparse
import json
import string
import warnings
from pathlib import Path

import numpy as np
import torch

import towers_tiny
from mel import reference_class
from towers_tiny import MAX_TOKENS, VERSIONS, Segments, reference_passt
from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

RATE = 32000
SEGMENT = 10 * RATE
# One head of 64, which is the width from which the number of heads is told.
WIDTH = 64
EMBEDDING = 32
K = 10
# The least difference of two scores in one ranking: a hundred times what 32 bits round.
LEAST_GAP = 1e-5

# Thousandths of a second; some are whole segments, one is the shortest and one nearly three segments.
LENGTHS = [15000, 29900, 10000, 2500, 20000, 17321, 10010, 24000, 6000, 19990, 12345, 21000]
THINGS = ["dog", "train", "church bell", "river", "violin", "crowd", "motor bike", "hen", "door", "kettle", "saw", "wind"]
PLACES = ["garden", "station", "village", "valley", "hall", "stadium", "street", "barn", "cellar", "kitchen", "workshop", "attic"]


def caption(clip, nth):
    """Five captions of a clip: capitals and punctuation to be removed, and one that is longer than the model reads."""
    thing, place = THINGS[clip], PLACES[clip]
    other = THINGS[(5 * clip + 3) % len(THINGS)]
    return [
        f"A {thing} is heard in the {place}.",
        f"{thing.upper()}, and then: a {other}!",
        f"Somebody's {thing} (far away) in a noisy {place}",
        f"In the {place} the {thing} begins quietly, becomes louder and louder, stops; a {other} follows, and both of them are "
        f"heard again and again until the end of the recording.",
        f"The \"{thing}\" - loud & clear - somewhere in the {place}...",
    ][nth]


def samples(clip):
    """16-bit samples of a clip, in whole numbers: a tone that rises, and noise.

    The tone is a triangle of the phase t * pitch + t * t / slowness, a turn of which is 65,536.
    """
    count = LENGTHS[clip] * RATE // 1000
    t = np.arange(count, dtype=np.uint64)
    pitch, slowness, noise = parameters(clip)
    phase = (t * np.uint64(pitch) + t * t // np.uint64(slowness)) & np.uint64(0xFFFF)
    tone = np.abs(phase.astype(np.int64) - 32768) - 16384
    hiss = (towers_tiny.splitmix64(t + np.uint64(clip << 40)) >> np.uint64(50)).astype(np.int64) - 8192
    return (tone * (16 - noise) // 16 + hiss * noise // 16).astype(np.int16)


def parameters(clip):
    """Pitch, slowness of its rise, and the share of noise in sixteenths."""
    return 150 + 437 * clip, 2000 + 3000 * ((7 * clip) % 12), (5 * clip) % 13


class Winner(torch.nn.Module):
    """The dual encoder under the names of the challenge winner, with the tensors that nothing reads."""

    def __init__(self):
        super().__init__()
        self.tau = torch.nn.Parameter(torch.full((1,), 0.05))
        self.timing_tau = torch.nn.Parameter(torch.full((1,), 0.05))
        self.audio_token = torch.nn.Parameter(torch.zeros(1, 1, WIDTH))
        passt = reference_passt.PaSST(img_size=(128, 998), patch_size=16, stride=(16, 16), embed_dim=WIDTH, depth=2, num_heads=1,
                                      mlp_ratio=1, distilled=True, num_classes=4)
        self.audio_embedding_model = Segments(Segments(passt))
        self.sentence_embedding_model = RobertaModel(RobertaConfig(
            vocab_size=towers_tiny.VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=1, intermediate_size=32,
            max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.2,
            attention_probs_dropout_prob=0.2, pad_token_id=1, bos_token_id=0, eos_token_id=2, attn_implementation="eager",
        ), add_pooling_layer=False)
        self.project_audio = torch.nn.Sequential(torch.nn.Linear(WIDTH, EMBEDDING))
        self.project_sentence = torch.nn.Sequential(torch.nn.Linear(WIDTH, EMBEDDING))
        self.posencode = torch.nn.Embedding(8, WIDTH)
        self.audio_output_projection = torch.nn.Linear(WIDTH, WIDTH)

    def audio(self, segments):
        """One unit embedding of the segments' log-mels `[segments, mels, frames]`."""
        _, features = self.audio_embedding_model.model.model(segments.unsqueeze(1))
        return torch.nn.functional.normalize(self.project_audio(features).mean(dim=0), dim=-1)

    def text(self, ids):
        features = self.sentence_embedding_model(input_ids=ids.unsqueeze(0)).last_hidden_state[0, 0]
        return torch.nn.functional.normalize(self.project_sentence(features), dim=-1)


def prepared(text):
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def log_mels(waveform):
    """`[segments, mels, frames]` of the segments that begin within the recording."""
    count = -(-len(waveform) // SEGMENT)
    filled = np.zeros(count * SEGMENT)
    filled[: len(waveform)] = waveform
    torch.set_default_dtype(torch.float64)
    try:
        mel = reference_class()(n_mels=128, sr=RATE, win_length=800, hopsize=320, n_fft=1024, freqm=48, timem=192, htk=False,
                                fmin=0.0, fmax=15000.0, norm=1, fmin_aug_range=10, fmax_aug_range=2000).eval()
        return mel(torch.from_numpy(filled.reshape(count, SEGMENT)))
    finally:
        torch.set_default_dtype(torch.float32)


def metrics(scores, relevant):
    """mAP@10 over all relevant items, and the share of the relevant items among the first 1, 5 and 10, of `[queries, items]`."""
    order = np.argsort(-scores, axis=1)
    hits = np.take_along_axis(relevant, order, axis=1)[:, :K]
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    wanted = relevant.sum(axis=1)
    found = {"map": ((precision * hits).sum(axis=1) / wanted).mean()}
    for k in (1, 5, 10):
        found[f"recall_{k}"] = (hits[:, :k].sum(axis=1) / wanted).mean()
    return found


def save(path, seed):
    """The checkpoint, as towers_tiny.py writes one: with an optimizer, settings and progress."""
    tiny = towers_tiny.Winner
    towers_tiny.Winner = Winner
    try:
        towers_tiny.save_winner(path, seed)
    finally:
        towers_tiny.Winner = tiny


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that receives the files")
    parser.add_argument("--seed", type=int, default=45, help="seed of the weights")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Input image size")
    reference_passt.first_RUN = False
    torch.set_num_threads(2)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "winner.ckpt"
    save(path, arguments.seed)

    model = Winner()
    model.load_state_dict(torch.load(path, weights_only=False)["state_dict"])
    model = model.double().eval()
    tokenizer = RobertaTokenizerFast.from_pretrained("crates/encode/tests/golden/towers/tokenizer-json")
    captions = [caption(clip, nth) for clip in range(len(LENGTHS)) for nth in range(5)]
    tokens = [tokenizer(prepared(text), truncation=True, max_length=MAX_TOKENS)["input_ids"] for text in captions]
    assert sum(len(ids) == MAX_TOKENS for ids in tokens) >= len(LENGTHS)
    with torch.no_grad():
        text = torch.stack([model.text(torch.tensor(ids)) for ids in tokens]).numpy()
        audio = np.stack([model.audio(log_mels(samples(clip) / 32768.0)).numpy() for clip in range(len(LENGTHS))])
    scores = text @ audio.T
    for name, table in [("text to audio", scores), ("audio to text", scores.T)]:
        ordered = np.sort(table, axis=1)
        gap = np.diff(ordered, axis=1).min()
        print(f"{name}: scores from {table.min():.3f} to {table.max():.3f}, least difference in a ranking {gap:.1e}")
        assert gap > LEAST_GAP, name
    relevant = np.arange(len(captions))[:, None] // 5 == np.arange(len(LENGTHS))[None, :]
    document = {
        "made_by": "golden/winner.py", "versions": VERSIONS, "seed": arguments.seed,
        "clips": [{"thousandths": length, "pitch": pitch, "slowness": slowness, "noise": noise}
                  for length, (pitch, slowness, noise) in zip(LENGTHS, map(parameters, range(len(LENGTHS))))],
        "captions": captions,
        "scores": [[round(score, 9) for score in row] for row in scores.tolist()],
        "text_to_audio": metrics(scores, relevant),
        "audio_to_text": metrics(scores.T, relevant.T),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if not isinstance(value, list)]
    for key in ("clips", "captions", "scores"):
        rows = ",\n".join("    " + json.dumps(row) for row in document[key])
        lines.append(f'  "{key}": [\n{rows}\n  ]')
    (arguments.out / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{path.stat().st_size} bytes; tokens {min(map(len, tokens))} to {max(map(len, tokens))}; "
          f"text to audio {document['text_to_audio']}; audio to text {document['audio_to_text']}")


if __name__ == "__main__":
    main()
