"""The shell scripts with stand-ins for apt-get, cmake and the like: what they install, how they count, how they fail; and the
catalog against the reference data."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["QUERN_SOURCE"])
SCRIPTS = ["tools/quickstart", "tools/test", "tools/dev/fuzz.sh", "tools/dev/debian.sh", ".ci/run"]


def run(*command, env=None, cwd=SOURCE):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(env or {})), check=False)


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


class Scripts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)

    def need_packages(self, installed, apt_status=0):
        """need_packages a b c, where `installed` are there already; returns the result and what apt-get was told."""
        tools = self.root / "bin"
        write_program(tools / "dpkg-query", 'case " %s " in *" ${@: -1} "*) printf "install ok installed" ;; *) exit 1 ;; esac\n' % installed)
        write_program(tools / "apt-get", 'echo "$@" >>%s/apt.log; exit %d\n' % (self.root, apt_status))
        write_program(tools / "sudo", '"$@"\n')
        result = run("bash", "-c", "set -euo pipefail; source tools/dev/debian.sh; need_packages aa bb cc",
                     env={"PATH": "%s:%s" % (tools, os.environ["PATH"])})
        log = self.root / "apt.log"
        return result, log.read_text() if log.exists() else ""

    def copy_with_stubs(self, test_line, test_status, fuzz_line="1 passed, 0 failed, 0 skipped", fuzz_status=0):
        """A tree with the real .ci/run and tools/test, tools/dev/fuzz.sh that only report."""
        tree = self.root / "tree"
        for name in (".ci/run", "tools/dev/debian.sh"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, tree / name)
        write_program(tree / "tools/test", 'echo "CI is $CI"; echo "%s"; exit %d\n' % (test_line, test_status))
        write_program(tree / "tools/dev/fuzz.sh", 'echo "%s"; exit %d\n' % (fuzz_line, fuzz_status))
        write_program(self.root / "bin/clang++", "exit 0\n")
        return run("bash", ".ci/run", cwd=tree, env={"PATH": "%s:%s" % (self.root / "bin", os.environ["PATH"]), "CI": ""})

    def test_syntax_and_help(self):
        for script in SCRIPTS:
            self.assertEqual(run("bash", "-n", script).returncode, 0, script)
        for script in ("tools/quickstart", "tools/test"):
            result = run(script, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn(script, result.stdout)
            self.assertNotIn("set -euo", result.stdout)

    def test_wrong_usage_is_status_2(self):
        for args in (["--nonesuch"], ["--isa", "sse9"], ["--isa"], ["--only", "../x"]):
            result = run("tools/test", *args)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn("tools/test --help", result.stderr)

    def test_only_missing_packages_are_installed(self):
        result, log = self.need_packages("aa cc")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("missing: bb", result.stderr)
        self.assertTrue(log.splitlines()[-1].endswith(" bb"), log)

    def test_nothing_is_installed_when_all_is_there(self):
        result, log = self.need_packages("aa bb cc")
        self.assertEqual((result.returncode, result.stderr, log), (0, "", ""))

    def test_failing_apt_is_a_failure_with_a_message(self):
        result, _ = self.need_packages("aa", apt_status=100)
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get update failed", result.stderr)

    def test_ci_adds_up(self):
        result = self.copy_with_stubs("20 passed, 0 failed, 2 skipped", 0)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "41 passed, 0 failed, 4 skipped")
        self.assertIn("CI is true", result.stdout)

    def test_ci_fails_with_its_steps(self):
        for case in (("19 passed, 1 failed, 0 skipped", 1), ("the compiler died", 1), ("20 passed, 0 failed, 0 skipped", 3)):
            result = self.copy_with_stubs(*case)
            self.assertNotEqual(result.returncode, 0, case)
            self.assertRegex(result.stdout.splitlines()[-1], r"^\d+ passed, [1-9]\d* failed, \d+ skipped$", case)
        result = self.copy_with_stubs("20 passed, 0 failed, 0 skipped", 0, "0 passed, 1 failed, 0 skipped", 1)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines()[-1], "40 passed, 1 failed, 0 skipped")

    def test_catalog_is_whole_and_agrees_with_the_reference_data(self):
        models = json.loads((SOURCE / "models/catalog.json").read_text())["models"]
        self.assertEqual([m["name"] for m in models if m["role"] == "default"], ["smollm2-135m"])
        names = [name for m in models for name in (m["name"], *m["aliases"])]
        self.assertEqual(len(names), len(set(names)))
        sums = {m["file"]: m["sha256"] for m in models}
        for m in models:
            self.assertLessEqual({"bytes", "arch", "quantization", "licence", "parts", "role"}, set(m))
            for part in m["parts"]:
                self.assertEqual(set(part), {"package", "version", "member", "wheel_sha256"})
                self.assertRegex(part["wheel_sha256"], "^[0-9a-f]{64}$")
        seen = set()
        for path in sorted((Path(os.environ["QUERN_GOLDEN"]) / "real").glob("*.json")):
            case = json.loads(path.read_text())
            if "sha256" in case:
                self.assertEqual(sums[Path(case["model"]).name], case["sha256"], path.name)
                seen.add(case["sha256"])
        self.assertEqual(seen, set(sums.values()))


if __name__ == "__main__":
    unittest.main()
