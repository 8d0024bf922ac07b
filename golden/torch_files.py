#!/usr/bin/env python3
"""Small files as PyTorch saves them, with what PyTorch itself reads from them.

Writes into a folder, over what is there:

  plain.pt, plain_legacy.pt      the state dict of a small module, in the zip layout and in the stream
                                 that torch.save wrote before version 1.6
  views.pt, views_legacy.pt      parts of shared storages: slices, transposed, reversed in order of
                                 dimensions, expanded, overlapping, single numbers, empty tensors
  types.pt, types_legacy.pt      every type of element, and numbers that are not ordinary
  protocol1.pt .. protocol5.pt   the same state dict in other protocols of pickle (1 is the stream)
  no_checksums.pt                a zip archive whose checksums are all 0
  attributes.pt                  parameters, and tensors that carry attributes of their own
  tuple.pt                       (model, AdamW, gradient scaler), as training loops save it
  model_part.pth                 {"model": ..., "args": argparse.Namespace, ...}
  lightning.ckpt                 the layout of a Lightning checkpoint, with objects of many classes
                                 in its settings, and an optimiser's state
  foreign_entries.pt             a state dict with a sparse and a quantised tensor and other objects in it
  whole_model.pt, script.pt      a module saved as an object, and TorchScript: both to be refused

and `expected.json`: for each file, type, shape and values of every tensor of its state dict, as
torch.load gives them. Numbers are those of `tensor.float()`; a tensor that is not of floating point has
none. The values come from a seeded generator. The legacy files hold addresses of memory as the names of
storages, so that they are not the same byte for byte when made anew.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/torch_files.py --out crates/torchfile/tests/golden/torch
"""

import argparse
import collections
import datetime
import decimal
import enum
import functools
import io
import json
import math
import pathlib
import warnings
import zipfile

import numpy as np
import torch
from torch import nn

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
NEWER = (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2)


class Settings:
    """A class that no reader knows."""

    def __init__(self):
        self.width = 8
        self.nested = {"tensor": torch.arange(3.0), "self": self}


class Words(dict):
    """A dictionary of a class of its own."""


class Colour(enum.Enum):
    RED = 1


def model(generator):
    """A small module with parameters, floating buffers and an integer buffer."""
    module = nn.Sequential(
        collections.OrderedDict(linear=nn.Linear(3, 4), norm=nn.BatchNorm1d(4), embed=nn.Embedding(5, 2))
    )
    with torch.no_grad():
        for _, tensor in sorted(module.state_dict().items()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return module


def views(generator):
    base = torch.randn(4, 6, generator=generator)
    line = torch.randn(10, generator=generator)
    return {
        "whole": base,
        "row": base[2],
        "column": base[:, 1],
        "block": base[1:3, 2:5],
        "steps": base[::2, ::3],
        "transposed": base.t(),
        "turned": torch.randn(2, 3, 4, generator=generator).permute(2, 0, 1),
        "channels last": torch.randn(2, 3, 2, 2, generator=generator).to(memory_format=torch.channels_last),
        "expanded": line[3:4].expand(5),
        "expanded rows": line[:3].expand(4, 3),
        "expanded columns": line[:3].unsqueeze(1).expand(3, 4),
        "windows": line.unfold(0, 4, 2),
        "overlapping": line.unfold(0, 7, 1),
        "diagonal": base.diagonal(),
        "number": torch.tensor(2.5),
        "number in a storage": line[7],
        "one by one": line[9:].reshape(1, 1),
        "empty": torch.empty(0),
        "empty rows": torch.empty(0, 3),
        "empty columns": base[:, :0],
        "the same again": base,
        "half, transposed": torch.randn(3, 2, generator=generator).half().t(),
        "кошка.猫.🐈": torch.tensor([1.0, -1.0]),
        "": torch.tensor([3.0]),
    }


def types(generator):
    numbers = torch.randn(7, generator=generator)
    odd = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-40, 3.4e38, 1 / 3])
    tensors = {f"{dtype}".split(".")[1]: numbers.to(dtype) for dtype in FLOATS}
    tensors |= {f"odd {name}": odd.to(dtype) for name, dtype in (("f32", torch.float32), ("f16", torch.float16),
                                                                 ("bf16", torch.bfloat16))}
    tensors["odd f64"] = torch.tensor([1e300, -1e300, 1e-300, math.nan, math.pi, 16777217.0], dtype=torch.float64)
    # Halves with the smallest and largest fractions that are not normal.
    tensors["small f16"] = torch.tensor([6e-8, 6.1e-5, 65504.0, 1e-7]).half()
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
                  torch.complex128, *NEWER):
        tensors[f"{dtype}".split(".")[1]] = torch.tensor([0, 1, 2, 3]).to(dtype)
    return tensors


