"""quern inspect: report, JSON, one tensor decoded, split files, and exit statuses with their messages."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U16, U32, U64, Model, build  # noqa: E402

QUERN = os.environ["QUERN"]
GOLDEN = Path(os.environ["QUERN_GOLDEN"])
MODELS = Path(os.environ["QUERN_MODELS"])
SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = MODELS / "gemma-3-270m-q4_k_m.gguf"
ARCHITECTURE = ("general.architecture", STRING, "llama")


class InspectTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = Path(temporary.name)

    def quern(self, *arguments, **more):
        return subprocess.run([QUERN, "inspect", *map(str, arguments)], capture_output=True, timeout=60, **more)

    def file(self, data, name="x.gguf"):
        path = self.dir / name
        path.write_bytes(data)
        return path

    def report(self, path, *options):
        run = self.quern(path, "--json", *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def assert_fails(self, run, status, *parts):
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertEqual(run.stdout, b"")
        message = run.stderr.decode()
        self.assertEqual(message.count("\n"), 1, message)
        for part in parts:
            self.assertIn(part, message)

    # what a run would make of it

    def test_a_tensor_that_nothing_reads_is_named(self):
        model = Model(GOLDEN / "tiny" / "llama.gguf")
        dims = model.tensors["blk.0.attn_norm.weight"][0]
        for name in ("blk.0.attn_sub_norm.weight", "blk.0.attn_norm.bias", "rope_freqs.inv_freq"):
            model.tensors[name] = [dims, 0, len(model.data)]
            model.data += bytes(4 * dims[0] + -4 * dims[0] % 32)
        path = self.dir / "extra.gguf"
        model.write(path)
        unused = [fact["value"] for fact in self.report(path)["model"]["tensors"] if fact["what"] == "not used"]
        self.assertEqual(unused, ["'blk.0.attn_sub_norm.weight'", "'blk.0.attn_norm.bias'"])
        run = subprocess.run([QUERN, "run", str(path), "--raw", "-p", "the", "-n", "1"], capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("2 tensors that quern does not know", run.stderr)
        self.assertIn("blk.0.attn_sub_norm.weight", run.stderr)

    def test_a_tokenizer_that_cannot_be_had_is_a_refusal(self):
        model = Model(GOLDEN / "tiny" / "llama.gguf")
        model.set("tokenizer.ggml.model", STRING, "nosuch")
        path = self.dir / "tokenizer.gguf"
        model.write(path)
        report = self.report(path)
        self.assertFalse(report["model"]["runs"])
        self.assertIn("nosuch", report["model"]["refusal"])

    # reports

    def test_json_says_what_the_file_says(self):
        tokens = ["t%d" % i for i in range(20)]
        path = self.file(build([ARCHITECTURE, ("general.name", STRING, "A name\x1b[2J"), ("n", U32, 7), ("big", U64, 2**64 - 1),
                                ("f", F32, 0.5), ("yes", BOOL, True), ("tokens", ARRAY, (STRING, tokens)),
                                ("few", ARRAY, (I32, [-1, 2]))],
                               [("a.weight", [32, 2, 3], 2, bytes(108)), ("b", [5], 0, bytes(20))]))
        report = self.report(path)
        self.assertEqual(report["architecture"], "llama")
        self.assertEqual(report["name"], "A name\x1b[2J")
        self.assertEqual(report["parameters"], 197)
        self.assertEqual(report["file_bytes"], path.stat().st_size)
        self.assertEqual(report["tensor_bytes"], 128)
        self.assertEqual(report["types"], {"Q4_0": {"tensors": 1, "elements": 192, "bytes": 108}, "F32": {"tensors": 1, "elements": 5, "bytes": 20}})
        metadata = report["metadata"]
        self.assertEqual(metadata["big"], {"type": "u64", "value": 2**64 - 1})
        self.assertEqual(metadata["yes"], {"type": "bool", "value": True})
        self.assertEqual(metadata["f"], {"type": "f32", "value": 0.5})
        self.assertEqual(metadata["few"], {"type": "array", "element_type": "i32", "size": 2, "elided": False, "value": [-1, 2]})
        self.assertEqual(metadata["tokens"]["value"], tokens[:8])
        self.assertEqual((metadata["tokens"]["size"], metadata["tokens"]["elided"]), (20, True))
        self.assertEqual(report["tensors"][0], {"name": "a.weight", "type": "Q4_0", "shape": [3, 2, 32], "elements": 192, "bytes": 108, "part": 0, "offset": 0})
        self.assertEqual(self.report(path, "--full")["metadata"]["tokens"]["value"], tokens)
        text = self.quern(path)
        self.assertEqual(text.returncode, 0)
        self.assertEqual(text.stderr, b"")
        self.assertNotIn(b"\x1b", text.stdout)
        for part in ("A name\\x1b[2J", "… 12 more", "[3, 2, 32]", "197", "1 × Q4_0"):
            self.assertIn(part, text.stdout.decode())

    def test_architecture_of_another_kind_or_absent_is_shown(self):
        self.assertEqual(self.report(self.file(build([], [])))["architecture"], "")
        self.assertEqual(self.report(self.file(build([("general.architecture", U32, 1)], [])))["architecture"], "")
        self.assertEqual(self.report(self.file(build([("general.architecture", STRING, b"\xff")], [])))["architecture"], "\ufffd")

    def test_every_reference_model_is_read(self):
        for path in sorted((GOLDEN / "tiny").glob("*.gguf")) + sorted((GOLDEN / "tokenizers").glob("*.gguf")):
            run = self.quern(path)
            self.assertEqual((run.returncode, run.stderr), (0, b""), path)

    # one tensor

    def test_every_type_decodes_to_the_reference(self):
        for entry in json.loads((GOLDEN / "quants/index.json").read_text()):
            blocks = (GOLDEN / "quants" / entry["blocks"]).read_bytes()
            path = self.file(build([ARCHITECTURE], [("first", [4], 0, bytes(16)), ("w", [entry["cols"], entry["rows"]], entry["ggml_type"], blocks)]))
            out = self.dir / "w.f32"
            run = self.quern(path, "--tensor", "w", "--out", out)
            self.assertEqual((run.returncode, run.stdout), (0, b""), run.stderr)
            self.assertEqual(out.read_bytes(), (GOLDEN / "quants" / entry["f32"]).read_bytes(), entry["type"])

    def test_a_tensor_that_cannot_be_had(self):
        path = self.file(build([ARCHITECTURE], [("blk.0.attn_q.weight", [4], 0, bytes(16)), ("ids", [4], 26, bytes(16)), ("nv", [64], 40, bytes(36))]))
        out = self.dir / "w.f32"
        self.assert_fails(self.quern(path, "--tensor", "attn_q", "--out", out), 2, "no tensor 'attn_q'", "'blk.0.attn_q.weight'")
        self.assert_fails(self.quern(path, "--tensor", "ids", "--out", out), 3, "'ids'", "I32")
        self.assert_fails(self.quern(path, "--tensor", "nv", "--out", out), 3, "'nv'", "NVFP4")
        self.assert_fails(self.quern(path, "--tensor", "blk.0.attn_q.weight", "--out", self.dir / "absent" / "x"), 1, "No such file")
        if os.path.exists("/dev/full"):
            self.assert_fails(self.quern(path, "--tensor", "blk.0.attn_q.weight", "--out", "/dev/full"), 1, "No space left")

    # usage

    def test_wrong_usage_is_status_2(self):
        path = self.file(build([ARCHITECTURE], [("w", [4], 0, bytes(16))]))
        for arguments in ([], [path, "--tensor", "w"], [path, "--out", "x"], [path, "--json", "--tensor", "w", "--out", "x"], [path, path], [path, "--no-such-flag"]):
            run = self.quern(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, b""), arguments)
            self.assertTrue(run.stderr)

    def test_a_full_disk_is_status_1(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        path = self.file(build([ARCHITECTURE], []))
        with open("/dev/full", "w") as full:
            run = subprocess.run([QUERN, "inspect", path], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn(b"standard output", run.stderr)

    # bad files; the long table is tests/bad_gguf

    def test_bad_files_are_status_3_with_their_path(self):
        good = build([ARCHITECTURE], [("w", [4], 0, bytes(16))])
        cases = {
            "cut short": (good[:-17], ["'w'", "truncated"]),
            "empty": (b"", ["empty"]),
            "ggml": (b"GGML" + bytes(100), ["before GGUF"]),
            "big-endian": (b"GGUF\0\0\0\3" + bytes(100), ["big-endian"]),
            "version 1": (b"GGUF\1\0\0\0" + bytes(100), ["version", "found 1", "allowed 2 or 3"]),
            "counts": (b"GGUF\3\0\0\0" + struct.pack("<QQ", 2**61, 2**60) + bytes(100), ["tensor count at offset 8", "found 2305843009213693952"]),
            "key": (b"GGUF\3\0\0\0" + struct.pack("<QQQ", 0, 1, 2**48 - 1) + bytes(100), ["key 1 of 1 at offset 24", "found 281474976710655"]),
            "zero": (build([ARCHITECTURE], [("w", [4, 0], 0, b"")]), ["dimension 1 of tensor 'w'", "found 0"]),
            "type": (build([ARCHITECTURE], [("w", [4], 99, b"")]), ["'w'", "id 99"]),
        }
        for name, (data, parts) in cases.items():
            with self.subTest(name):
                self.assert_fails(self.quern(self.file(data, "bad.gguf")), 3, "bad.gguf", *parts)
        self.assert_fails(self.quern(self.dir / "absent.gguf"), 3, "absent.gguf", "No such file")
        self.assert_fails(self.quern(self.dir), 3, "directory")

    def test_memory_is_bounded(self):
        size = 16 << 20
        path = self.file(b"GGUF\3\0\0\0" + struct.pack("<QQ", 10**5, 10**6) + bytes(size))
        with open(self.dir / "err", "wb") as err:
            child = subprocess.Popen([QUERN, "inspect", path], stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 3)
        self.assertIn(b"empty key", (self.dir / "err").read_bytes())
        self.assertLess(usage.ru_maxrss * 1024, 20 * size)

    # split sets

    def split(self, n):
        for i in range(n):
            metadata = [("split.no", U16, i), ("split.count", U16, n), ("split.tensors.count", I32, n)]
            values = struct.pack("<4f", *[i] * 4)
            data = build(([ARCHITECTURE] if i == 0 else []) + metadata, [("t%d" % i, [4], 0, values)])
            self.file(data, "m-%05d-of-%05d.gguf" % (i + 1, n))
        return [self.dir / ("m-%05d-of-%05d.gguf" % (i + 1, n)) for i in range(n)]

    def test_split_set(self):
        parts = self.split(3)
        report = self.report(parts[0])
        self.assertEqual(report["parts"], 3)
        self.assertEqual([(t["name"], t["part"]) for t in report["tensors"]], [("t0", 0), ("t1", 1), ("t2", 2)])
        self.assertEqual(report["file_bytes"], sum(p.stat().st_size for p in parts))
        out = self.dir / "t2.f32"
        self.assertEqual(self.quern(parts[0], "--tensor", "t2", "--out", out).returncode, 0)
        self.assertEqual(struct.unpack("<4f", out.read_bytes()), (2.0,) * 4)
        self.assert_fails(self.quern(parts[1]), 3, "this is part 2 of 3; give the first part", "m-00001-of-00003.gguf")
        parts[2].unlink()
        self.assert_fails(self.quern(parts[0]), 3, "part 3 of 3 is missing", "m-00003-of-00003.gguf")

    # real models, and what published files got wrong

    @unittest.skipUnless(SMOL.exists(), "no SmolLM2 (models/fetch brings it)")
    def test_smollm2_changed(self):
        path = self.dir / "smol.gguf"
        report = self.report(SMOL)
        self.assertEqual({k: v["tensors"] for k, v in report["types"].items()}, {"Q4_1": 210, "F32": 61, "Q8_0": 1})
        model = Model(SMOL)
        model.write(path, with_data=False)
        same = self.report(path)
        self.assertEqual(same["metadata"], report["metadata"])
        self.assertEqual(same["tensors"], report["tensors"])

        for no, parts in ((0, ["part 1 of 2", "-00001-of-00002.gguf"]), (1, ["part 2 of 2", "give the first part"])):
            model.set("split.no", U16, no)
            model.set("split.count", U16, 2)
            model.write(path, with_data=False)
            self.assert_fails(self.quern(path), 3, "smol.gguf", *parts)
        del model.key_values["split.no"], model.key_values["split.count"]

        for architecture in ("qwen3moe", ""):
            model.set("general.architecture", STRING, architecture)
            model.write(path, with_data=False)
            self.assertEqual(self.report(path)["architecture"], architecture)

        down = model.tensors["blk.3.ffn_down.weight"]
        down[1] = 99
        model.write(path, with_data=False)
        self.assert_fails(self.quern(path), 3, "'blk.3.ffn_down.weight'", "found id 99")
        down[1] = 3
        query = model.tensors["blk.0.attn_q.weight"]
        query[1] = 16
        model.write(path, with_data=False)
        self.assert_fails(self.quern(path), 3, "'blk.0.attn_q.weight'", "rows of 576 elements", "multiples of 256", "IQ2_XXS")
        query[1] = 3
        model.tensors["blk.0.attn_q.weight\0"] = query  # written without the NUL: the name twice
        model.write(path, with_data=False)
        self.assert_fails(self.quern(path), 3, "'blk.0.attn_q.weight' is there twice")

    @unittest.skipUnless(GEMMA.exists(), "no Gemma 3 (models/fetch brings it)")
    def test_gemma_counts_the_real_types(self):
        report = self.report(GEMMA)
        self.assertEqual({k: v["tensors"] for k, v in report["types"].items()}, {"F32": 109, "Q5_0": 81, "Q4_K": 27, "Q8_0": 10, "Q6_K": 9})
        self.assertEqual(report["metadata"]["gemma3.attention.key_length"]["value"], 256)


if __name__ == "__main__":
    unittest.main()
