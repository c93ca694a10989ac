"""Big files: one of 20 GB, mostly holes, opens at once, in little memory, and its report is right."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
SYNTHETIC = Path(os.environ["QUERN_SOURCE"]) / "tools/dev/make_synthetic.py"
SHAPE = {"n-layers": 36, "n-embd": 8192, "n-ff": 28672, "n-heads": 64, "n-kv-heads": 8, "head-dim": 128}
MOST_SECONDS = 5.0     # on a loaded machine; alone it takes hundredths
MOST_BYTES = 64 << 20


def run(*args):
    """(result, seconds, peak resident bytes so far of any child)"""
    start = time.monotonic()
    result = subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, check=False)
    return result, time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


class BigFile(unittest.TestCase):
    def make(self, *args):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        path = Path(temporary.name) / "big.gguf"
        made = subprocess.run([sys.executable, str(SYNTHETIC), str(path), "--holes", *map(str, args)], capture_output=True, text=True, check=False)
        if made.returncode != 0 and ("File too large" in made.stderr or "No space" in made.stderr):
            self.skipTest("the file system holds no file of this size")
        self.assertEqual(made.returncode, 0, made.stderr)
        if path.stat().st_blocks * 512 > 1 << 28:
            self.skipTest("the file system has no holes")
        return path

    def test_opens_at_once_and_the_report_is_right(self):
        path = self.make("--type", "Q5_K", *(part for name, value in SHAPE.items() for part in ("--" + name, value)))
        self.assertGreater(path.stat().st_size, 20e9)
        result, seconds, peak = run("inspect", path, "--json", "-c", "4096")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(seconds, MOST_SECONDS)
        self.assertLess(peak, MOST_BYTES)
        report = json.loads(result.stdout)
        n_embd, n_ff, kv = SHAPE["n-embd"], SHAPE["n-ff"], SHAPE["n-kv-heads"] * SHAPE["head-dim"]
        layer = n_embd * (2 * n_embd + 2 * kv + 3 * n_ff)
        self.assertEqual(report["parameters"], SHAPE["n-layers"] * (layer + 2 * n_embd) + 2 * 32000 * n_embd + n_embd)
        self.assertEqual(report["file_bytes"], path.stat().st_size)
        plan = report["kv_plan"]["types"]["f16"]
        self.assertEqual(plan["bytes_per_token"], SHAPE["n-layers"] * 2 * kv * 2)
        self.assertEqual(plan["bytes"], [4096 * SHAPE["n-layers"] * 2 * kv * 2])

    def test_a_cut_off_big_file_is_refused_at_once(self):
        path = self.make("--type", "Q8_0", "--n-layers", 64, "--n-embd", 5120, "--n-ff", 27648, "--n-heads", 40)
        os.truncate(path, path.stat().st_size - 4096)
        result, seconds, peak = run("inspect", path)
        self.assertEqual(result.returncode, 3)
        self.assertIn("truncated", result.stderr)
        self.assertLess(seconds, MOST_SECONDS)
        self.assertLess(peak, MOST_BYTES)

    def test_experts_of_a_big_file_too(self):
        path = self.make("--type", "Q4_K", "--experts", 256, "--n-layers", 40, "--n-vocab", 320)
        self.assertGreater(path.stat().st_size, 20e9)
        result, seconds, _ = run("tokenize", path, "a")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(seconds, MOST_SECONDS)


if __name__ == "__main__":
    unittest.main()
