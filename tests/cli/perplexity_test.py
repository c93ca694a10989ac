"""quern perplexity: the same figure as computed here from raw logits, the comparison's table, page and refusals."""
import json
import math
import re
import unittest

from logits_case import TINY, LogitsCase, quern

TEXT = "the cache keeps a key and a value of every token. " * 8


def log_softmax(row):
    top = max(row)
    log_sum = math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - top - log_sum for x in row]


class Perplexity(LogitsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.root / "text"
        cls.text.write_text(TEXT)

    def log_probabilities(self, tokens, *options):
        return [log_softmax(row) for row in self.logits_of(TINY, tokens, *options)]

    def test_the_figures_follow_from_the_logits(self):
        n_ctx, n_chunks = 32, 2
        tokens = [int(t) for t in quern("run", TINY, "--raw", "-f", self.text, "--dump-tokens").stdout.split()]
        bos = tokens[0]
        nll, kl, same = {"f32": [], "int4": []}, [], []
        for chunk in range(n_chunks):
            ids = tokens[chunk * n_ctx:(chunk + 1) * n_ctx]
            ids[0] = bos  # this model asks for one
            rows = {t: self.log_probabilities(ids, "--kv-type", t) for t in nll}
            for i in range(n_ctx // 2, n_ctx - 1):
                for t in nll:
                    nll[t].append(-rows[t][i][ids[i + 1]])
                kl.append(sum(math.exp(p) * (p - q) for p, q in zip(rows["f32"][i], rows["int4"][i])))
                same.append(rows["f32"][i].index(max(rows["f32"][i])) == rows["int4"][i].index(max(rows["int4"][i])))
        got = json.loads(quern("perplexity", TINY, "-f", self.text, "-c", n_ctx, "--chunks", n_chunks, "--compare-kv", "int4", "--json").stdout)
        self.assertEqual((got["chunks"], got["scored_tokens"]), (n_chunks, len(kl)))
        for row in got["caches"]:
            self.assertAlmostEqual(row["nll"], sum(nll[row["k_type"]]) / len(kl), places=4)
            self.assertAlmostEqual(row["ppl"], math.exp(row["nll"]), places=4)
        row = got["caches"][1]
        self.assertAlmostEqual(row["kl_mean"], sum(kl) / len(kl), places=5)
        self.assertAlmostEqual(row["kl_max"], max(kl), places=5)
        self.assertAlmostEqual(row["top1_agreement"], sum(same) / len(same), places=6)
        self.assertAlmostEqual(row["ppl_ratio"], row["ppl"] / got["caches"][0]["ppl"], places=5)
        self.assertGreater(row["kl_mean"], 0)
        alone = json.loads(quern("perplexity", TINY, "-f", self.text, "-c", n_ctx, "--chunks", n_chunks, "--kv-type", "int4", "--batch", 5, "--threads", 1, "--json").stdout)
        self.assertEqual(alone["caches"][0]["nll"], row["nll"])

    def test_keys_and_values_apart_and_the_page(self):
        page = self.root / "page.html"
        got = quern("perplexity", TINY, "-f", self.text, "-c", 32, "--chunks", 1, "--compare-kv", "f32,int8,int8:int4", "--apart", "--html", page)
        self.assertEqual(got.returncode, 0, got.stderr)
        names = [line.split()[0] for line in got.stdout.splitlines()[2:]]
        self.assertEqual(names, ["f32", "int8", "int8:f32", "f32:int8", "int8:int4"])
        html = page.read_text()
        self.assertEqual(html.count("<circle"), 4)
        self.assertEqual(re.findall(r"https?://|src=|@import|url\(", html), [])

    def test_refusals(self):
        for args in (["-c", 100000], ["-c", 2], ["--chunks", 9999, "-c", 32], ["--compare-kv", "f16,int5"], ["--compare-kv", "f16", "--kv-type", "f32"], ["--html", "x"], ["-f", "/no/such"]):
            got = quern("perplexity", TINY, *([] if "-f" in args else ["-f", self.text]), *args)
            self.assertEqual((got.returncode, got.stdout), (2, ""), (args, got.stderr))


if __name__ == "__main__":
    unittest.main()
