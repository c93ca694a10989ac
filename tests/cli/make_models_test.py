"""The model-making scripts: same seed, same file; every type's blocks hold finite factors; quern reads what they write."""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DEV = Path(os.environ["QUERN_SOURCE"]) / "tools/dev"
SMALL = ["--n-layers", "1", "--n-embd", "256", "--n-ff", "512", "--n-heads", "4", "--n-kv-heads", "2", "--n-vocab", "320"]
TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()


def make(script, *args):
    return subprocess.run([sys.executable, str(DEV / script), *map(str, args)], capture_output=True, text=True, check=False)


class MakeModels(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)

    def inspect(self, path):
        result = subprocess.run([os.environ["QUERN"], "inspect", str(path), "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def decode(self, path, tensor):
        out = self.root / "tensor.f32"
        result = subprocess.run([os.environ["QUERN"], "inspect", str(path), "--tensor", tensor, "--out", str(out)], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = out.read_bytes()
        return struct.unpack("<%df" % (len(data) // 4), data)

    def test_same_seed_same_file(self):
        sums = []
        for seed in (1, 1, 2):
            result = make("make_synthetic.py", self.root / "s.gguf", "--type", "Q4_K", "--seed", seed, *SMALL)
            self.assertEqual(result.returncode, 0, result.stderr)
            sums.append(hashlib.sha256((self.root / "s.gguf").read_bytes()).hexdigest())
        self.assertEqual(sums[0], sums[1])
        self.assertNotEqual(sums[0], sums[2])
        self.assertEqual([p.name for p in self.root.iterdir()], ["s.gguf"])

    def test_every_type_is_read_and_spreads_as_said(self):
        for name in TYPES:
            path = self.root / "s.gguf"
            self.assertEqual(make("make_synthetic.py", path, "--type", name, *SMALL).returncode, 0, name)
            values = self.decode(path, "blk.0.ffn_up.weight")
            self.assertEqual(len(values), 256 * 512)
            mean = sum(values) / len(values)
            spread = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
            self.assertTrue(0.014 < spread < 0.028, "%s: spread %g" % (name, spread))
            self.assertLess(abs(mean), 0.003, name)  # two's-complement codes are half a step off centre

    def test_rows_that_blocks_do_not_divide_are_refused(self):
        result = make("make_synthetic.py", self.root / "s.gguf", "--type", "Q4_K", "--n-embd", "160")
        self.assertEqual(result.returncode, 2)
        self.assertIn("rows of 160 values cannot be Q4_K, whose blocks hold 256", result.stderr)
        self.assertFalse((self.root / "s.gguf").exists())

    def test_tiny_models_have_the_head_sizes_asked_for(self):
        self.assertEqual(make("make_tiny_models.py", self.root, "--head-dims", "72", "100").returncode, 0)
        for dim in (72, 100):
            self.inspect(self.root / ("tiny-head%d.gguf" % dim))
            self.assertEqual(len(self.decode(self.root / ("tiny-head%d.gguf" % dim), "blk.1.attn_k.weight")), 64 * 2 * dim)
        self.assertEqual(make("make_tiny_models.py", self.root, "--head-dims", "81").returncode, 2)

    def test_architecture_models_are_those_the_reference_logits_were_computed_on(self):
        self.assertEqual(make("make_tiny_models.py", self.root, "--archs").returncode, 0)
        described = sorted((Path(os.environ["QUERN_SOURCE"]) / "tests/golden/archs").glob("*.json"), key=lambda path: path.stem)
        self.assertEqual([path.stem for path in described], sorted(path.stem for path in self.root.iterdir()))
        for path in described:
            wanted = json.loads(path.read_text())["model_sha256"]
            self.assertEqual(hashlib.sha256((self.root / (path.stem + ".gguf")).read_bytes()).hexdigest(), wanted, path.stem)

    def test_an_unknown_architecture_model_is_refused(self):
        result = make("make_tiny_models.py", self.root, "--archs", "lama")
        self.assertEqual(result.returncode, 2)
        self.assertIn("not known: lama; known are", result.stderr)


if __name__ == "__main__":
    unittest.main()
