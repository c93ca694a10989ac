"""The manual page and the README know every command, and the manual page every option that --help shows."""
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

SOURCE = Path(os.environ["QUERN_SOURCE"])
MANUAL = (SOURCE / "tools/quern.1").read_text().replace("\\-", "-")
README = (SOURCE / "README.md").read_text()


def help_of(*command):
    result = subprocess.run([os.environ["QUERN"], *command, "--help"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def commands():
    after = help_of().partition("Subcommands:")[2]
    return re.findall(r"^  (\S+)", after, flags=re.MULTILINE)


class Manual(unittest.TestCase):
    def test_every_command_has_its_section_and_its_row(self):
        for command in commands():
            self.assertIn("\n.SS quern %s\n" % command, MANUAL)
            self.assertIn("`quern %s" % command, README)

    def test_every_option_is_described(self):
        for command in commands():
            section = re.search(r"\n\.SS quern %s\n(.*?)(?=\n\.S[SH] )" % command, MANUAL, flags=re.DOTALL).group(1)
            options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_of(command))) - {"--help"}
            missing = sorted(option for option in options if not re.search(re.escape(option) + r"(?![\w-])", section))
            self.assertEqual(missing, [], "quern %s: tools/quern.1 does not describe these" % command)

    @unittest.skipUnless(shutil.which("groff"), "groff is not here")
    def test_the_page_is_clean_roff(self):
        result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", str(SOURCE / "tools/quern.1")], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
