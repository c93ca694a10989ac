"""The KV plan of quern inspect: known geometries, and the same bytes that a run reports."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gguf_bytes import STRING, build  # noqa: E402

QUERN = os.environ["QUERN"]
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny"


def plan(model, *args):
    result = subprocess.run([QUERN, "inspect", str(model), "--kv-plan", "--json", *args], capture_output=True, check=True, timeout=60)
    return json.loads(result.stdout)["kv_plan"]


class KvPlan(unittest.TestCase):
    def test_bytes_per_token_follow_the_formula(self):
        types = plan(TINY / "llama.gguf")["types"]  # 3 layers, 2 KV heads of 16: 2 * 3 * 2 * 16 elements a token
        elements = 2 * 3 * 2 * 16
        self.assertEqual({t: types[t]["bytes_per_token"] for t in ("f32", "f16", "bf16")}, {"f32": 4 * elements, "f16": 2 * elements, "bf16": 2 * elements})
        self.assertEqual(types["int8"]["bytes_per_token"], elements + elements // 16 * 2)  # an f16 scale for a (short) group of 16

    def test_windowed_layers_stop_growing(self):
        got = plan(TINY / "gemma3.gguf", "-c", "4096,65536")
        self.assertEqual((got["layers"], got["windowed_layers"]), (7, 6))
        small, large = got["types"]["f16"]["bytes"]
        per_piece = 2 * 32 * 2 * 256
        self.assertEqual(large - small, (65536 - 4096) // 256 * per_piece)

    def test_the_plan_is_what_a_run_commits(self):
        run = subprocess.run([QUERN, "run", str(TINY / "qwen2.gguf"), "--raw", "-p", "abc" * 80, "-n", "60", "--ignore-eos", "-c", "256", "--kv-report=json", "--temp", "0"], capture_output=True, check=True, timeout=60)
        report = json.loads(run.stderr.decode().strip().splitlines()[-1])
        self.assertEqual(plan(TINY / "qwen2.gguf", "-c", "256")["types"]["f16"]["bytes"], [report["committed_bytes"]])

    def test_an_unsupported_architecture_has_no_plan_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "other.gguf"
            path.write_bytes(build([("general.architecture", STRING, "no-such")], []))
            self.assertIn("architecture 'no-such' is not supported; supported: ", plan(path)["unknown"])


if __name__ == "__main__":
    unittest.main()
