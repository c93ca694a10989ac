"""Models of every head size with every type of cache: finite logits, errors as large as the type's bits say and no larger; and numbers
that are not finite stop a run where they come up."""
import math
import struct
import subprocess
import sys
import unittest

from logits_case import MAKE_TINY_MODELS, LogitsCase, quern

HEAD_SIZES = (64, 72, 80, 96, 100, 128, 256)
TOKENS = [(i * i * 7 + i * 13) % 300 + 10 for i in range(320)]  # crosses a piece of 256 positions
# RMS of a value's relative rounding error: half a unit in the last place over the square root of 3, in the middle of a binade, for the
# float types; a step of amax/127 or amax/8 over the square root of 12 for the others, where amax is 2.2 deviations (32 normal values).
ROUNDING = {"f16": 1.4e-4, "bf16": 1.1e-3, "int8": 5.0e-3, "fp8": 1.8e-2, "int4": 7.9e-2}
# The logits' RMS error over their spread, in units of that: two layers, keys or values or both.
LEAST, MOST = 0.4, 5


class HeadSizes(LogitsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([sys.executable, str(MAKE_TINY_MODELS), str(cls.root), "--head-dims", *map(str, HEAD_SIZES)], check=True, capture_output=True)

    def logits(self, head_size, *types):
        values = [x for row in self.logits_of(self.root / ("tiny-head%d.gguf" % head_size), TOKENS, "--act", "f32", *types) for x in row]
        self.assertTrue(all(map(math.isfinite, values)))
        return values

    def test_every_type_errs_as_much_as_its_bits_say(self):
        for size in HEAD_SIZES:
            exact = self.logits(size, "--kv-type", "f32")
            mean = math.fsum(exact) / len(exact)
            spread = math.sqrt(math.fsum((x - mean) ** 2 for x in exact) / len(exact))
            errors = {}
            for name, rounding in ROUNDING.items():
                for types in (("--kv-type", name), ("--k-type", name, "--v-type", "f32"), ("--k-type", "f32", "--v-type", name)):
                    got = self.logits(size, *types)
                    error = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(got, exact)) / len(exact)) / spread
                    errors.setdefault(name, []).append(error)
                    self.assertTrue(LEAST < error / rounding < MOST, "head size %d, %s: RMS error %.2g of the logits' spread" % (size, types, error))
            for smaller, larger in (("f16", "bf16"), ("f16", "int8"), ("int8", "int4"), ("fp8", "int4")):
                self.assertLess(errors[smaller][0], errors[larger][0], (size, smaller, larger))

    def damaged(self, tensor, value):
        """A copy of a model in which one value of a tensor is another."""
        import gguf_bytes
        path = self.root / "tiny-head64.gguf"
        model = gguf_bytes.Model(path)
        data = bytearray(path.read_bytes())
        start = len(data) - len(model.data) + model.tensors[tensor][2]
        data[start + 40:start + 44] = struct.pack("<f", value)
        other = self.root / "damaged.gguf"
        other.write_bytes(data)
        return other

    def test_what_is_not_finite_stops_the_run_with_its_place_named(self):
        for value in (math.nan, math.inf, -math.inf):
            for tensor, place in (("blk.0.attn_norm.weight", "the input of attention of layer 0"), ("blk.1.ffn_norm.weight", "the input of the feed-forward part of layer 1"),
                                  ("blk.1.attn_v.weight", "the output of attention of layer 1"), ("blk.0.ffn_up.weight", "the inside of the feed-forward part of layer 0"),
                                  ("blk.1.ffn_down.weight", "the hidden state after the last layer"), ("output.weight", "the logits after the last layer")):
                path = self.damaged(tensor, value)
                for act in ("f32", "int8"):
                    done = quern("run", path, "--raw", "-p", "sun and moon", "-n", 4, "--act", act)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), (tensor, value, act, done.stderr))
                    self.assertRegex(done.stderr, "not finite .* came up in %s at positions 0 to [0-9]+" % place, (tensor, value, act))


if __name__ == "__main__":
    unittest.main()
