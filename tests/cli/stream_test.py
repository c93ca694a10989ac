"""quern perplexity --stream: the figures follow from raw logits, and nonsense is refused."""
import json
import math
import unittest

from logits_case import TINY, LogitsCase, quern

TEXT = "the cache keeps a key and a value of every token, and some forget. " * 12


def nll(row, token):
    top = max(row)
    return math.log(math.fsum(math.exp(x - top) for x in row)) + top - row[token]


class Stream(LogitsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.root / "text"
        cls.text.write_text(TEXT)
        cls.tokens = [int(t) for t in quern("run", TINY, "--raw", "-f", cls.text, "--dump-tokens").stdout.split()]

    def stream(self, *args):
        done = quern("perplexity", TINY, "-f", self.text, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_figures_follow_from_the_logits(self):
        n, stride, window = 180, 50, 40
        got = json.loads(self.stream("--tokens", n, "--stride", stride, "--stream", "recompute:%d,window:30:2,full" % window, "--json"))
        recompute, streamed, full = got["columns"]
        anew = {}
        for end in range(stride, n + 1, stride):
            ids = self.tokens[max(0, end - window):end]
            ids[0] = self.tokens[0]  # this model asks for BOS
            for i, row in list(enumerate(self.logits_of(TINY, ids)))[-16:]:
                at = end - len(ids) + i
                anew[at] = nll(row, self.tokens[at + 1])
        mean = lambda values: math.fsum(values) / len(values)
        self.assertEqual(recompute["all"]["predictions"], len(anew))
        self.assertAlmostEqual(recompute["all"]["nll"], mean(list(anew.values())), places=4)
        for column, options in ((streamed, ("--kv-window", 30, "--kv-sinks", 2)), (full, ())):
            rows = [nll(row, self.tokens[i + 1]) for i, row in enumerate(self.logits_of(TINY, self.tokens[:n], *options))]
            self.assertEqual(column["all"]["predictions"], n)
            self.assertAlmostEqual(column["all"]["nll"], mean(rows), places=4)
            self.assertAlmostEqual(column["all"]["compared_nll"], mean([rows[i] for i in anew]), places=4)
            self.assertAlmostEqual(column["all"]["change"], column["all"]["compared_nll"] / recompute["all"]["nll"] - 1, places=6)

    def test_the_table_and_the_page_show_every_column(self):
        page = self.root / "page.html"
        out = self.stream("--stream", "full,window:30", "--html", page)
        self.assertIn("window:30", out)
        self.assertRegex(out, r"0-\d+ +\d\.\d{4} +\d\.\d{4} \([+-]\d+\.\d %\)")
        self.assertIn("<svg", page.read_text())

    def test_nonsense_is_refused(self):
        for args, message in ((("--stream", "window"), "is none of"), (("--stream", "window:0"), "is none of"), (("--stream", "sinks:4"), "is none of"),
                              (("--stream", "recompute:8"), "cannot score 16"), (("--stream", "full", "--tokens", 100000), "are to be scored"),
                              (("--stream", "full", "-c", 64), "excludes"), (("--tokens", 5), "requires"), (("--html", "x.html"), "--compare-kv or --stream")):
            done = quern("perplexity", TINY, "-f", self.text, *args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
