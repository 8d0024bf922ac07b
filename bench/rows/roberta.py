"""Captions through RoBERTa-large and RoBERTa-base: transformers on torch and ONNX Runtime.

Both sides compute the first token's features of the same token ids: captions of 8 to 30 tokens, 15 on average, sorted by length
as sentence-transformers sorts them, with the same random weights. Tokenizing and loading are not counted. With a batch of 1 a
row measures the latency of one query after the other; with 32, throughput. torch and ONNX Runtime get a mask and pad a batch to
its longest caption; hark computes captions of one length together and no padding.
"""

from rows import inference
from rows.row import Row

SIZES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}
VOCABULARY = 50265
SHORTEST, LONGEST = 8, 30


def roberta_config(**changes):
    from transformers import RobertaConfig

    return RobertaConfig(**{
        "vocab_size": VOCABULARY, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "attn_implementation": "sdpa", **changes,
    })


def token_rows(np, count, vocabulary, seed):
    """Token ids of captions, padded with zeros: each begins with <s>, which is 0, and ends with </s>."""
    random = np.random.default_rng(seed)
    lengths = np.clip(np.rint(random.normal(15, 5, count)), SHORTEST, LONGEST).astype(int)
    rows = np.zeros((count, LONGEST), dtype=np.float32)
    for row, length in zip(rows, lengths):
        row[1:length - 1] = random.integers(4, vocabulary, length - 2)
        row[length - 1] = 2
    return rows


def lengths_of(np, rows):
    return rows.shape[1] - np.argmax(rows[:, ::-1] > 0, axis=1)


def padded(np, rows):
    """Ids and mask of a batch, padded to its longest caption."""
    ids = rows.astype(np.int64)
    lengths = lengths_of(np, ids)
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    return [np.where(mask, ids[:, : lengths.max()], 1), mask]


class RobertaNetwork(inference.Network):
    dynamic = [{0: "texts", 1: "tokens"}, {0: "texts", 1: "tokens"}]

    def __init__(self, sizes):
        self.sizes = sizes

    def build(self, torch, arguments):
        from transformers import RobertaModel

        class FirstToken(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                self.roberta = RobertaModel(roberta_config(**SIZES[arguments.size]), add_pooling_layer=False)

            def forward(self, ids, mask):
                return self.roberta(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]

        return FirstToken().eval()

    def state(self, module):
        return module.roberta.state_dict()

    def make_inputs(self, np, count):
        return token_rows(np, count, VOCABULARY, 3)

    def order(self, np, rows):
        return rows[np.argsort(lengths_of(np, rows), kind="stable")]

    def batch(self, np, rows):
        return padded(np, rows)


class Roberta(Row):
    peers = inference.PEERS
    precisions = ["bf16", "int8"]
    packages = ["transformers", *inference.PACKAGES]

    def __init__(self, size, batch):
        self.size, self.at_a_time = size, batch
        self.name = f"roberta-{size}-{batch}"
        self.folder = f"roberta-{size}"
        self.what = f"captions through RoBERTa-{size}, " + ("one by one" if batch == 1 else f"{batch} at a time")

    def count(self, options):
        return (8 if self.at_a_time == 1 else 32) if options.quick else (32 if self.at_a_time == 1 else 128)

    def settings(self, options):
        return {"size": self.size, "count": 128}

    def prepare(self, options, folder):
        return [options.python, "-m", "rows.roberta", "prepare", "--work", folder, "--size", self.size, "--count", 128]

    def ours(self, options, folder, output, check):
        return [options.bench, "roberta", "--size", self.size, "--texts", self.count(options), "--batch", self.at_a_time,
                "--threads", options.threads, "--warm-up", *options.at_precision(), "--weights", folder / "weights.safetensors",
                "--inputs", folder / "inputs.npy", "--output", output]

    def theirs(self, peer, options, folder, output, check, choice):
        return [options.python, "-m", "rows.roberta", peer, "--work", folder, "--size", self.size, "--count", self.count(options),
                "--threads", options.threads, "--output", output, "--batch", self.at_a_time]


ROWS = [Roberta(size, batch) for size in ("large", "base") for batch in (1, 32)]

if __name__ == "__main__":
    inference.main(RobertaNetwork([1, 32]), __doc__, lambda parser: parser.add_argument("--size", choices=SIZES, required=True))
