"""Caches that forget: a window with sinks computes what StreamingLLM means by it, and the commands say what they do."""
import json
import os
import subprocess
import sys
import unittest

from logits_case import MAKE_TINY_MODELS, QUERN, TINY, LogitsCase, quern



class Policy(LogitsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([sys.executable, str(MAKE_TINY_MODELS), str(cls.root), "--head-dims", "64", "--layers", "1"], check=True, capture_output=True)
        cls.one_layer = cls.root / "tiny-head64.gguf"

    def logits(self, tokens, *options):
        return self.logits_of(self.one_layer, tokens, "--act", "f32", "--kv-type", "f32", *options)

    def worst(self, a, b):
        return max(abs(x - y) for x, y in zip(a, b))

    def test_a_window_with_sinks_is_the_text_without_its_middle(self):
        """In a model of one layer, keys and values depend on the token alone: the first S and the last W tokens as a text of their
        own, at positions 0 to S+W-1, have to give the same logits."""
        tokens = [(i * i * 7 + i * 13) % 300 + 10 for i in range(600)]
        for window, sinks in (20, 3), (300, 5), (17, 0), (40, 1):
            rows = self.logits(tokens, "--kv-window", window, "--kv-sinks", sinks)
            spread = max(rows[-1]) - min(rows[-1])
            for position in (window + sinks - 1, window + sinks, window + sinks + 41, 599):
                text = tokens[:position + 1] if position < window + sinks else tokens[:sinks] + tokens[position + 1 - window:position + 1]
                self.assertLess(self.worst(rows[position], self.logits(text)[-1]), 2e-5 * spread, (window, sinks, position))
            # The comparison can fail: one token less in the middle is another text.
            self.assertGreater(self.worst(rows[599], self.logits(tokens[:sinks] + tokens[601 - window:600])[-1]), 1e-3 * spread)

    def test_a_run_goes_on_past_any_context(self):
        done = quern("run", TINY, "--raw", "-p", "the", "-n", 700, "--ignore-eos", "--kv-window", 64, "--kv-report", "json", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        kv = got["kv"]
        self.assertEqual(got["finish_reason"], "length")
        self.assertEqual(len(got["tokens"]), 700)
        self.assertEqual((kv["policy"], kv["is_endless"], kv["context_tokens"]), ("window 64, sinks 4", True, 68))
        self.assertEqual(kv["evicted_tokens"], kv["used_tokens"] - 68)
        self.assertEqual({layer["rows"] for layer in kv["per_layer"]}, {68})

    def test_the_report_says_what_was_evicted(self):
        err = quern("run", TINY, "--raw", "-p", "the", "-n", 100, "--ignore-eos", "--temp", 0, "--kv-window", 32, "--kv-sinks", 2).stderr
        self.assertIn("policy window 32, sinks 2", err)
        self.assertRegex(err, r"evicted +\d+ tokens: positions 2 to \d+")

    def test_what_contradicts_itself_is_refused(self):
        for args, message in ((("--kv-sinks", 4), "--kv-window"), (("--kv-window", 64, "-c", 256), "give one of them"), (("--kv-window", 0), "--kv-window")):
            for command in ("run", "chat"):
                done = quern(command, TINY, "--template", "chatml", *args, *(("-p", "x") if command == "run" else ()))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)

    def test_a_window_beyond_the_trained_context_is_warned_of(self):
        self.assertIn("--kv-window 100000 with 4 sinks is beyond the", quern("run", TINY, "--raw", "-p", "x", "-n", 1, "--kv-window", 100000).stderr)

    def test_perplexity_measures_what_a_window_costs(self):
        text = self.root / "text"
        text.write_text("the cache keeps a key and a value of every token. " * 20)
        done = quern("perplexity", TINY, "-f", text, "-c", 128, "--kv-window", 16, "--compare-kv", "f32,int8", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        all_tokens, window, small = json.loads(done.stdout)["caches"]
        self.assertEqual([c["policy"] for c in (all_tokens, window, small)], ["full", "window 16, sinks 4", "window 16, sinks 4"])
        self.assertGreater(window["kl_mean"], 1e-4)
        self.assertNotIn("needs more bits", done.stderr)

    def test_eviction_by_use_gives_the_same_bits_on_every_instruction_set(self):
        tokens = [(i * i * 7 + i * 13) % 300 + 10 for i in range(800)]
        for kv in "f16", "int8", "int4":
            found = {}
            for isa in "scalar", "avx2", "avx512":
                out = self.root / isa
                done = subprocess.run([QUERN, "logits", str(self.one_layer), "--tokens", ",".join(map(str, tokens)), "--kv-type", kv, "--kv-evict", "heavy:512", "--out", str(out)],
                                      env=dict(os.environ, QUERN_ISA=isa), capture_output=True, text=True, timeout=120, check=False)
                if done.returncode == 2 and "QUERN_ISA" in done.stderr:
                    print("skipped: this CPU has no %s" % isa, file=sys.stderr)
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                found[isa] = out.read_bytes()
            self.assertEqual(len(set(found.values())), 1, list(found))

    def test_eviction_by_use_is_reported_and_checked(self):
        err = quern("run", TINY, "--raw", "-p", "the", "-n", 900, "-c", 1024, "--ignore-eos", "--temp", 0, "--kv-evict", "heavy:512").stderr
        self.assertIn("policy heavy 512", err)
        self.assertRegex(err, r"evicted +\d+ tokens by use")
        for args, message in ((("--kv-evict", "heavy"), "is no policy"), (("--kv-evict", "heavy:x"), "is no policy"), (("--kv-evict", "heavy:100"), "512 or a larger multiple of 256"), (("--kv-evict", "heavy:700"), "512 or a larger multiple of 256"), (("--kv-evict", "heavy:512", "--kv-window", 64), "excludes"),
                              (("--kv-evict", "heavy:512", "--session", self.root / "s"), "excludes")):
            done = quern("run", TINY, "--raw", "-p", "the", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)

    def test_bench_measures_past_the_context(self):
        done = quern("bench", TINY, "--depths", 600, "--gen", 16, "-r", 1, "--kv-window", 64, "--json", "-t", 1)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
