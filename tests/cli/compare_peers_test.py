"""tools/dev/compare_peers.py with stand-ins for the three engines: turns, medians, ratios, and what happens when one fails."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(os.environ["QUERN_SOURCE"]) / "tools/dev/compare_peers.py"

# Both stand-ins log their turn; speeds rise by 10 a round, so that medians are known.
PEER = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
name = os.path.basename(sys.argv[1])[:-3] + ("+repack" if "--repack" in sys.argv else "")
log = open(folder + "/log", "a+"); log.write(name + "\\n"); log.seek(0)
turn = log.read().split().count(name)
if os.path.exists(folder + "/fail-" + name): sys.exit("out of luck")
print("some chatter")
base = {{"peer_bench": 100, "ik_bench": 200, "ik_bench+repack": 150}}[name] + 10 * turn
first = sys.argv.index("--prompt-tokens") + 1
for depth in sys.argv[first:]:
    if not depth.isdigit(): break
    decode = base / 2 if name != "ik_bench+repack" else 1000
    print(json.dumps({{"depth": int(depth), "pp_tps": base, "tg_tps": decode, "kv": sys.argv[sys.argv.index("--kv") + 1]}}))
"""
QUERN = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
value = lambda option: sys.argv[sys.argv.index(option) + 1]
log = open(folder + "/log", "a+"); log.write("quern\\n"); log.seek(0)
turn = log.read().split().count("quern")
print(json.dumps({{"bench": "machine", "read_gb_per_s": 1}}))
for depth in value("--depths").split(","):
    print(json.dumps({{"bench": "depth", "depth": int(depth), "pp_tps": 600 + 10 * turn, "tg_tps": 300, "kv": value("--kv-types")}}))
if os.path.exists(folder + "/fail-quern"): sys.exit("the tokens of a measured run are not those that were expected")
"""


class ComparePeers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        for name, text in (("python", PEER), ("quern", QUERN)):
            (self.root / name).write_text(text.format(python=sys.executable))
            (self.root / name).chmod(0o755)
        (self.root / "m.gguf").write_bytes(b"GGUF")

    def compare(self, *args):
        return subprocess.run([sys.executable, str(SCRIPT), str(self.root / "m.gguf"), "--quern", str(self.root / "quern"), "--peers-python",
                               str(self.root / "python"), "--rounds", "3", *args], capture_output=True, text=True, check=False)

    @staticmethod
    def rows(result):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in result.stdout.splitlines() if line.startswith("| m.gguf")]

    def test_turns_medians_and_ratios(self):
        result = self.compare("--raw", str(self.root / "raw.json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.root / "log").read_text().split(), ["quern", "peer_bench", "ik_bench"] * 3)
        prefill, decode = self.rows(result)
        self.assertEqual(prefill, ["m.gguf", "f16", "2", "prefill 512", "620", "120", "220", "5.17", "2.82"])
        self.assertEqual(decode, ["m.gguf", "f16", "2", "decode 64 at depth 512", "300", "60", "110", "5.00", "2.73"])
        figures = {(r["engine"], r["phase"]): r["tokens_per_s"] for r in json.loads((self.root / "raw.json").read_text())}
        self.assertEqual(figures["llama.cpp", "prefill"], [110, 120, 130])

    def test_the_better_of_as_is_and_repacked_counts(self):
        prefill, decode = self.rows(self.compare("--repack"))
        self.assertEqual((prefill[6], decode[6]), ("220", "1000"))

    def test_a_cache_type_that_peers_lack_is_left_out(self):
        result = self.compare("--kv", "fp8", "int8")
        self.assertEqual(result.returncode, 0, result.stderr)
        fp8, _, int8, _ = self.rows(result)
        self.assertEqual(fp8[4:], ["620", "–", "–", "–", "–"])
        self.assertEqual(int8[5], "120")

    def test_a_failing_engine_fails_the_run_and_not_the_others(self):
        (self.root / "fail-peer_bench").touch()
        result = self.compare()
        self.assertEqual(result.returncode, 1)
        self.assertIn("out of luck", result.stderr)
        self.assertEqual(self.rows(result)[0][4:], ["620", "–", "220", "–", "2.82"])

    def test_a_speed_whose_tokens_are_wrong_is_no_figure(self):
        (self.root / "fail-quern").touch()
        result = self.compare()
        self.assertEqual(result.returncode, 1)
        self.assertIn("not those that were expected", result.stderr)
        self.assertEqual(self.rows(result)[0][4], "–")

    def test_wrong_usage(self):
        self.assertIn("no engine is called 'vllm'", self.compare("--engines", "vllm").stderr)
        self.assertEqual(self.compare("--rounds", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
