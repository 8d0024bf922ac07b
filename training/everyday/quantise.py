"""Stores the matrices of a hark model as 8-bit integers.

    python quantise.py FOLDER OUT

FOLDER  a model folder: card.json and model.safetensors, as `hark models bridge` writes them
OUT     gets the same files; every float32 tensor with two or more dimensions and more than 512 numbers is stored as
        8-bit integers, with one scale for each row of its first axis in NAME.scales. hark multiplies them on loading

Other tensors and the metadata of the header are kept. Prints sizes, the largest error and the SHA-256 of the new file.
"""
import argparse
import hashlib
import os
import shutil

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

SMALLEST = 512


def quantise(x):
    """8-bit integers and the factor of each row: row = factor * integers, with the largest number at 127."""
    rows = x.reshape(len(x), -1)
    scales = np.abs(rows).max(1) / 127
    integers = np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    return integers.reshape(x.shape), scales.astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("out")
    args = parser.parse_args()
    source, target = (os.path.join(folder, "model.safetensors") for folder in (args.folder, args.out))
    tensors, count, worst = {}, 0, 0.0
    with safe_open(source, framework="numpy") as file:
        metadata = file.metadata()
        for name in file.keys():
            x = file.get_tensor(name)
            if x.dtype != np.float32 or x.ndim < 2 or x.size <= SMALLEST:
                tensors[name] = x
                continue
            integers, scales = quantise(x)
            tensors[name], tensors[name + ".scales"] = integers, scales
            back = integers.reshape(len(x), -1) * scales[:, None]
            flat = x.reshape(len(x), -1)
            worst = max(worst, np.linalg.norm(back - flat) / np.linalg.norm(flat))
            count += 1
    os.makedirs(args.out, exist_ok=True)
    save_file(tensors, target, metadata)
    shutil.copy(os.path.join(args.folder, "card.json"), args.out)
    with open(target, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    print(f"{count} of {len(tensors) - count} tensors in 8 bits, largest relative error of one {worst:.4f}")
    print(f"{os.path.getsize(source)} bytes to {os.path.getsize(target)} bytes")
    print(f"sha256 {digest}")


if __name__ == "__main__":
    main()
