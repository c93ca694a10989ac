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

    def test_latent_rows_are_counted_once_and_what_they_save_is_said(self):
        got = plan(TINY / "deepseek2.gguf")  # 3 layers; rows of 24 + 8; 4 heads with keys of 16 + 8 and values of 16
        self.assertEqual({t: got["types"][t]["bytes_per_token"] for t in ("f32", "f16")}, {"f32": 3 * 32 * 4, "f16": 3 * 32 * 2})
        self.assertEqual(got["expanded_bytes_per_token"], 3 * 4 * (24 + 16) * 2)
        text = subprocess.run([QUERN, "inspect", str(TINY / "deepseek2.gguf"), "--kv-plan"], capture_output=True, check=True, text=True).stdout
        self.assertIn("would take 960 bytes/token in f16", text)
        run = subprocess.run([QUERN, "run", str(TINY / "deepseek2.gguf"), "--raw", "-p", "abc", "-n", "4", "--ignore-eos", "--kv-report=json"], capture_output=True, check=True, timeout=60)
        report = json.loads(run.stderr.decode().strip().splitlines()[-1])
        self.assertEqual((report["latent_rank"], report["head_dim"], report["kv_heads"], report["bytes_per_token"]), (24, 32, 1, 192))
        self.assertEqual(report["mha_bytes"], report["used_tokens"] * 960)
        self.assertEqual(report["used_bytes"], report["used_tokens"] * 192)

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
