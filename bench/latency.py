#!/usr/bin/env python3
"""How long a text query takes from the request to the answer, at 1 and at 16 clients.

Starts `hark serve` on a library that is there, at a free port of this machine, and sends it short queries, each a
new one, so that no answer comes from a memory of texts. Every query goes through the text tower, the search and the
fusion with words. Each client has one connection and sends its next query when it has the answer to the last.
Prints the median and the 99th percentile for 1 and 16 clients, the queries a second, and beside them what the search
costs without the text tower (`mode=words`), in one run, as Markdown and JSON. It ends by itself.

Run, from the root of the repository, with a library that `hark index` made:

  python bench/latency.py --hark target/release/hark --name default --queries 400
"""

import argparse
import asyncio
import itertools
import json
import random
import signal
import subprocess
import time
import urllib.parse

WORDS = {
    "what": ["dog", "rain", "engine", "crowd", "bird", "door", "train", "wind", "child", "clock", "fire", "river"],
    "does": ["barking", "falling", "running", "cheering", "singing", "closing", "passing", "howling", "laughing"],
    "where": ["in a hall", "on a roof", "far away", "in the street", "in a forest", "behind a wall", "at night"],
}


def queries(seed):
    """Short queries without end, no two the same: a few words and, when these are used up, a number."""
    combinations = list(itertools.product(*WORDS.values()))
    random.Random(seed).shuffle(combinations)
    for round in itertools.count():
        for parts in combinations:
            yield " ".join(parts) + (f" {round}" if round else "")


async def client(host, port, path, asked, times):
    """Sends queries over one connection until there are no more."""
    reader, writer = await asyncio.open_connection(host, port)
    for query in asked:
        target = path + urllib.parse.quote(query)
        began = time.perf_counter()
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        body = await reader.readexactly(length)
        times.append(time.perf_counter() - began)
        if status != 200:
            raise SystemExit(f"{target}: {status}: {body[:200]!r}")
    writer.close()


async def measure(host, port, path, clients, count, fresh):
    asked = iter(list(itertools.islice(fresh, count)))
    times = []
    began = time.perf_counter()
    await asyncio.gather(*(client(host, port, path, asked, times) for _ in range(clients)))
    took = time.perf_counter() - began
    times.sort()
    return {
        "clients": clients,
        "queries": len(times),
        "median_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[min(len(times) - 1, int(0.99 * len(times)))],
        "queries_per_second": len(times) / took,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", default="target/release/hark", help="the program")
    parser.add_argument("--name", default="default", help="the library")
    parser.add_argument("--queries", type=int, default=400, help="queries for each number of clients")
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    command = [settings.hark, "serve", "--name", settings.name, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = next((line for line in server.stderr if line.startswith("http://")), None)
        if address is None:
            raise SystemExit("the server did not begin")
        host, port = address.removeprefix("http://").split("/")[0].split(":")
        fresh = queries(settings.seed)
        rows = []
        for mode in ("fused", "words"):
            path = f"/api/search?limit=20&mode={mode}&q="
            # Warm: the model and the vectors are in memory.
            asyncio.run(measure(host, int(port), path, 2, 20, fresh))
            for clients in (1, 16):
                row = asyncio.run(measure(host, int(port), path, clients, settings.queries, fresh))
                rows.append({"mode": mode, **row})
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
    print("| mode | clients | median ms | p99 ms | queries a second |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['mode']} | {row['clients']} | {row['median_ms']:.1f} | {row['p99_ms']:.1f} "
            f"| {row['queries_per_second']:.0f} |"
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
