#!/usr/bin/env python3
"""What a library on a PostgreSQL server takes: bytes a window and a file, measured, and what follows for large ones.

The tables are made by the statements of crates/catalogue/src/postgres/sql.rs and filled with random unit vectors and texts of plain
words. Then the index of vectors is built as `hark` builds it, and pg_relation_size tells the size of each table and index.
A page holds whole rows and whole elements of the graph, whose sizes do not depend on what the numbers are, so that bytes a
window hardly depend on how many there are; the table of large libraries is these bytes times the count, an extrapolation.

The vectors are measured twice: in their rows, which is how hark keeps them, and out of them, which is what PostgreSQL does
by itself; and so is the time to compare all of them with one question, as a ratio.

Run, from the root of the repository; `psql` is that of the server:

  python3 scripts/postgres.py -- python3 bench/postgres_size.py
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys

SQL = pathlib.Path(__file__).resolve().parent.parent / "crates/catalogue/src/postgres/sql.rs"
SCHEMA = "hark_size"
GIB = 2**30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=1_024)
    parser.add_argument("--per-file", type=int, default=10, help="windows of a file (10)")
    parser.add_argument("--peaks", type=int, default=2_000, help="bytes of a waveform's outline (2000)")
    parser.add_argument("--fingerprint", type=int, default=1_000, help="bytes of a fingerprint of the sound (1000)")
    parser.add_argument("--memory", type=int, default=64, help="GiB of memory a machine has for the graph (64)")
    arguments = parser.parse_args()
    if "HARK_TEST_POSTGRES" not in os.environ:
        print("postgres_size.py: no server; run it by scripts/postgres.py", file=sys.stderr)
        return 1
    psql("CREATE EXTENSION IF NOT EXISTS vector")
    print(f"PostgreSQL {psql('SHOW server_version')[0][0]}, pgvector "
          f"{psql('SELECT extversion FROM pg_extension WHERE extname = $$vector$$')[0][0]}; "
          f"{arguments.windows} windows of {arguments.dim} numbers, {arguments.per_file} of a file")
    outside = measure(arguments, in_rows=False)
    inside = measure(arguments, in_rows=True, index=True)
    report(arguments, inside, outside)
    psql(f"DROP SCHEMA {SCHEMA} CASCADE")
    return 0


def psql(*statements: str) -> list[list[str]]:
    """Rows of the last statement."""
    command = ["psql", "--no-psqlrc", "-qAtX", "-F", "\t", "-v", "ON_ERROR_STOP=1", os.environ["HARK_TEST_POSTGRES"]]
    done = subprocess.run(command, input=";\n".join(statements) + ";\n", text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"postgres_size.py: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def statements(dim: int) -> tuple[str, str]:
    """The tables, and what keeps vectors in their rows, as the program has them."""
    source = SQL.read_text(encoding="utf-8")
    tables = re.search(r'pub\(super\) fn tables.*?r#"(.*?)"#', source, re.S).group(1).replace("{dim}", str(dim))
    in_rows = re.search(r'VECTORS_IN_ROWS: &str = "(.*?)"', source).group(1)
    return tables, in_rows


def measure(arguments, in_rows: bool, index: bool = False) -> dict[str, float]:
    tables, plain = statements(arguments.dim)
    files = arguments.windows // arguments.per_file
    words = "(SELECT string_agg(md5((g * 31 + i)::text), ' ') FROM generate_series(1, 8) i)"
    noise = "(SELECT string_agg(decode(md5((g * 1000 + i)::text), 'hex'), '') FROM generate_series(1, {blocks}) i)"
    path = f"SET search_path = {SCHEMA}, public"
    psql(
        f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
        f"CREATE SCHEMA {SCHEMA}",
        path,
        tables,
        plain if in_rows else "SELECT 1",
        f"""INSERT INTO files (path, size, modified, content, seconds, rate, date, tags, windows)
            SELECT '/library/a folder/' || md5(g::text) || '.wav', g, g, md5(g::text) || md5((g + 1)::text), 60, 48000,
                   '2026-11-15', ARRAY['tag' || g % 50, 'other' || g % 7], {arguments.per_file}
            FROM generate_series(1, {files}) g""",
        f"""INSERT INTO sounds (file, sound, notes, peaks, fingerprint, words)
            SELECT g, repeat('"field": "some value", ', 20), {words}, {noise.format(blocks=arguments.peaks // 16)},
                   {noise.format(blocks=arguments.fingerprint // 16)},
                   to_tsvector('simple', {words}) || to_tsvector('english', {words})
            FROM generate_series(1, {files}) g""",
        "SELECT setseed(0.5)",
        # The number of the window in the inner query makes it one query a window.
        f"""INSERT INTO windows (file, n, start_s, end_s, whole, vector)
            SELECT f, n, n * 5, n * 5 + 10, n = 0,
                   (SELECT l2_normalize(array_agg(random() - 0.5 + 0 * (f + n + i))::real[]::halfvec)
                    FROM generate_series(1, {arguments.dim}) i)
            FROM generate_series(1, {files}) f, generate_series(0, {arguments.per_file - 1}) n""",
        "ANALYZE files; ANALYZE sounds; ANALYZE windows",
    )
    result = {"exact": exact_time(path)}
    if index:
        psql(path, "SET maintenance_work_mem = '512MB'",
             "CREATE INDEX windows_vector ON windows USING hnsw (vector halfvec_cosine_ops)")
    rows = psql(path, f"""SELECT relname, pg_table_size(c.oid) FROM pg_class c
        WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind IN ('r', 'i')""")
    count = {"windows": arguments.windows, "files": files, "sounds": files}
    for name, size in rows:
        table = name.split("_")[0]
        if table in count:
            result[name] = int(size) / count[table]
    return result


def exact_time(path: str) -> float:
    """Milliseconds to compare all vectors with one of them, on one core: the median of five."""
    query = """EXPLAIN (ANALYZE, TIMING OFF) SELECT file FROM windows
        ORDER BY (vector <=> (SELECT vector FROM windows WHERE file = 1 AND n = 0)) + 0 LIMIT 10"""
    times = []
    for _ in range(5):
        rows = psql(path, "SET max_parallel_workers_per_gather = 0", query)
        times.append(next(float(row[0].split()[2]) for row in rows if row[0].startswith("Execution Time")))
    return statistics.median(times)


def report(arguments, inside: dict[str, float], outside: dict[str, float]) -> None:
    window = inside["windows"] + inside["windows_pkey"]
    graph = inside["windows_vector"]
    file = sum(size for name, size in inside.items() if name.startswith(("files", "sounds")))
    print("\n| measured | bytes |\n|---|---|")
    for name, label in [
        ("windows", "row of a window"),
        ("windows_pkey", "its place in the primary key"),
        ("windows_vector", "its element of the graph, with its vector (m = 16)"),
    ]:
        print(f"| {label} | {inside[name]:,.0f} |")
    for name in sorted(inside):
        if name.startswith(("files", "sounds")):
            print(f"| of a file: {name} | {inside[name]:,.0f} |")
    print(f"| row of a window with its vector outside | {outside['windows']:,.0f} |")
    print(f"\ncomparing all with one: vectors outside of rows take {outside['exact'] / inside['exact']:.1f} times as long "
          f"as within ({outside['exact']:.0f} and {inside['exact']:.0f} ms)")
    print(f"\n| windows | files | tables | graph | disk, all | machines with {arguments.memory} GiB for the graph |")
    print("|---|---|---|---|---|---|")
    for power in range(6, 10):
        windows = 10**power
        files = windows // arguments.per_file
        tables = window * windows + file * files
        machines = -(-graph * windows // (arguments.memory * GIB))
        print(f"| 10^{power} | {files:,} | {tables / GIB:,.0f} GiB | {graph * windows / GIB:,.0f} GiB "
              f"| {(tables + graph * windows) / GIB:,.0f} GiB | {machines:,.0f} |")


if __name__ == "__main__":
    sys.exit(main())