def attributes(generator):
    tagged = torch.randn(2, 2, generator=generator)
    tagged.note = "kept in training"
    parameter = nn.Parameter(torch.randn(3, generator=generator))
    parameter.no_decay = True
    return {
        "parameter": nn.Parameter(torch.randn(2, 3, generator=generator)),
        "fixed parameter": nn.Parameter(torch.randn(2, generator=generator), requires_grad=False),
        "parameter with an attribute": parameter,
        "tensor with an attribute": tagged,
        "buffer": nn.Buffer(torch.randn(2, generator=generator)),
    }


def trained(module, generator):
    """The states of an optimiser and a scaler after two steps."""
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for _ in range(2):
        out = module.norm(module.linear(torch.randn(6, 3, generator=generator)))
        loss = (out * torch.randn(6, 4, generator=generator)).sum() + module.embed.weight.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return optimiser.state_dict(), torch.amp.GradScaler("cpu").state_dict()


def settings():
    """Objects of many classes, as they turn up in saved hyper-parameters."""
    words = Words(one=1)
    itself = ["a list that holds itself"]
    itself.append(itself)
    counted = collections.defaultdict(list)
    counted["key"].append(1)
    return {
        "namespace": argparse.Namespace(lr=1e-3, layers=[1, 2]),
        "path": pathlib.PurePosixPath("data/clips"),
        "numpy scalar": np.float64(0.25),
        "numpy array": np.arange(3),
        "own class": Settings(),
        "own dictionary": words,
        "class": nn.Linear,
        "function": torch.nn.functional.relu,
        "partial": functools.partial(torch.optim.AdamW, lr=0.1),
        "enum": Colour.RED,
        "date": datetime.datetime(2024, 1, 2),
        "decimal": decimal.Decimal("1.5"),
        "set": {1, 2},
        "frozen set": frozenset([3]),
        "complex": 1 + 2j,
        "huge": -(1 << 300),
        "negative": -5,
        "long": 1 << 40,
        "bytes": b"\x00\xff",
        "byte array": bytearray(b"\x01"),
        "float": 1e-3,
        "flags": (True, False, None, ...),
        "range": range(3),
        "itself": itself,
        "counted": counted,
        "ordered": collections.OrderedDict(a=1),
        "device": torch.device("cpu"),
        "type": torch.float16,
        "size": torch.Size([1, 2]),
        "long text": "x" * 300,
        "half of a pair": "\ud83d",
    }


def lightning(module, optimiser):
    return {
        "epoch": 3,
        "global_step": 1200,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": collections.OrderedDict((f"net.{k}", v) for k, v in module.state_dict().items()),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 4}}}},
        "callbacks": {"ModelCheckpoint{'monitor': 'loss'}": {"best": torch.tensor(0.5), "own": Settings()}},
        "optimizer_states": [optimiser],
        "lr_schedulers": [{"base_lrs": [1e-3], "last_epoch": 3}],
        "hparams_name": "settings",
        "hyper_parameters": settings(),
    }


