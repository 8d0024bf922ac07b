"""Compares the student's weights with the teacher's, to see whether training has copied them.

    python likeness.py TEACHER.pt STUDENT.safetensors [--checkpoint CHECKPOINT.pt --mels MELS]

The rows (output channels) of corresponding layers are matched one to one so that the sum of their absolute cosines is
largest. Every value is given beside the same one for a network of the student's shape with random weights. This chance
level is far above 0, because the best of many short rows are matched. Four comparisons:

inputs in order  1x1 convolutions and linear layers over the input channels that both have
permuted         the same with the student's inputs permuted and flipped to fit the teacher's (rows and inputs in turn)
kernels          of the stem and of depthwise convolutions, against those of the same layer and against those of the
                 teacher's other layers with the same kernel size: a similarity found there too is common to trained
                 kernels and no sign of a copy
adapters         with the discarded adapters of distil.py put back (--checkpoint, and --mels for the scale of the
                 teacher's maps): rows of expanding and columns of projecting convolutions in the teacher's coordinates
"""
import argparse
import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from distil import Adapters, Sounds, Teacher
from network import BLOCKS, STUDENT, Tagger, load_student, load_teacher


def unit(rows):
    return rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9)


def match(a, b):
    """Matched rows of both, and their cosines; only as many inputs as both have are compared."""
    inputs = min(a.shape[1], b.shape[1])
    cosines = np.abs(unit(a[:, :inputs]) @ unit(b[:, :inputs]).T)
    i, j = linear_sum_assignment(-cosines)
    return i, j, cosines[i, j]


def match_permuted(a, b, turns=8):
    """Cosines of matched rows with the best permutation of inputs that a search finds, or with none."""
    inputs = min(a.shape[1], b.shape[1])
    best = match(a, b)[2]
    i, j, _ = match(np.sort(np.abs(a), 1)[:, -inputs:], np.sort(np.abs(b), 1)[:, -inputs:])
    for _ in range(turns):
        cosines = unit(a[i].T) @ unit(b[j].T).T
        k, m = linear_sum_assignment(-np.abs(cosines))
        i, j, found = match(a[:, k], b[:, m] * np.sign(cosines[k, m]))
        best = max(best, found, key=np.mean)
    return best


def rows(layer):
    return layer.weight.detach().flatten(1).numpy()


def layers(net):
    """Rows of all layers by name: 1x1 convolutions and linear layers, and spatial kernels (stem and depthwise)."""
    dense, kernels = {}, {}
    for name, module, _ in net.weights():
        spatial = isinstance(module, torch.nn.Conv2d) and module.kernel_size != (1, 1)
        (kernels if spatial else dense)[name] = rows(module)
    return dense, kernels


def line(*cells):
    texts = ("" if cell != cell else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
    print("| " + " | ".join(texts) + " |")


def heading(*cells):
    line(*cells)
    line(*["---"] * len(cells))


def compare_dense(teacher, student, chance):
    heading("layer", "teacher", "student", "in order, mean", "chance", "largest", "chance", "permuted, mean", "chance",
            "largest", "chance")
    figures = []
    for name, t in teacher.items():
        if name not in student:
            continue
        cells = []
        for matched in (lambda a, b: match(a, b)[2], match_permuted):
            s, r = matched(t, student[name]), matched(t, chance[name])
            cells += [float(s.mean()), float(r.mean()), float(s.max()), float(r.max())]
        figures.append(cells)
        line(name, "x".join(map(str, t.shape)), "x".join(map(str, student[name].shape)), *cells)
    return np.mean(figures, 0)


def compare_kernels(teacher, student, chance):
    heading("layer", "same layer, mean", "other layers, mean", "best other layer", "chance", "largest", "chance")
    figures = []
    for name, t in teacher.items():
        s, r = match(t, student[name])[2], match(t, chance[name])[2]
        # As many kernels of another block as of this one, so that the choice is as wide.
        others = [match(o[:len(t)], student[name])[2].mean() for other, o in teacher.items()
                  if other != name and o.shape[1] == t.shape[1]]
        cells = [float(x) for x in (s.mean(), np.mean(others), max(others), r.mean(), s.max(), r.max())]
        figures.append(cells)
        line(name, *cells)
    return figures[0], np.mean(figures[1:], 0)  # stem, depthwise


def compare_adapted(teacher, student, chance, adapters, deviations):
    """Rows of W A (expanding W, adapter A to the student), columns of B P (projecting P, adapter B to the teacher)."""
    heading("block", "expanding rows, mean", "chance", "projecting columns, mean", "chance")
    figures = []
    for block in BLOCKS:
        cells = [math.nan] * 4
        projecting = rows(teacher.features[block].block[-1][0]) / deviations[block][:, None]
        to_teacher = rows(adapters.to_teacher[block - 1])
        for i, net in enumerate((student, chance)):
            columns = to_teacher @ rows(net.features[block].block[-1][0])
            cells[2 + i] = float(match(projecting.T, columns.T)[2].mean())
        if block > 1:
            expanding = rows(teacher.features[block].block[0][0]) * deviations[block - 1]
            to_student = rows(adapters.to_student[block - 2])
            for i, net in enumerate((student, chance)):
                cells[i] = float(match(expanding, rows(net.features[block].block[0][0]) @ to_student)[2].mean())
        figures.append(cells)
        line(block, *cells)
    return np.nanmean(figures, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("student")
    parser.add_argument("--checkpoint")
    parser.add_argument("--mels")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(99)
    teacher, student, chance = load_teacher(args.teacher), load_student(args.student), Tagger(STUDENT)
    (t, t_kernels), (s, s_kernels), (r, r_kernels) = map(layers, (teacher, student, chance))
    dense = compare_dense(t, s, r)
    print()
    stem, depthwise = compare_kernels(t_kernels, s_kernels, r_kernels)
    print()
    if args.checkpoint:
        adapters = Adapters()
        adapters.load_state_dict(torch.load(args.checkpoint, weights_only=True)["adapters"])
        maps = Teacher(args.teacher, None, Sounds(args.mels, [], 1, [])).maps
        deviations = {block: std.flatten().numpy() for block, (_, std) in maps.items()}
        adapted = compare_adapted(teacher, student, chance, adapters, deviations)
        print()
    print("Cosine of matched rows, mean over layers (chance: random weights in its place):")
    print(f"- 1x1 and linear layers: {dense[0]:.2f} (chance {dense[1]:.2f}), inputs permuted {dense[4]:.2f} "
          f"({dense[5]:.2f})")
    print(f"- kernels of the stem: {stem[0]:.2f} (chance {stem[3]:.2f}), teacher's depthwise kernels {stem[1]:.2f}")
    print(f"- depthwise kernels, same block: {depthwise[0]:.2f} (chance {depthwise[3]:.2f}), teacher's other blocks "
          f"{depthwise[1]:.2f}, the best of them {depthwise[2]:.2f}")
    if args.checkpoint:
        print(f"- adapters put back: expanding rows {adapted[0]:.2f} (chance {adapted[1]:.2f}), projecting columns "
              f"{adapted[2]:.2f} ({adapted[3]:.2f})")


if __name__ == "__main__":
    main()
