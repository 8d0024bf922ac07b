"""The machine that a measurement was made on."""

import os
import platform
import time
from pathlib import Path

# From the widest down: the first that a processor has is its best.
VECTOR_SETS = [
    ("amx_bf16", "AMX"), ("avx512_bf16", "AVX-512 BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"),
    ("sve", "SVE"), ("asimd", "NEON"), ("sse2", "SSE2"),
]
# Load average per core, and share of the cores' time that other programs may take while a row is measured.
IDLE_LOAD = 0.3
IDLE_SHARE = 0.05


def parse_cpuinfo(text):
    """The processor's name and its vector sets, best first."""
    fields = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    found = [label for flag, label in VECTOR_SETS if flag in flags]
    name = fields.get("model name") or platform.processor() or platform.machine()
    # Virtual machines hide the name: every generation is an "AMD EPYC".
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
    return name, found or ["no vectors"]


def describe():
    """Name, vector sets, cores and load average of this machine; `key` names its kind."""
    path = Path("/proc/cpuinfo")
    name, vectors = parse_cpuinfo(path.read_text() if path.exists() else "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"key": f"{name}, {vectors[0]}", "processor": name, "vectors": vectors, "cores": cores, "load": os.getloadavg()[0]}


def has_bf16(machine):
    return any(vectors in ("AMX", "AVX-512 BF16") for vectors in machine["vectors"])


def busy_seconds(text, ticks):
    """Seconds that all cores together have worked since the machine started, from the text of /proc/stat."""
    user, nice, system, _, _, irq, softirq, steal = map(int, text.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks


class Others:
    """How much of the cores' time other programs take while something is measured.

    With other programs on its cores torch slows down out of proportion: its threads wait for each other. A load average before
    the measurement does not tell of a compiler that starts in the middle of it.
    """

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        path = Path("/proc/stat")
        if not path.exists():
            return None
        own = os.times()
        busy = busy_seconds(path.read_text(), os.sysconf("SC_CLK_TCK"))
        return time.monotonic(), busy - (own.user + own.system + own.children_user + own.children_system)

    def share(self, cores):
        """From 0 to 1; None where the system does not tell."""
        end = self.now()
        if end is None or end[0] == self.start[0]:
            return None
        return max(0.0, (end[1] - self.start[1]) / (end[0] - self.start[0]) / cores)


def warning(machine):
    """What to tell the reader of figures measured under this load, or nothing."""
    if machine["load"] <= IDLE_LOAD * machine["cores"]:
        return None
    return (f"load average {machine['load']:.1f} on {machine['cores']} cores: other programs are running. "
            "PyTorch slows down out of proportion; do not publish these figures")
