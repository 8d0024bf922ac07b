#!/usr/bin/env python3
"""Event files against the tensorboard package: the bytes that it writes, and what it reads from ours.

Without arguments it prints, in hexadecimal, the records that the tests in crates/learn/src/tensorboard.rs expect. With the
folder of a run it reads all event files in it, which must all be whole, in two ways, and prints every scalar:
record by record with the loader (checksums are checked there), and by curves with the EventAccumulator that TensorBoard
itself stands on. It ends with 1 if the two differ or if there is no scalar.

(It is not called tensorboard.py, because Python would then take it for the package.)

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/tensorboard_events.py
  python golden/tensorboard_events.py runs/first
"""

import argparse
import io
import math
import sys
from importlib.metadata import version
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_ndarray


def scalar(tag, value, step, wall_time):
    return Event(wall_time=wall_time, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


EVENTS = {
    "the file's version": Event(wall_time=1700000000.25, file_version="brain.Event:2"),
    "train/loss 1.25 at step 300": scalar("train/loss", 1.25, 300, 1700000001.5),
    "x 0 at step 0": scalar("x", 0.0, 0, 1700000001.5),
    "r NaN at step -1 and wall time 0": scalar("r", math.nan, -1, 0.0),
}


def record(event):
    """The event as the package writes it into a file."""
    written = io.BytesIO()
    RecordWriter(written).write(event.SerializeToString())
    return written.getvalue()


def by_records(path):
    """(tag, step, wall time, value) of every scalar of a file, in its order; the first event has the version."""
    events = [Event.FromString(message) for message in RawEventFileLoader(str(path)).Load()]
    assert events and events[0].file_version == "brain.Event:2", f"{path} does not begin with its version"
    # The loader stops at the first record that is damaged or cut: what it read must be the whole file.
    length = sum(len(record(event)) for event in events)
    assert length == path.stat().st_size, f"{path}: {length} of {path.stat().st_size} bytes are good"
    print(f"{path.name}: {len(events)} events, {events[0].file_version} at {events[0].wall_time}")
    return [(value.tag, event.step, event.wall_time, value.simple_value)
            for event in events[1:] for value in event.summary.value]


def by_curves(path):
    """The same from the accumulator, curve by curve. It makes tensors of scalars while it reads."""
    accumulator = EventAccumulator(str(path), size_guidance={"tensors": 0, "scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    scalars = [(tag, point.step, point.wall_time, point.value)
               for tag in tags["scalars"] for point in accumulator.Scalars(tag)]
    return scalars + [(tag, point.step, point.wall_time, make_ndarray(point.tensor_proto).item())
                      for tag in tags["tensors"] for point in accumulator.Tensors(tag)]


def read(folder):
    files = sorted(folder.glob("events.out.tfevents.*")) if folder.is_dir() else [folder]
    count = 0
    for path in files:
        records, curves = by_records(path), by_curves(path)
        for tag, step, wall_time, value in curves:
            print(f"  {tag} step {step} at {wall_time}: {value:.9g}")
        # As text, because NaN does not equal itself.
        if sorted(map(repr, records)) != sorted(map(repr, curves)):
            sys.exit(f"{path}: the loader and the accumulator do not find the same scalars")
        count += len(records)
    print(f"{count} scalars in {len(files)} files")
    if count == 0:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder with event files, or one such file")
    arguments = parser.parse_args()
    print(f"tensorboard {version('tensorboard')}")
    if arguments.folder:
        return read(arguments.folder)
    for name, event in EVENTS.items():
        print(f"{name}: {record(event).hex()}")


if __name__ == "__main__":
    main()
