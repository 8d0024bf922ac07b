"""Tests of what bench/compare computes with: no packages, no processes.

  python3 -m unittest discover -s bench
"""

import array
import math
import tempfile
import unittest
from pathlib import Path

from harness import agreement, machine, report
from harness.processes import SideFailed, run
from rows import all_rows
from rows.row import Options, Row


class Ratios(unittest.TestCase):
    def test_a_round_is_compared_with_itself(self):
        # The second round is slower for both: the ratio is not.
        self.assertEqual(report.ratios([[1.0], [2.0]], [[3.0], [6.0]]), [3.0, 3.0])

    def test_a_round_counts_by_its_median(self):
        self.assertEqual(report.ratios([[1.0, 1.0, 9.0]], [[2.0, 2.0, 2.0]]), [2.0])

    def test_rounds_must_be_paired(self):
        with self.assertRaises(ValueError):
            report.ratios([[1.0]], [[1.0], [2.0]])

    def test_summary(self):
        found = report.summary([[1.0], [1.0], [1.0]], [[2.0], [4.0], [3.0]], (50, 100), flops=1e9, peak=4e9)
        self.assertEqual((found["ratio"], found["lowest"], found["highest"], found["rounds"]), (3.0, 2.0, 4.0, 3))
        self.assertEqual((found["seconds"], found["peer_seconds"]), (1.0, 3.0))
        self.assertEqual(found["memory_ratio"], 0.5)
        self.assertEqual(found["share_of_peak"], 0.25)
        self.assertAlmostEqual(found["peer_share_of_peak"], 1 / 12, places=5)

    def test_what_is_not_known_is_left_out(self):
        found = report.summary([[1.0]], [[1.0]])
        self.assertNotIn("memory_ratio", found)
        self.assertNotIn("share_of_peak", found)


MACHINE = {"key": "A, AVX2", "threads": 2, "peak_gflops": 200.0, "load": 0.1}
GOOD = {"ratio": 1.5, "lowest": 1.25, "highest": 2.0, "memory_ratio": 0.5, "peer_seconds": 3.0, "share_of_peak": 0.61}
ROW = {"what": "clips", "seconds": 2.0, "memory_bytes": 1_000_000, "peers": {"torch": GOOD, "other": {"failed": "disagree"}}}


class Files(unittest.TestCase):
    def test_the_newest_result_of_a_row_replaces_the_old_one_on_that_processor_alone(self):
        old = {"A, AVX2": {"machine": {}, "rows": {"x": {"n": 1}, "y": {"n": 1}}}, "B, AVX2": {"machine": {}, "rows": {"x": {"n": 1}}}}
        merged = report.merge(old, "A, AVX2", MACHINE, {"x": {"n": 2}})
        self.assertEqual(merged["A, AVX2"]["rows"], {"x": {"n": 2}, "y": {"n": 1}})
        self.assertEqual(merged["B, AVX2"]["rows"], {"x": {"n": 1}})
        self.assertEqual(old["A, AVX2"]["rows"]["x"], {"n": 1})
        self.assertEqual(list(report.merge({}, "C", MACHINE, {"z": {}})), ["C"])

    def test_history_has_one_line_for_a_row(self):
        lines = list(report.history_lines(MACHINE, "2026-01-02", {"passt": ROW}))
        self.assertEqual(len(lines), 1)
        self.assertIn('"ratios": {"torch": 1.5}', lines[0])
        self.assertIn('"processor": "A, AVX2"', lines[0])

    def test_table(self):
        part = {"ratio": 0.5, "lowest": 0.4, "highest": 0.6}
        alone = {"what": "start", "seconds": 0.02, "memory_bytes": 5_000_000, "peers": {}}
        rows = {"passt": ROW, "search": {**ROW, "what": "queries", "peers": {"faiss": {**GOOD, "parts": {"build": part}}}}, "start": alone}
        text = report.table({"A, AVX2": {"machine": MACHINE, "rows": rows}})
        self.assertIn("| clips | torch | 1.50 | 1.25–2.00 | 0.50 | 61 % |  |", text)
        self.assertIn("| clips | other | failed |", text)
        self.assertIn("| queries: build | faiss | 0.50 | 0.40–0.60 |", text)
        self.assertIn("| start | 20.0 ms | 5 MB |", text)
        self.assertNotIn("hark in", text)
        narrow = {**ROW, "precisions": {"bf16": {**GOOD, "least_cosine": 0.99991}}}
        text = report.table({"A, AVX2": {"machine": MACHINE, "rows": {"passt": narrow}}})
        self.assertIn("| bf16: clips | 1.50 | 1.25–2.00 | 0.50 | 0.9999 |", text)
        self.assertNotIn("disagree", text)


