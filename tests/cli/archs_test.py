"""Architectures on the command line: what inspect says a model is made of, and that nothing about one is guessed: a file that lacks
what its architecture needs, or holds what quern cannot compute with, is refused by name."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
SOURCE = Path(os.environ["QUERN_SOURCE"])
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny"
sys.path.insert(0, str(SOURCE / "tools/dev"))
import tiny_archs  # noqa: E402

I32 = 26


def inspect(path):
    run = subprocess.run([QUERN, "inspect", str(path), "--json"], capture_output=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["model"]


class Archs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = Path(temporary.name) / "model.gguf"

    def facts(self, path, source):
        return [(fact["what"], fact["value"]) for fact in inspect(path)[source]]

    def refusal(self, name, change):
        """Why the tiny model `name` is refused after change(writer); running it must say the same of the file, with status 3."""
        model = tiny_archs.TinyModel(name)
        change(model.gguf)
        model.write(self.path)
        described = inspect(self.path)
        self.assertFalse(described["runs"])
        run = subprocess.run([QUERN, "run", str(self.path), "--raw", "-p", "a", "-n", "1"], capture_output=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertEqual("quern: '%s': %s\n" % (self.path, described["refusal"]), run.stderr.decode())
        return described["refusal"]

    @staticmethod
    def without(name):
        def change(gguf):
            kept = [tensor for tensor in gguf.tensors if tensor[0] != name]
            assert len(kept) == len(gguf.tensors) - 1, name
            gguf.tensors = kept
        return change

    def test_every_tiny_model_is_described_by_its_three_sources(self):
        for name in tiny_archs.MODELS:
            tiny_archs.TinyModel(name).write(self.path)
            described = inspect(self.path)
            self.assertTrue(described["runs"], name)
            for source in ("row", "keys", "tensors"):
                self.assertTrue(described[source], "%s: nothing from its %s" % (name, source))

    def test_what_differs_is_named_with_its_source(self):
        tiny_archs.TinyModel("stablelm-12b").write(self.path)
        self.assertIn(("norm", "layer norm"), self.facts(self.path, "row"))
        self.assertIn(("rotation", "base 10000, 4 dimensions"), self.facts(self.path, "keys"))
        self.assertIn(("query and key norm", "a row for each head"), self.facts(self.path, "tensors"))
        self.assertIn(("residual", "attention and feed-forward part side by side"), self.facts(self.path, "tensors"))
        self.assertIn(("window", "8 tokens in 6 of 7 layers"), self.facts(TINY / "gemma3.gguf", "keys"))
        self.assertIn(("query and key norm", "over all heads at once"), self.facts(TINY / "olmo2.gguf", "tensors"))
        self.assertIn(("gate", "in one tensor with up"), self.facts(TINY / "phi3.gguf", "tensors"))
        self.assertIn(("positions", "learned"), self.facts(TINY / "gpt2.gguf", "tensors"))

    def test_experts_and_latents_are_described(self):
        keys = self.facts(TINY / "deepseek2.gguf", "keys")
        self.assertIn(("latent attention", "rows of 24 + 8 rotated; a head's key has 16 + 8, its value 16"), keys)
        self.assertIn(("experts", "8 of width 32 in 2 of 3 layers; a token uses 3"), keys)
        self.assertIn(("router", "sigmoid, weights divided by their sum, times 1.5, from the best 2 of 4 groups"), keys)
        self.assertIn(("bias of the choice", "yes"), self.facts(TINY / "deepseek2.gguf", "tensors"))
        self.assertIn(("latent expansions", "in one tensor"), self.facts(TINY / "deepseek2-kvb.gguf", "tensors"))
        self.assertIn(("shared expert", "with a gate"), self.facts(TINY / "qwen2moe.gguf", "tensors"))
        self.assertIn(("expert gating", "softmax over the chosen without a key"), self.facts(TINY / "gpt-oss.gguf", "row"))
        self.assertIn(("attention sinks", "learned"), self.facts(TINY / "gpt-oss.gguf", "tensors"))

    def test_the_report_for_people_has_the_same_facts(self):
        run = subprocess.run([QUERN, "inspect", str(TINY / "gemma2.gguf")], capture_output=True, timeout=60, check=True)
        text = run.stdout.decode()
        for part in ("how quern computes it", "from its row", "from keys", "from tensors", "soft cap of scores   4"):
            self.assertIn(part, text)

    def test_an_unknown_architecture_is_named_with_the_known_ones(self):
        why = self.refusal("xverse", lambda gguf: gguf.metadata.__setitem__(0, gguf_string("general.architecture", "no-such")))
        self.assertIn("architecture 'no-such' is not supported; supported: arcee, ", why)

    def test_where_a_file_has_no_key_the_row_speaks(self):
        def keys_of(architecture, **changes):
            tiny_archs.MODELS["changed"] = (architecture, {"keys": {}, **changes}, "")
            self.addCleanup(tiny_archs.MODELS.pop, "changed", None)
            tiny_archs.TinyModel("changed").write(self.path)
            return dict(self.facts(self.path, "keys"))

        small = {"n_embd": 32, "n_heads": 4, "head_dim": 16, "n_kv_heads": 2, "n_ff": 32, "head_dim_keys": True, "output": False}
        gemma2 = keys_of("gemma2", n_layers=4, **small)
        self.assertEqual((gemma2["window"], gemma2["soft cap of scores"], gemma2["soft cap of logits"]), ("4096 tokens in 2 of 4 layers", "50", "30"))
        self.assertEqual(gemma2["attention scale"], "0.25")  # 1 / sqrt(head size)
        self.assertEqual(keys_of("gemma2", n_layers=46, **small)["attention scale"], "0.353553")  # 1 / sqrt(width / heads)
        minicpm = keys_of("minicpm", n_layers=4, **small)
        self.assertEqual((minicpm["embedding scale"], minicpm["residual scale"], minicpm["logit scale"]), ("12", "0.7", "8"))
        self.assertEqual(dict(self.facts(TINY / "gemma3-pattern.gguf", "keys"))["window"].split(" in ")[0], "8 tokens")

    def test_a_window_that_is_not_applied_is_said(self):
        tiny_archs.MODELS["changed"] = ("phi3", {"keys": {"attention.sliding_window": ("u32", 100)}}, "")
        self.addCleanup(tiny_archs.MODELS.pop, "changed", None)
        tiny_archs.TinyModel("changed").write(self.path)
        self.assertIn(("window", "100 tokens stated, not applied"), self.facts(self.path, "keys"))
        run = subprocess.run([QUERN, "run", str(self.path), "--raw", "-p", "a", "-n", "1"], capture_output=True, timeout=60, check=True)
        self.assertIn(b"the file states a window of 100 tokens, which is not applied", run.stderr)

    def test_a_missing_tensor_is_named(self):
        self.assertIn("blk.1.attn_k.weight is missing", self.refusal("xverse", self.without("blk.1.attn_k.weight")))

    def test_an_optional_tensor_that_one_layer_lacks_is_no_other_architecture(self):
        self.assertIn("layer 1 has no tensor ffn_norm, unlike layer 0", self.refusal("xverse", self.without("blk.1.ffn_norm.weight")))
        self.assertIn("layer 2 has no tensor bias of attn_q, unlike layer 0", self.refusal("seed_oss", self.without("blk.2.attn_q.bias")))

    def test_a_type_that_cannot_be_computed_with_is_named_with_those_that_can(self):
        def change(gguf):
            at = [tensor[0] for tensor in gguf.tensors].index("blk.0.ffn_up.weight")
            name, dims, _, n_blocks, block_bytes, data = gguf.tensors[at]
            gguf.tensors[at] = (name, dims, I32, n_blocks, block_bytes, data)
        why = self.refusal("xverse", change)
        self.assertIn("blk.0.ffn_up.weight is of type I32, which quern cannot compute with; it can with F32, F16, ", why)

    def test_a_missing_key_is_named(self):
        def change(gguf):
            gguf.metadata = [entry for entry in gguf.metadata if b"xverse.attention.head_count" not in entry[:40]]
        self.assertIn("xverse.attention.head_count is missing", self.refusal("xverse", change))

    def test_positions_beyond_the_trained_context_warn_and_learned_ones_end(self):
        tiny_archs.TinyModel("xverse").write(self.path)
        run = subprocess.run([QUERN, "run", str(self.path), "--raw", "-p", "a", "-n", "2", "-c", "512"], capture_output=True, timeout=60, check=True)
        self.assertIn(b"-c 512 is beyond the 256 tokens the model was trained for", run.stderr)
        run = subprocess.run([QUERN, "logits", str(self.path), "--tokens", ",".join(["5"] * 257), "--json"], capture_output=True, timeout=60, check=True)
        self.assertIn(b"-c 257 is beyond the 256 tokens the model was trained for", run.stderr)
        text = self.path.with_name("text.txt")
        text.write_text("as wide as the sea " * 200)
        run = subprocess.run([QUERN, "perplexity", str(self.path), "-f", str(text), "-c", "300"], capture_output=True, timeout=60, check=True)
        self.assertIn(b"-c 300 is beyond the 256 tokens the model was trained for", run.stderr)
        tiny_archs.TinyModel("starcoder").write(self.path)
        run = subprocess.run([QUERN, "run", str(self.path), "--raw", "-p", "a", "-n", "2", "-c", "65"], capture_output=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn(b"knows 64 positions by heart and no more; give -c 64 or less", run.stderr)


def gguf_string(key, text):
    """A metadata entry as GgufWriter keeps it."""
    from gguf_writer import GgufWriter
    writer = GgufWriter()
    writer.add(key, "str", text)
    return writer.metadata[0]


if __name__ == "__main__":
    unittest.main()
