#!/usr/bin/env python3
"""quern tokenize from the outside: every way to give it text, every form of its answer, and what it says about mistakes.
Needs the reference vocabularies (QUERN_GOLDEN) and the binary (QUERN)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

QUERN = os.environ.get("QUERN", "build/quern")
VOCABULARIES = Path(os.environ.get("QUERN_GOLDEN", "build-dev/golden")) / "tokenizers"
SPM = VOCABULARIES / "ggml-vocab-llama-spm.gguf"
GPT2 = VOCABULARIES / "ggml-vocab-gpt-2.gguf"
QWEN2 = VOCABULARIES / "ggml-vocab-qwen2.gguf"


def run(*args, stdin=b""):
    return subprocess.run([QUERN, "tokenize", *map(str, args)], input=stdin, capture_output=True, timeout=60)


def answer(*args, stdin=b""):
    done = run(*args, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Tokenize(unittest.TestCase):
    def test_text_from_the_command_line_and_from_stdin_is_the_same(self):
        wanted = answer(GPT2, "Hello world")
        self.assertEqual(wanted, {"ids": [15496, 995], "pieces": ["Hello", " world"]})
        self.assertEqual(answer(GPT2, stdin=b"Hello world"), wanted)
        self.assertEqual(answer(GPT2, "-", stdin=b"Hello world"), wanted)

    def test_bytes_are_taken_as_they_are(self):
        for text in (b"A", b"A\n", b"\r\n", b"\xef\xbb\xbfx", b"a\0b", b" A ", b"a\\nb"):
            decoded = run(GPT2, "--decode", " ".join(map(str, answer(GPT2, stdin=text)["ids"])))
            self.assertEqual((decoded.stdout, decoded.returncode), (text, 0))
        self.assertEqual(len(answer(GPT2, stdin=b"A\n")["ids"]), len(answer(GPT2, stdin=b"A")["ids"]) + 1)
        self.assertEqual(answer(GPT2, stdin=b"")["ids"], [])
        self.assertEqual(answer(GPT2, "")["ids"], [])

    def test_half_a_character_is_no_mistake(self):
        self.assertEqual(answer(SPM, stdin=b"\xe6\xad")["ids"], [29871, 233, 176])
        self.assertEqual(answer(GPT2, stdin=b"\xff\xfe"), answer(GPT2, "\ufffd\ufffd"))

    def test_the_table_for_people(self):
        done = run(GPT2, "Hi you\n")
        self.assertEqual(done.stdout.decode().splitlines(), ['   17250  "Hi"', '     345  " you"', '     198  "\\n"'])

    def test_special_tokens(self):
        self.assertGreater(len(answer(QWEN2, "<|im_end|>")["ids"]), 1)
        self.assertEqual(answer(QWEN2, "<|im_end|>", "--parse-special")["ids"], [151645])
        self.assertEqual(answer(SPM, "Hi", "--add-special")["ids"][0], 1)
        twice = run(SPM, "<s>Hi", "--add-special", "--parse-special", "--json")
        self.assertEqual(json.loads(twice.stdout)["ids"][:2], [1, 1])
        self.assertIn(b"'<s>'", twice.stderr)

    def test_many_texts(self):
        lines = ['"Hello"', "", r'"\ud83d\ude00 \ud800x \udc00"', '"a\\u2028b"', '""', ' "tab\\t" \r']
        done = run(GPT2, "--json-lines", stdin="\n".join(lines).encode())
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual(len(answers), 5)
        texts = ["Hello", "\U0001f600 \ufffdx \ufffd", "a\u2028b", "", "tab\t"]
        for got, text in zip(answers, texts):
            self.assertEqual(got["ids"], answer(GPT2, stdin=text.encode())["ids"])
        raw = run(GPT2, "--json-lines", stdin=b'"\xff"\n')
        self.assertEqual(json.loads(raw.stdout)["ids"], answer(GPT2, stdin=b"\xff")["ids"])

    def test_decoding(self):
        for ids in ("15496 995", "15496,995", "[15496, 995]", "15496\n995\n"):
            self.assertEqual(run(GPT2, "--decode", ids).stdout, b"Hello world")
            self.assertEqual(run(GPT2, "--decode", stdin=ids.encode()).stdout, b"Hello world")
        self.assertEqual(answer(GPT2, "--decode", "15496"), {"text": "Hello"})
        self.assertEqual(run(QWEN2, "--decode", "151645 9707").stdout, b"<|im_end|>Hello")
        self.assertEqual(run(QWEN2, "--decode", "--hide-special", "151645 9707").stdout, b"Hello")
        lines = run(GPT2, "--decode", "--json-lines", stdin=b"[15496]\n995\n").stdout.decode().splitlines()
        self.assertEqual([json.loads(line)["text"] for line in lines], ["Hello", " world"])

    def test_another_pre_tokenizer(self):
        self.assertNotEqual(answer(GPT2, "12345", "--pre", "qwen2"), answer(GPT2, "12345"))

    def test_mistakes(self):
        def mistake(status, *parts, args, stdin=b""):
            done = run(*args, stdin=stdin)
            self.assertEqual(done.returncode, status, done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr.decode())
            self.assertEqual(len(done.stderr.decode().strip().splitlines()), 1)

        mistake(2, "--pre", "'nope'", "qwen2", args=(GPT2, "x", "--pre", "nope"))
        mistake(2, "50257", "0 to 50256", args=(GPT2, "--decode", "50257"))
        mistake(2, "'12x'", args=(GPT2, "--decode", "5 12x"))
        mistake(2, "'99999999999'", args=(GPT2, "--decode", "99999999999"))
        mistake(2, "-5", "0 to 50256", args=(GPT2, "--decode"), stdin=b"-5")
        for bad in (b"hello", b'"open', b'"a" b', b'"\\x"', b'"\\u12"', b'"\\', b"{}", b'"'):
            mistake(2, "line 2", args=(GPT2, "--json-lines"), stdin=b'"good"\n' + bad)
        mistake(3, "no-such-file.gguf", args=("no-such-file.gguf", "x"))
        with tempfile.NamedTemporaryFile(suffix=".gguf") as empty:
            mistake(3, empty.name, args=(empty.name, "x"))


if __name__ == "__main__":
    if not SPM.exists():
        print("skipped: no reference vocabularies in %s" % VOCABULARIES)
        sys.exit(77)
    unittest.main()
