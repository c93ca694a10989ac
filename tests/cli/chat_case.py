"""What the tests of quern chat share: a conversation in a pseudo-terminal or over a pipe; what went to the model is read with /save."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from terminal import Terminal

QUERN = os.environ["QUERN"]
SMOL = Path(os.environ["QUERN_MODELS"]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
GOLDEN = Path(os.environ["QUERN_GOLDEN"])
TINY = GOLDEN / "tiny/llama-q4_1.gguf"  # random weights, no template of its own
TINY_ARGS = {"--template": "chatml", "-n": "6", "--temp": "0", "-c": "2048", "-t": "1"}
PROMPT = r"(\n|\x1b\[\?2004h)(\x1b\[[?0-9;]*[a-zA-Z])*> "
PASTE = "\x1b[200~%s\x1b[201~"
CTRL_C, CTRL_D, UP, LEFT, BACKSPACE = "\x03", "\x04", "\x1b[A", "\x1b[D", "\x7f"
LONG_TEXT = " ".join("On day %d the number was %d." % (n, n * 7919 % 10007) for n in range(500))  # some 6,000 tokens


def needs_smol(test):
    return unittest.skipUnless(SMOL.exists(), "skipped: %s is not in models/; tools/test --models fetches it" % SMOL.name)(test)


def command(model, args):
    args = [str(arg) for arg in args]
    if model == TINY:
        args += ["--ignore-eos"] + [part for name, value in TINY_ARGS.items() if name not in args for part in (name, value)]
    return [QUERN, "chat", str(model), *args]


class Chat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8"}
        self.env.update({name: value for name, value in os.environ.items() if name.startswith(("QUERN_ISA", "ASAN_", "UBSAN_"))})

    def start(self, *args, model=TINY, env=None, **size):
        terminal = Terminal(command(model, args), {**self.env, **(env or {})}, **size)
        self.addCleanup(terminal.close)
        terminal.expect(PROMPT)
        return terminal

    def pipe(self, text, *args, model=TINY, env=None):
        return subprocess.run(command(model, args), input=text.encode() if isinstance(text, str) else text, capture_output=True, timeout=300, check=False,
                              env={**self.env, **(env or {})})

    def messages(self, terminal):
        """The conversation, as saved; the terminal is at its prompt before and after."""
        path = self.home / "saved.json"
        path.unlink(missing_ok=True)
        terminal.send("/save %s\r" % path)
        terminal.expect("saved to")
        terminal.expect(PROMPT)
        return [(m["role"], m["content"]) for m in json.loads(path.read_text())["messages"]]

    def users(self, terminal):
        return [content for role, content in self.messages(terminal) if role == "user"]

    def say(self, terminal, text, end="\r"):
        terminal.send(text + end)
        match = terminal.expect(r"\[prefill [^\]]*\]")
        terminal.expect(PROMPT)
        return match.group(0).decode()
