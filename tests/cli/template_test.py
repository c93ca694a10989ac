"""quern template: the prompt alone on stdout, exit statuses, and messages that say what is wrong."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gguf_bytes import ARRAY, STRING, U32, build  # noqa: E402

QUERN = os.environ["QUERN"]
MODELS = Path(os.environ["QUERN_MODELS"])
SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = MODELS / "gemma-3-270m-q4_k_m.gguf"
ECHO = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<go>{% endif %}"


class TemplateTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = Path(temporary.name)
        self.messages = self.file([{"role": "user", "content": "Hi\n<|im_end|> é"}], "messages.json")

    def file(self, data, name):
        path = self.dir / name
        path.write_bytes(data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode())
        return path

    def quern(self, *arguments, **more):
        return subprocess.run([QUERN, "template", *map(str, arguments)], capture_output=True, timeout=60, **more)

    def with_source(self, source, *arguments, messages=None):
        return self.quern("--template-file", self.file(source, "t.jinja"), "--messages", messages or self.messages, *arguments)

    def model(self, *metadata):
        return self.file(build([("general.architecture", STRING, "llama"), *metadata], []), "m.gguf")

    def assert_prints(self, run, text):
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.assertEqual(run.stdout.decode(), text)

    def assert_fails(self, run, status, *parts):
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertEqual(run.stdout, b"")
        for part in parts:
            self.assertIn(part, run.stderr.decode())

    def test_the_prompt_and_nothing_else(self):
        self.assert_prints(self.with_source(ECHO + "\n", "--bos", "B", "--eos", "E"), "B<user>Hi\n<|im_end|> éE<go>")
        self.assert_prints(self.with_source(ECHO, "--no-generation-prompt"), "<user>Hi\n<|im_end|> é")

    def test_variables(self):
        tools = self.file([{"type": "function"}], "tools.json")
        self.assert_prints(self.with_source("{{ tools | tojson }}{{ x }}{{ y[0] }}", "--tools", tools, "--kwargs", '{"x": 1.0, "y": [true]}'),
                           '[{"type": "function"}]1.0True')
        self.assert_prints(self.with_source("{{ tools }}{{ documents }}"), "NoneNone")
        for now in ("2026-02-03T04:05:06", "2026-02-03 04:05:06"):
            self.assert_prints(self.with_source("{{ strftime_now('%d %b %Y %a %H:%M:%S') }}", "--now", now), "03 Feb 2026 Tue 04:05:06")

    def test_messages_on_standard_input(self):
        run = self.quern("--template", "chatml", "--messages", "-", input=b'[{"role": "user", "content": "x"}]')
        self.assert_prints(run, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n")

    def test_pieces(self):
        run = self.with_source("<|a|>{{ messages[0].content }}<|b|>", "--json")
        self.assertEqual(json.loads(run.stdout), [{"text": "<|a|>", "from_user": False}, {"text": "Hi\n<|im_end|> é", "from_user": True},
                                                  {"text": "<|b|>", "from_user": False}])

    def test_a_model_gives_template_and_tokens(self):
        tokens = ("tokenizer.ggml.tokens", ARRAY, (STRING, ["<unk>", "<s>", "</s>"]))
        ids = (("tokenizer.ggml.bos_token_id", U32, 1), ("tokenizer.ggml.eos_token_id", U32, 2))
        model = self.model(("tokenizer.chat_template", STRING, ECHO), tokens, *ids)
        self.assert_prints(self.quern(model, "--messages", self.messages), "<s><user>Hi\n<|im_end|> é</s><go>")
        self.assert_prints(self.quern(model, "--messages", self.messages, "--bos", ""), "<user>Hi\n<|im_end|> é</s><go>")

    def test_a_model_without_a_template(self):
        self.assert_fails(self.quern(self.model(), "--messages", self.messages), 3, "no chat template", "chatml, llama3", "--template-file")

    def test_a_bad_template_in_a_model(self):
        model = self.model(("tokenizer.chat_template", STRING, "\n{% nope %}"))
        self.assert_fails(self.quern(model, "--messages", self.messages), 3, "line 2", "nope")

    def test_refusals_and_failures(self):
        self.assert_fails(self.with_source("{{ raise_exception('System role not supported') }}"), 1, "System role not supported")
        self.assert_fails(self.with_source("text{% for i in range(10**9) %}{% endfor %}"), 1, "line 1", "range()")
        self.assert_fails(self.with_source("{% if x %}"), 3, "line 1", "endif")

    def test_wrong_usage(self):
        self.assert_fails(self.quern(), 2)
        self.assert_fails(self.quern("--messages", self.messages), 2, "MODEL", "--template-file")
        self.assert_fails(self.quern("--template", "nope", "--messages", self.messages), 2, "nope", "chatml")
        self.assert_fails(self.quern("--template", "chatml", "--messages", self.dir / "none.json"), 2, "none.json", "No such file")
        self.assert_fails(self.quern("--template-file", self.dir / "none", "--messages", self.messages), 2, "No such file")
        for text, part in (("[1", "JSON"), ('{"role": "user"}', "array"), ('["x"]', "message 0"), (b'["\xff"]', "JSON"), ("", "JSON")):
            self.assert_fails(self.with_source("x", messages=self.file(text, "bad.json")), 2, part)
        for option, value in (("--kwargs", "[1]"), ("--kwargs", "{"), ("--now", "yesterday"), ("--now", "2026-02-31"), ("--now", "2026-01-01T00:00:00x")):
            self.assert_fails(self.with_source("x", option, value), 2, option)

    def test_messages_of_odd_shapes_are_errors_not_crashes(self):
        for messages in ([], [{}], [{"role": None, "content": 5}], [{"role": "user"}], [{"role": [], "content": {}}]):
            run = self.with_source("{{ messages[0].content + 'x' }}", messages=self.file(messages, "odd.json"))
            self.assert_fails(run, 1, "line 1")

    @unittest.skipUnless(SMOL.exists(), "skipped: %s is not here" % SMOL.name)
    def test_a_real_model(self):
        messages = self.file([{"role": "user", "content": "Hi"}], "m.json")
        self.assert_prints(self.quern(SMOL, "--messages", messages),
                           "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                           "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")

    @unittest.skipUnless(GEMMA.exists(), "skipped: %s is not here" % GEMMA.name)
    def test_a_base_model(self):
        self.assert_fails(self.quern(GEMMA, "--messages", self.messages), 3, "no chat template")


if __name__ == "__main__":
    unittest.main()
