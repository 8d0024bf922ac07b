"""What the scripts of this folder measure a program with: its answer, and the most memory that it held."""

import json
import os
import subprocess
import sys
import tempfile


def run(command):
    """What a program printed, which is one JSON document, and its largest resident memory in bytes.

    A process starts with the memory of the one that starts it, so numpy must not be loaded here.
    """
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen([str(part) for part in command], stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{command[0]} ended with {process.returncode}")
        printed.seek(0)
        text = printed.read()
    # In KiB on Linux, in bytes on macOS.
    return json.loads(text), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
