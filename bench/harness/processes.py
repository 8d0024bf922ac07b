"""Run one side of a comparison in a process of its own: what it printed, and the most memory that it held."""

import json
import os
import subprocess
import sys
import tempfile


class SideFailed(Exception):
    """A side ended with an error; the message is the end of what it wrote to stderr."""


def run(command, env=None, cwd=None):
    """What a program printed, which is one JSON document, and its largest resident memory in bytes."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=printed, stderr=said,
                                   env=env, cwd=cwd)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        printed.seek(0)
        text = printed.read()
        if process.returncode != 0:
            lines = [line for line in said.read().splitlines() if line.strip()]
            raise SideFailed(lines[-1] if lines else f"{command[0]} ended with {process.returncode}")
    try:
        answer = json.loads(text)
    except ValueError:
        raise SideFailed(f"{command[0]} printed no JSON: {text[:200]!r}") from None
    # In KiB on Linux, in bytes on macOS.
    return answer, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
