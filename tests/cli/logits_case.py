"""What tests share that check a command's figures against raw logits: running quern in a folder of the test's own, and reading logits."""
import array
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny/llama-q4_1.gguf"
MAKE_TINY_MODELS = Path(os.environ["QUERN_SOURCE"]) / "tools/dev/make_tiny_models.py"


def quern(*args):
    return subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, errors="replace", timeout=120, check=False)


class LogitsCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def logits_of(self, model, tokens, *options):
        """A row of logits for each token."""
        out = self.root / "logits"
        done = quern("logits", model, "--tokens", ",".join(map(str, tokens)), "--out", out, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        values = array.array("f", out.read_bytes())
        n_vocab = len(values) // len(tokens)
        return [values[i * n_vocab:(i + 1) * n_vocab] for i in range(len(tokens))]