class Agreement(unittest.TestCase):
    def test_cosines(self):
        ours = [[1.0, 0.0], [0.0, 2.0]]
        self.assertIsNone(agreement.cosines(ours, [[2.0, 0.0], [0.0, 1.0]], 0.9999))
        self.assertIn("row 1", agreement.cosines(ours, [[1.0, 0.0], [1.0, 1.0]], 0.9999))
        self.assertIn("rows", agreement.cosines(ours, ours[:1], 0.9999))
        for wrong in ([math.nan, 0.0], [0.0, 0.0]):
            self.assertIsNotNone(agreement.cosines(ours, [wrong, [0.0, 1.0]], 0.9999))

    def test_least_cosine(self):
        self.assertAlmostEqual(agreement.least_cosine([[1.0, 0.0], [1.0, 1.0]], [[3.0, 0.0], [1.0, 0.0]]), math.sqrt(0.5))

    def test_differences(self):
        self.assertIsNone(agreement.differences([[1.0, 2.0]], [[1.0, 2.00001]], 1e-4))
        self.assertIn("row 0", agreement.differences([[1.0, 2.0]], [[1.0, 2.1]], 1e-4))
        self.assertIsNotNone(agreement.differences([[1.0]], [[math.nan]], 1e-4))
        self.assertIsNotNone(agreement.differences([[1.0]], [[1.0, 2.0]], 1e-4))

    def test_figures(self):
        self.assertIsNone(agreement.figures({"a": 1.0, "b": [2.0]}, {"a": 1.0, "b": [2.1]}, {"a": 0.0, "b": ("relative", 0.1)}))
        self.assertIn("a:", agreement.figures({"a": 1.0}, {"a": 1.1}, {"a": 0.01}))
        self.assertIn("missing", agreement.figures({"a": 1.0}, {}, {"a": 0.01}))
        self.assertIsNotNone(agreement.figures({"a": math.nan}, {"a": math.nan}, {"a": 1.0}))

    def test_npy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "matrix.npy"
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
            header += b" " * (118 - len(header) - 1) + b"\n"
            numbers = array.array("f", [1.0, 2.0, 3.0, 4.5])
            path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + numbers.tobytes())
            self.assertEqual([list(row) for row in agreement.read_npy(path)], [[1.0, 2.0], [3.0, 4.5]])
            path.write_bytes(path.read_bytes()[:-4])
            with self.assertRaises(ValueError):
                agreement.read_npy(path)


class Machine(unittest.TestCase):
    def test_the_best_vector_set_names_a_processor(self):
        text = "processor : 0\nmodel name\t: Some CPU\nflags\t\t: sse2 avx avx2 fma\n\nprocessor : 1\nmodel name : Some CPU\n"
        self.assertEqual(machine.parse_cpuinfo(text), ("Some CPU", ["AVX2", "AVX", "SSE2"]))
        self.assertEqual(machine.parse_cpuinfo(text.replace("flags", "cpu family : 26\nmodel : 2\nflags"))[0], "Some CPU (family 26, model 2)")
        self.assertEqual(machine.parse_cpuinfo("Features : asimd sve")[1], ["SVE", "NEON"])
        self.assertFalse(machine.has_bf16({"vectors": ["AVX2"]}))

    def test_a_busy_machine_is_warned_of(self):
        self.assertIsNone(machine.warning({"load": 0.2, "cores": 2}))
        self.assertIn("load average 3.0", machine.warning({"load": 3.0, "cores": 2}))


    def test_time_of_others(self):
        self.assertEqual(machine.busy_seconds("cpu  100 20 30 5000 60 1 2 7 0 0\ncpu0 1 2", 100), 1.6)
        others = machine.Others()
        self.assertGreaterEqual(others.share(2) or 0.0, 0.0)


class Processes(unittest.TestCase):
    def test_answer_and_memory(self):
        answer, memory = run(["sh", "-c", "echo '{\"seconds\": [1]}'"])
        self.assertEqual(answer, {"seconds": [1]})
        self.assertGreater(memory, 100_000)

    def test_a_failure_tells_the_last_line(self):
        for command, message in (("echo first >&2; echo why >&2; exit 3", "why"), ("exit 3", "ended with 3"), ("echo x", "no JSON")):
            with self.assertRaisesRegex(SideFailed, message):
                run(["sh", "-c", command])


class Rows(unittest.TestCase):
    def test_every_row_has_commands(self):
        options = Options(bench=Path("hark-bench"), hark=Path("hark"), python=Path("python"), work=Path("work"), threads=2, quick=True,
                          efficientat=Path("efficientat"), audio=Path(__file__).parent)
        rows = all_rows()
        self.assertGreater(len(rows), 15)
        for row in rows.values():
            with self.subTest(row.name):
                self.assertTrue(row.what)
                self.assertIsNone(row.missing(options))
                self.assertEqual(row.environment(options).keys(), Row().environment(options).keys())
                ours = row.ours(options, Path("folder"), Path("out.npy"), True)
                self.assertGreater(len(ours), 2)
                for peer in row.peers:
                    self.assertIn(peer, row.theirs(peer, options, Path("folder"), Path("out.npy"), True, None))


if __name__ == "__main__":
    unittest.main()
