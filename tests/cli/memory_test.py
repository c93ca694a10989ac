"""Memory that the KV cache may take: limits stop a run before and while it goes, in words, and a large context costs nothing until filled."""
import json
import os
import pty
import re
import subprocess
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny/llama-q4_1.gguf"
MODELS = Path(os.environ["QUERN_SOURCE"]) / "models"
SMOL, GEMMA = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf", MODELS / "gemma-3-270m-q4_k_m.gguf"


def quern(*args):
    return subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, errors="replace", timeout=120, check=False)


def peak_bytes(*args):
    child = subprocess.Popen([QUERN, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, args
    return usage.ru_maxrss * 1024


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        got = json.loads(quern("run", TINY, "--raw", "-p", "abc", "-n", 1, "-c", 4096, "--json").stdout)
        cls.piece = got["kv"]["committed_bytes"]  # 256 positions of all layers

    def test_a_prompt_beyond_the_limit_is_refused_before_it_is_read(self):
        done = quern("run", TINY, "--raw", "-p", "abc " * 400, "-n", 4, "-c", 4096, "--kv-memory-limit", 2 * self.piece)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"needs \d+\.\d MiB for \d+ tokens and its limit is %.1f MiB" % (2 * self.piece / 2**20))

    def test_an_answer_that_grows_past_the_limit_stops_and_keeps_what_it_said(self):
        args = ("run", TINY, "--raw", "-p", "abc", "-n", 700, "-c", 4096, "--temp", 0, "--ignore-eos")
        whole, limited = quern(*args), quern(*args, "--kv-memory-limit", 2 * self.piece)
        self.assertEqual((whole.returncode, limited.returncode), (0, 1))
        self.assertGreater(len(limited.stdout), 100)
        self.assertTrue(whole.stdout.startswith(limited.stdout.rstrip("\n")))
        self.assertRegex(limited.stderr, r"for 513 tokens and its limit is")

    def test_a_window_stays_below_a_limit_for_ever(self):
        done = quern("run", TINY, "--raw", "-p", "abc", "-n", 2000, "--temp", 0, "--ignore-eos", "--kv-window", 100, "--batch", 64, "--kv-memory-limit", 3 * self.piece, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(json.loads(done.stdout)["kv"]["committed_bytes"], 3 * self.piece)

    def test_a_bar_shows_the_shares_on_a_terminal_alone(self):
        ours, theirs = pty.openpty()
        args = [QUERN, "run", str(TINY), "--raw", "-p", "abc", "-n", "120", "--temp", "0", "--ignore-eos", "-c", "256"]
        subprocess.run(args, stderr=theirs, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120, check=True)
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 1 << 16):
                shown += chunk
        except OSError:  # how a pseudo-terminal says that its other side has gone
            pass
        os.close(ours)
        bar = re.search(r"shares +\[(K+)(V+)(\.+)\] K (\d+) %, V (\d+) %, free (\d+) %", shown.decode())
        self.assertTrue(bar, shown)
        self.assertEqual(len(bar[1] + bar[2] + bar[3]), 40)
        self.assertAlmostEqual(int(bar[4]), 100 * len(bar[1]) / 40, delta=2)
        self.assertIn(sum(map(int, bar.groups()[3:])), (99, 100, 101))
        self.assertNotIn("shares", quern(*args[1:]).stderr)

    def test_sizes_are_read_in_the_usual_units(self):
        for size in ("64K", "1.5M", "2GiB", "1T", str(self.piece)):
            self.assertEqual(quern("run", TINY, "--raw", "-p", "abc", "-n", 1, "--kv-memory-limit", size).returncode, 0 if size != "64K" or self.piece <= 65536 else 1, size)
        for size in ("", "x", "-1M", "5Q", "0", "1e30G", "nan"):
            done = quern("run", TINY, "--raw", "-p", "abc", "-n", 1, "--kv-memory-limit=" + size)
            self.assertEqual(done.returncode, 2, size)

    @unittest.skipUnless(SMOL.exists(), "skipped: models/fetch has not brought SmolLM2")
    def test_a_context_of_128k_costs_nothing_until_it_is_filled(self):
        args = ("run", SMOL, "--raw", "-p", "one two three", "-n", 4, "--temp", 0)
        small, large = peak_bytes(*args, "-c", 64), peak_bytes(*args, "-c", 131072)  # 128k in f16: 2.8 GiB
        self.assertLess(large - small, 4 << 20)

    @unittest.skipUnless(SMOL.exists(), "skipped: models/fetch has not brought SmolLM2")
    def test_resident_memory_grows_by_what_the_report_says(self):
        """Two prompts that fill their pieces to the last row: what the longer one takes more is what its report says more."""
        def measured(n_tokens):
            args = ("run", SMOL, "--raw", "-p", "a" + " a" * (n_tokens - 1), "-n", 1, "-c", 4096, "--kv-type", "f32", "--json")
            report = json.loads(quern(*args).stdout)["kv"]
            self.assertEqual(report["used_tokens"], n_tokens)  # every row of every piece
            self.assertEqual(report["used_bytes"], report["committed_bytes"])
            self.assertEqual(report["used_bytes"], sum(layer["k_bytes"] + layer["v_bytes"] for layer in report["per_layer"]))
            return report["committed_bytes"], peak_bytes(*args)
        (few, few_resident), (many, many_resident) = measured(512), measured(2560)
        self.assertEqual(many - few, 2048 * 46080)
        self.assertLess(abs((many_resident - few_resident) / (many - few) - 1), 0.02)

    @unittest.skipUnless(GEMMA.exists(), "skipped: models/fetch has not brought Gemma 3")
    def test_gemma_takes_memory_for_the_whole_context_on_three_layers_only(self):
        report = json.loads(quern("run", GEMMA, "--raw", "-p", "Hello", "-n", 1, "-c", 32768, "--kv-type", "f16", "--json").stdout)["kv"]
        piece = 256 * 1024  # 256 positions, one KV head of 256, K and V in f16
        self.assertEqual(report["reserved_bytes"], (3 * 128 + 15 * 5) * piece)  # a ring: window and step of the prompt, 512 each, and one
        self.assertEqual([l for l in range(18) if l not in report["windowed_layers"]], [5, 11, 17])


if __name__ == "__main__":
    unittest.main()
