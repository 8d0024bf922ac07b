#!/usr/bin/env python3
"""Checks that hark compiles for devices that this machine need not have: cargo check with the feature of each, one after the other.

  scripts/device_builds.py                 every feature
  scripts/device_builds.py cuda vulkan     some
  scripts/device_builds.py --together      all in one build, which takes a fraction of the time

CI does not run this: the backends take long to compile. `torch` needs the environment that docs/devices.md describes.
"""

import argparse
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEATURES = ["cuda", "rocm", "vulkan", "metal", "webgpu", "torch"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="*", metavar="FEATURE", help=", ".join(FEATURES))
    parser.add_argument("--together", action="store_true", help="in one build")
    parser.add_argument("--release", action="store_true", help="with the dependencies of release builds")
    arguments = parser.parse_args()
    features = arguments.features or FEATURES
    if unknown := [feature for feature in features if feature not in FEATURES]:
        parser.error(f"unknown feature {unknown[0]}")
    profile = ["--release"] if arguments.release else []
    failed = []
    for feature in [",".join(features)] if arguments.together else features:
        start = time.monotonic()
        code = subprocess.run(["cargo", "check", "-p", "hark", "--locked", *profile, "--features", feature], cwd=ROOT).returncode
        print(f"{feature}: {'failed' if code else 'compiles'}, {time.monotonic() - start:.0f} s", flush=True)
        failed += [feature] if code else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
