"""Whether two sides computed the same thing."""

import array
import ast
import math
import sys

CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q"}


def read_npy(path):
    """The rows of a two-dimensional .npy file, as lists or arrays of numbers."""
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path}: not an .npy file")
        major = file.read(2)[0]
        length = int.from_bytes(file.read(2 if major == 1 else 4), "little")
        header = ast.literal_eval(file.read(length).decode("latin1"))
        shape = header["shape"]
        if header["descr"] not in CODES or header["fortran_order"] or len(shape) != 2:
            raise ValueError(f"{path}: {header}: expected a matrix in C order")
        numbers = array.array(CODES[header["descr"]])
        numbers.frombytes(file.read())
    if sys.byteorder != "little":
        numbers.byteswap()
    rows, columns = shape
    if len(numbers) != rows * columns:
        raise ValueError(f"{path}: {len(numbers)} numbers, expected {rows} x {columns}")
    return [numbers[row * columns:(row + 1) * columns] for row in range(rows)]


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b))
    return product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def cosines(ours, theirs, least):
    """What is wrong with two matrices whose rows should point the same way, or nothing."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows against {len(theirs)}"
    for nth, (a, b) in enumerate(zip(ours, theirs)):
        if len(a) != len(b):
            return f"rows of {len(a)} numbers against {len(b)}"
        found = cosine(a, b) if any(a) and any(b) else math.nan
        # NaN compares false with everything: ask for what must hold.
        if not found >= least:
            return f"cosine of row {nth} is {found:.6f}, expected at least {least}"
    return None


def least_cosine(ours, theirs):
    """The smallest cosine of two rows that stand at the same place."""
    return min(cosine(a, b) for a, b in zip(ours, theirs, strict=True))


def differences(ours, theirs, most):
    """What is wrong with two matrices whose numbers should be equal, or nothing."""
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        return f"{len(ours)} rows of {len(ours[0])} numbers against {len(theirs)} of {len(theirs[0])}"
    for nth, (a, b) in enumerate(zip(ours, theirs)):
        largest = max(abs(x - y) if x == x and y == y else math.inf for x, y in zip(a, b))
        if largest > most:
            return f"row {nth} differs by {largest:.2g}, tolerance {most:g}"
    return None


def figures(ours, theirs, tolerances):
    """What is wrong with named figures, or nothing. A tolerance is a number, or ("relative", number); figures may be lists."""
    for name, tolerance in tolerances.items():
        relative = isinstance(tolerance, tuple)
        allowed = tolerance[1] if relative else tolerance
        a, b = ours.get(name), theirs.get(name)
        if a is None or b is None:
            return f"{name} is missing"
        a, b = (value if isinstance(value, list) else [value] for value in (a, b))
        if len(a) != len(b):
            return f"{name}: {len(a)} figures against {len(b)}"
        for x, y in zip(a, b):
            bound = allowed * max(abs(x), abs(y)) if relative else allowed
            if not abs(x - y) <= bound:
                return f"{name}: {x:.6g} against {y:.6g}, tolerance {allowed:g}" + (" relative" if relative else "")
    return None
