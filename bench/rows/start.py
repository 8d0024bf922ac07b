"""`hark search` from the start of the process to its end: nothing is warm but the operating system's cache of files. No peer.

A library of 10,000 generated recordings, with the built-in model everyday and with PaSST-S and RoBERTa-large of random weights, whose
text tower reads the query. The seconds are those of the whole process, 20 times, each time with another query.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

from rows.row import Row, answer, load_torch, peer_parser, silence
from rows.sentence import generated

RUNS = 20


def prepare(arguments):
    home = arguments.work / "home"
    shutil.rmtree(home, ignore_errors=True)
    model = "everyday"
    if arguments.model == "roberta-large":
        model = home / "models" / "pair"
        import_pair(arguments, home)
    command = [arguments.bench, "library", "make", home / "libraries" / "default", "--files", str(arguments.count), "--model", model]
    (home / "libraries").mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    answer()


def import_pair(arguments, home):
    """Both towers of random weights, in the layout of the paper's authors, imported by hark."""
    from rows.step import build

    torch = load_torch(os.cpu_count())
    model = build(torch, "full", dropout=False)
    names = {"audio.": "audio_encoder.model.net.", "text.": "text_encoder.", "audio-projection.": "audio_proj.",
             "text-projection.": "text_proj."}
    state = {}
    for name, tensor in model.state_dict().items():
        prefix = next(each for each in names if name.startswith(each))
        state[names[prefix] + name.removeprefix(prefix)] = tensor
    del model
    file = arguments.work / "authors.pt"
    torch.save((state, {"state": {}, "param_groups": []}, {}), file)
    tokenizer(arguments.work / "tokenizer")
    subprocess.run([arguments.hark, "models", "import", file, "--name", "pair", "--tokenizer", arguments.work / "tokenizer",
                    "--clip-seconds", "10"], check=True, stdout=subprocess.DEVNULL, env=os.environ | {"HARK_HOME": str(home)})
    file.unlink()


def tokenizer(folder):
    """A byte-level tokenizer with RoBERTa's special tokens, trained on generated captions."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(generated(500), trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=alphabet,
                                                                show_progress=False))
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))


def search(arguments):
    env = os.environ | {"HARK_HOME": str(arguments.work / "home")}
    seconds = []
    for query in generated(arguments.repeat + 1):
        command = [arguments.hark, "search", "--json", "--threads", str(arguments.threads), query.rstrip(".")]
        start = time.perf_counter()
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env).stdout
        seconds.append(time.perf_counter() - start)
        if not json.loads(printed)["hits"]:
            sys.exit(f"no hits for: {query}")
    # The first process fills the cache of files.
    answer(seconds=seconds[1:], count=1)


class Start(Row):
    peers = []
    packages = ["torch", "transformers", "hear21passt"]

    def __init__(self, model, text):
        self.model = model
        self.name = f"start-{model}"
        self.what = f"hark search among 10,000 recordings, from process start to answer, {text}"

    def count(self, options):
        return 1_000 if options.quick else 10_000

    def settings(self, options):
        # A library belongs to the version of its catalogue.
        return {"count": self.count(options), "version": subprocess.run([options.hark, "--version"], check=True, capture_output=True,
                                                                        text=True).stdout.strip()}

    def run(self, python, side, options, folder, *more):
        return [python, "-m", "rows.start", side, "--work", folder, "--model", self.model, "--hark", options.hark,
                "--bench", options.bench, "--threads", options.threads, *more]

    def prepare(self, options, folder):
        return self.run(options.python, "prepare", options, folder, "--count", self.count(options))

    def ours(self, options, folder, output, check):
        # This Python has loaded nothing, so that the peak memory is that of hark.
        return self.run(sys.executable, "search", options, folder, "--repeat", 1 if check else 3 if options.quick else RUNS)


ROWS = [Start("everyday", "everyday"), Start("roberta-large", "RoBERTa-large")]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--hark", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True)
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    (prepare if arguments.side == "prepare" else search)(arguments)


if __name__ == "__main__":
    main()
