"""quern bench: what its JSON says, that wrong tokens are caught, and that the page has its plots and needs nothing beside itself."""
import html.parser
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny/llama-q4_1.gguf"
VOID = {"meta", "link", "line", "path", "circle", "rect", "br"}


def bench(*args, **options):
    return subprocess.run([QUERN, "bench", str(TINY), "--repeats", "1", "--quiet", *map(str, args)], capture_output=True, text=True, timeout=300, check=False, **options)


def lines_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


class Page(html.parser.HTMLParser):
    """Counts elements and sees that they nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.titles, self.faults = [], {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID or (tag == "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)


class Bench(unittest.TestCase):
    def test_a_line_for_every_setting(self):
        result = bench("--depths", "8,20,8", "--gen", 14, "--prompt", "12,12", "--threads", "1,1,2", "--kv-types", "f16,int8,f16", "--json")  # repeats count once
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = lines_of(result)
        self.assertEqual([line["threads"] for line in lines if line["bench"] == "machine"], [1, 2])
        depths = [line for line in lines if line["bench"] == "depth"]
        self.assertEqual([(d["threads"], d["kv"], d["depth"]) for d in depths], [(t, kv, n) for t in (1, 2) for kv in ("f16", "int8") for n in (8, 20)])
        self.assertEqual([line["pp_tokens"] for line in lines if line["bench"] == "prompt"], [12] * 4)
        for d in depths:
            self.assertEqual((d["pp_tokens"], d["tg_tokens"], d["check"], len(d["tokens"])), (d["depth"], 14, "ok", 12))
            self.assertAlmostEqual(d["gb_per_s"], (d["weight_bytes"] + d["kv_bytes"]) * d["tg_tps"] * 1e-9, delta=1e-9 + 1e-6 * d["gb_per_s"])
            self.assertGreater(min(d["pp_tps"], d["tg_tps"], d["bus_share"], d["peak_share"]), 0)
        f16, int8 = ([d["kv_bytes"] for d in depths if d["kv"] == kv] for kv in ("f16", "int8"))
        # A sequence's key frames weigh more than so few tokens save: what further tokens add is compared.
        for at in (0, 2):
            self.assertGreater(f16[at + 1] - f16[at], int8[at + 1] - int8[at])
            self.assertGreater(int8[at + 1], int8[at])

    def test_tokens_are_those_of_a_plain_run_and_wrong_ones_are_caught(self):
        options = ("--depths", 20, "--gen", 12, "--json", "--threads", 2)
        tokens = lines_of(bench(*options))[-1]["tokens"]
        self.assertEqual(bench(*options, "--expect", ",".join(map(str, tokens))).returncode, 0)
        tokens[7] ^= 1
        result = bench(*options, "--expect", ",".join(map(str, tokens)))
        self.assertEqual(result.returncode, 1)
        self.assertIn("its speed means nothing", result.stderr)
        self.assertEqual(lines_of(result)[-1]["check"], "failed")
        self.assertIn("FAILED", bench(*[o for o in options if o != "--json"], "--expect", ",".join(map(str, tokens))).stdout)

    def test_stopped_it_shows_what_it_measured(self):
        command = [QUERN, "bench", str(TINY), "--repeats", "1000", "--depths", "16,64", "--gen", "16", "--json"]
        depths = []
        for seconds in (2, 4, 8, 16, 32):  # until the machine itself has been measured there is nothing to show
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                time.sleep(seconds)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            self.assertIn("interrupted", err)
            rows = [row for row in map(json.loads, out.splitlines()) if row["bench"] == "depth"]
            depths = [row["depth"] for row in rows]
            if len(depths) == 2:
                break
        self.assertEqual(depths, [16, 64])
        self.assertEqual({row["check"] for row in rows}, {"none"})

    def test_curves_and_stages(self):
        lines = {line["bench"] + line.get("what", ""): line for line in lines_of(bench("--depths", 8, "--gen", 12, "--widths", "--no-cache=10", "--profile", "--json"))}
        self.assertEqual((lines["widths"]["n_tokens"][0], lines["widths"]["n_tokens"][-1]), (1, 32))
        self.assertEqual(len(lines["widths"]["ms"]), len(lines["widths"]["n_tokens"]))
        no_cache = lines["no_cache"]
        self.assertEqual((len(no_cache["cached_ms"]), len(no_cache["recomputed_ms"]), no_cache["check"]), (10, 10, "ok"))
        self.assertEqual(sorted(no_cache["recomputed_ms"]), no_cache["recomputed_ms"])
        for what in ("prefill", "decode"):
            stages = lines["stages" + what]
            self.assertAlmostEqual(sum(stages["ms"].values()), stages["total_ms"], delta=0.02 * stages["total_ms"])
            for name in ("qkv", "rope", "attention", "attn_out", "ffn_up", "ffn_down", "output", "waiting at barriers"):
                self.assertIn(name, stages["ms"])
        self.assertIn("sampling", lines["stagesdecode"]["ms"])

    def test_the_page_has_its_plots_and_needs_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "speed.html"
            result = bench("--depths", "8,20", "--gen", 12, "--kv-types", "f16,int8", "--no-cache=8", "--html", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            text = path.read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual((page.faults, page.open), ([], []))
        self.assertEqual(page.titles, ["Decode over depth", "Prefill over depth", "What the cache saves", "Cost of one step of n tokens", "Where the time goes"])
        self.assertEqual(page.counts["svg"], 6)
        self.assertGreater(page.counts["path"], 8)
        self.assertNotIn("script", page.counts)
        for outside in ("http", "//", "@import", "url(", "nan", "inf\""):
            self.assertNotIn(outside, text)

    def test_wrong_usage(self):
        for args in (["--depths", "0"], ["--depths", "100000000"], ["--kv-types", "f17"], ["--expect", "1,2"], ["--threads", "0"], ["--gen", "x"], ["--no-cache=0"]):
            result = bench("--json", *args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), (args, result.stderr))
        self.assertEqual(bench("--depths", 8, "--gen", 1, "--html", "/no/such/folder/x.html").returncode, 1)


if __name__ == "__main__":
    unittest.main()
