#!/usr/bin/env python3
"""Runs the golden towers, the golden trainings and `hark devices check` on a device: what PyTorch computed against what it computes.

  scripts/device_tests.py torch      in the environment that docs/devices.md describes
  scripts/device_tests.py webgpu

The cargo feature is the device's kind. Outputs, gradients of every parameter and twenty training steps are compared with the
committed values; tests fail where the device is farther off than the tests say. A test that needs the CPU's own kernels is left out.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a device computes; the other tests of these files are of shapes and files.
TOWERS = ["towers::golden::outputs", "towers::golden::gradients", "towers::golden::the_winners", "packed::"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="such as torch, cuda:0 or webgpu")
    parser.add_argument("--release", action="store_true", help="with optimization")
    arguments = parser.parse_args()
    kind = arguments.device.split(":")[0]
    # One set of packages and features for all, so that the tensor library is built once.
    packages = ["-p", "hark", "-p", "hark-encode", "-p", "hark-learn", "--locked", "--features", f"hark/{kind},hark/ndarray"]
    packages += ["--release"] if arguments.release else []
    environment = os.environ | {"HARK_TEST_DEVICE": arguments.device}
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / ("release" if arguments.release else "debug")
    commands = [
        (["cargo", "test", *packages, "--lib", "--", "--test-threads", "1", *TOWERS], environment),
        (["cargo", "test", *packages, "--test", "golden", "--", "--test-threads", "1", "a_training"], environment),
        (["cargo", "build", *packages, "--bin", "hark"], dict(os.environ)),
        ([str(target / "hark"), "devices", "check", arguments.device], dict(os.environ)),
    ]
    failed = [command for command, env in commands if subprocess.run(command, cwd=ROOT, env=env).returncode]
    for command in failed:
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