def foreign_entries(generator):
    return {
        "weight": torch.randn(2, 2, generator=generator),
        "sparse": torch.eye(2).to_sparse(),
        "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "conjugated": torch.tensor([1 + 2j]).conj(),
        "meta": torch.empty(2, device="meta"),
        "own": Settings(),
        "count": 7,
        "nothing": None,
        "text": "words",
        "nested": {"weight": torch.ones(1)},
        5: torch.ones(1),
    }


def state_dict_of(loaded):
    """Where the state dict of each kind of file is."""
    if isinstance(loaded, tuple):
        return loaded[0]
    for part in ("state_dict", "model"):
        if part in loaded:
            return loaded[part]
    return loaded


def readable(value):
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and not (
        value.is_quantized or value.is_meta or value.is_conj()
    )


def number(value):
    """A number for JSON, which has no infinities: those are texts."""
    return value if math.isfinite(value) else str(value)


def described(tensor):
    values = None
    if tensor.dtype in FLOATS:
        values = [number(v) for v in tensor.detach().float().reshape(-1).tolist()]
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "values": values}


def expected(path):
    loaded = torch.load(path, weights_only=False)
    tensors = {k: described(v) for k, v in state_dict_of(loaded).items() if isinstance(k, str) and readable(v)}
    assert tensors, path
    return tensors


def write(out, seed):
    generator = torch.Generator().manual_seed(seed)
    module = model(generator)
    optimiser, scaler = trained(module, generator)
    state = module.state_dict()
    files = {"plain": state, "views": views(generator), "types": types(generator)}
    for name, content in files.items():
        torch.save(content, out / f"{name}.pt")
        # PyTorch writes the newer types into the stream too, and cannot read them from there.
        older = collections.OrderedDict((k, v) for k, v in content.items() if v.dtype not in NEWER)
        torch.save(older, out / f"{name}_legacy.pt", _use_new_zipfile_serialization=False)
    for protocol in (3, 4, 5):
        torch.save(state, out / f"protocol{protocol}.pt", pickle_protocol=protocol)
    # The zip layout is never written in protocol 1, which PyTorch's reader of zip files cannot read.
    torch.save(state, out / "protocol1.pt", pickle_protocol=1, _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    torch.save(state, out / "no_checksums.pt")
    torch.serialization.set_crc32_options(True)
    torch.save(attributes(generator), out / "attributes.pt")
    torch.save((state, optimiser, scaler), out / "tuple.pt")
    torch.save({"args": argparse.Namespace(a=1), "epoch": 2, "model": state, "optimizer": optimiser},
               out / "model_part.pth")
    torch.save(lightning(module, optimiser), out / "lightning.ckpt")
    torch.save(foreign_entries(generator), out / "foreign_entries.pt")
    good = sorted(path for path in out.iterdir() if path.suffix in (".pt", ".pth", ".ckpt"))
    torch.save(nn.Linear(2, 2), out / "whole_model.pt")
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), buffer)
    without_sources(buffer, out / "script.pt")
    return good


def without_sources(buffer, path):
    """Leaves out the entries that say which lines of which files on this machine the code came from."""
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder that receives the files")
    parser.add_argument("--seed", type=int, default=20241105, help="seed of the values")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for old in arguments.out.iterdir():
        old.unlink()
    good = write(arguments.out, arguments.seed)
    versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__}
    head = ['  "made_by": "golden/torch_files.py"', f'  "versions": {json.dumps(versions)}',
            f'  "seed": {arguments.seed}']
    # One tensor per line, so that a change shows which it touches.
    rows = []
    for path in good:
        tensors = ",\n".join(f"      {json.dumps(k)}: {json.dumps(v)}" for k, v in expected(path).items())
        rows.append(f"    {json.dumps(path.name)}: {{\n{tensors}\n    }}")
    text = ",\n".join(head) + ',\n  "files": {\n' + ",\n".join(rows) + "\n  }"
    (arguments.out / "expected.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in sorted(arguments.out.iterdir())}
    print(", ".join(f"{name} {size}" for name, size in sizes.items()), "- in all", sum(sizes.values()), "bytes")


if __name__ == "__main__":
    main()
