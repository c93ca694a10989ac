"""quern chat: templates, commands, pipes, thinking, and what happens when the context is full."""
import re
import subprocess
import unittest

from chat_case import BACKSPACE, PROMPT, QUERN, SMOL, TINY, Chat, needs_smol


class Templates(Chat):
    def test_the_template_in_use_and_where_it_came_from_are_shown(self):
        terminal = self.start()
        self.assertIn(b"template: built-in chatml", terminal.output)
        path = self.home / "own.jinja"
        path.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>")
        terminal = self.start("--template", path)
        self.assertIn(b"template: file " + str(path).encode(), terminal.output)
        got = self.pipe("hello", "--template", path, "--dump-prompt")
        self.assertEqual(got.stdout.decode(), "<user>hello<assistant>")

    @needs_smol
    def test_the_files_own_template_is_used_and_can_be_replaced(self):
        self.assertIn(b"template: the model file's own", self.start(model=SMOL).output)
        own, other = (self.pipe("hello", "--dump-prompt", *args, model=SMOL).stdout.decode() for args in ((), ("--template", "gemma")))
        self.assertTrue(own.endswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"), own)
        self.assertEqual(other, "<|im_start|><start_of_turn>user\nhello<end_of_turn>\n<start_of_turn>model\n")  # the file's BOS

    def test_a_model_without_a_template_is_refused_and_the_choices_named(self):
        for args in ((), ("--template", "nonsense")):
            got = subprocess.run([QUERN, "chat", str(TINY), *args], input=b"hello\n", capture_output=True, timeout=60, check=False, env=self.env)
            self.assertEqual((got.returncode, got.stdout), (2, b""))
            for name in ("chatml", "llama3", "gemma", "mistral", "phi3", "zephyr", "plain"):
                self.assertIn(name, got.stderr.decode())

    def test_a_system_prompt_that_the_template_refuses_is_folded_and_said_so(self):
        path = self.home / "strict.jinja"
        path.write_text("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>")
        terminal = self.start("--template", path, "--system", "Be brief.")
        terminal.send("hello\r")
        terminal.expect(r"the system prompt went into the first user turn")
        got = self.pipe("hello", "--template", path, "--system", "Be brief.", "--dump-prompt")
        self.assertEqual(got.stdout.decode(), "<user>Be brief.\n\nhello<assistant>")


class Commands(Chat):
    def ask(self, terminal, line, pattern):
        terminal.send(line + "\r")
        match = terminal.expect(pattern)
        terminal.expect(PROMPT)
        return match

    def test_help_lists_every_command(self):
        terminal = self.start()
        terminal.send("/help\r")
        terminal.expect(PROMPT)
        for name in "help system regen undo edit clear save load kv stats set think context tokens file exit".split():
            self.assertRegex(terminal.output, rb"\n[^\n ]*  /%s " % name.encode())

    def test_an_unknown_command_is_named_and_not_sent(self):
        terminal = self.start()
        self.ask(terminal, "/nonsense please", r"there is no command '/nonsense'")
        for typed, meant in (("/stat", "/stats"), ("/hlep", "/help"), ("/contxt", "/context"), ("/reg", "/regen")):
            self.ask(terminal, typed, r"there is no command '%s' \(did you mean %s\?\)" % (typed, meant))
        self.assertEqual(self.messages(terminal), [])
        self.say(terminal, "//etc/fstab is a file")
        self.assertEqual(self.users(terminal), ["/etc/fstab is a file"])

    def test_system(self):
        terminal = self.start()
        self.ask(terminal, "/system", "There is no system prompt")
        self.ask(terminal, "/system Be brief.", "the system prompt is set")
        self.ask(terminal, "/system", r"\nBe brief\.")
        self.say(terminal, "hello")
        self.assertEqual(self.messages(terminal)[0], ("system", "Be brief."))
        self.ask(terminal, "/system -", "the system prompt is gone")
        self.assertEqual(self.messages(terminal)[0], ("user", "hello"))

    def test_regen_undo_edit_and_clear(self):
        terminal = self.start("--temp", "2", "--seed", "5")
        self.ask(terminal, "/regen", "there is no answer yet")
        self.ask(terminal, "/undo", "nothing to take back")
        self.say(terminal, "one")
        first = self.messages(terminal)
        line = self.say(terminal, "/regen")
        self.assertRegex(line, r"prefill 1 token,")
        second = self.messages(terminal)
        self.assertEqual((second[0], len(second)), (first[0], 2))
        self.assertNotEqual(second[1], first[1])
        self.say(terminal, "two")
        self.ask(terminal, "/undo", "left: 1 turn")
        self.assertEqual(self.messages(terminal), second)
        terminal.send("/edit\r")
        terminal.expect("back on the line")
        terminal.expect("> one")
        terminal.send(BACKSPACE * 2)
        self.say(terminal, "ne more")
        self.assertEqual(self.users(terminal), ["one more"])
        self.ask(terminal, "/clear", "a new conversation")
        self.assertEqual(self.messages(terminal), [])

    def test_save_and_load(self):
        terminal = self.start("--system", "Be brief.")
        self.say(terminal, "hello")
        before = self.messages(terminal)
        self.ask(terminal, "/save %s/x.md" % self.home, "2 messages saved")
        self.assertRegex((self.home / "x.md").read_text(), r"(?s)^# Conversation with .*\n## System\n\nBe brief\.\n\n## User\n\nhello\n\n## Assistant\n\n")
        self.ask(terminal, "/save %s/x.doc" % self.home, r"has to end with \.json")
        self.ask(terminal, "/save", "needs a file name")
        self.ask(terminal, "/save /no/such/folder/x.json", "cannot be written")
        other = self.start()
        self.ask(other, "/load %s/saved.json" % self.home, "2 messages loaded")
        self.assertEqual(self.messages(other), before)
        line = self.say(other, "go on")
        self.assertRegex(line, r"re-used 0;")
        for text, message in (("x", "not JSON"), ("{}", "no list of messages"), ('{"messages":[{"role":"user","content":"a"}]}', "has no answer"), ('{"messages":[{"role":"assistant","content":"a"}]}', "'user' was expected")):
            (self.home / "bad.json").write_text(text)
            self.ask(other, "/load %s/bad.json" % self.home, message)
        self.ask(other, "/load /no/such.json", "cannot be read")

    def test_kv_stats_and_context_show_what_there_is(self):
        terminal = self.start()
        self.say(terminal, "hello")
        self.ask(terminal, "/kv", r"KV cache.*per token.*used.*committed.*prefill.*decode")
        self.ask(terminal, "/stats", r"1 answer;.*template: built-in chatml.*seed of the next answer: \d+")
        self.ask(terminal, "/context", r"\d+ of 2,048 tokens.*1 turn;")

    def test_set_changes_what_it_says(self):
        terminal = self.start()
        self.ask(terminal, "/set", r"temp .*top-k .*top-p .*min-p .*repeat-penalty .*seed .*max ")
        self.ask(terminal, "/set max 3", "max is 3 now")
        self.assertIn("decode 3 tokens", self.say(terminal, "hello"))
        for line, message in (("/set temp x", "not allowed"), ("/set temp", "not allowed"), ("/set top-p 1.5", "from 0 to 1"), ("/set top-k 1.5", "whole number"), ("/set nonsense 1", "there is no setting 'nonsense'"), ("/set temp 1 2", "'2' follows '1'")):
            self.ask(terminal, line, message)
        for line, message in (("/set top_p 0.5", "top-p is 0.5 now"), ("/set temperature=0.25", "temp is 0.25 now"), ("/set parameter num_predict 3", "max is 3 now")):
            self.ask(terminal, line, message)
        self.ask(terminal, "/set temp 2", "temp is 2 now")
        answers = []
        for _ in range(2):
            self.ask(terminal, "/clear", "new conversation")
            self.ask(terminal, "/set seed 7", "seed is 7 now")
            self.say(terminal, "hello")
            answers.append(self.messages(terminal))
        self.assertEqual(*answers)

    def test_think_needs_a_template_with_a_switch(self):
        terminal = self.start()
        self.ask(terminal, "/think on", "no switch for thinking")
        self.ask(terminal, "/think hide", "thinking is hidden")
        self.ask(terminal, "/think maybe", "on|off")
        path = self.home / "t.jinja"
        path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}[no]{% endif %}:")
        terminal = self.start("--template", path)
        self.say(terminal, "x")
        without = int(self.ask(terminal, "/context", r"(\d+) of 2,048").group(1))
        self.ask(terminal, "/clear", "new")
        self.ask(terminal, "/think off", "thinking is off")
        self.say(terminal, "x")
        self.assertEqual(int(self.ask(terminal, "/context", r"(\d+) of 2,048").group(1)), without + len("[no]"))

    def test_tokens_of_a_text_and_of_the_conversation(self):
        terminal = self.start()
        self.ask(terminal, "/tokens zz", r"\d tokens.*'z'")
        self.say(terminal, "hello")
        self.ask(terminal, "/tokens", r"\d+ tokens")

    def test_a_file_goes_in_front_of_the_next_message(self):
        (self.home / "code.py").write_text("print(1)\nprint(2)\n")
        (self.home / "bytes").write_bytes(b"\xff\x00")
        terminal = self.start()
        self.ask(terminal, "/file ~/code.py", "2 lines, \\d+ tokens")
        self.say(terminal, "What does it print?")
        self.assertEqual(self.users(terminal), ["code.py:\n```\nprint(1)\nprint(2)\n```\n\nWhat does it print?"])
        self.ask(terminal, "/file ~/bytes", "is not UTF-8 text")
        self.ask(terminal, "/file ~/nothing", "cannot be read")
        self.ask(terminal, "/file /dev/zero", "is no regular file")
        self.ask(terminal, "/file -now", "cannot be read")
        self.ask(terminal, "/undo 3", "/undo stands alone, but '3' follows it")
        self.ask(terminal, "/clear all", "stands alone")
        self.ask(terminal, "/file ~/code.py", "2 lines, \\d+ tokens")
        self.ask(terminal, "/file -", "no file goes in front")
        self.ask(terminal, "/file -", "no file stands in front")
        self.say(terminal, "hello")
        self.assertEqual(self.users(terminal)[-1], "hello")

    def test_edit_leaves_the_file_in_front_as_it_was(self):
        (self.home / "code.py").write_text("print(1)\n" * 20)
        terminal = self.start()
        self.ask(terminal, "/file ~/code.py", "20 lines")
        self.say(terminal, "What does it print?")
        before = self.users(terminal)
        terminal.send("/edit\r")
        terminal.expect("the file in front of it as it was")
        terminal.expect(r"> What does it print\?")
        terminal.send(BACKSPACE * len("print?"))
        self.say(terminal, "do?")
        self.assertEqual(self.users(terminal), [before[0].replace("it print?", "it do?")])

    def test_a_file_that_is_too_long_is_not_in_front_of_every_further_message(self):
        (self.home / "long").write_text("many words\n" * 1000)
        (self.home / "most").write_text("xyz\n" * 48)
        terminal = self.start("-c", "200", "-n", "4")
        self.say(terminal, "hello")
        self.ask(terminal, "/file ~/long", r"has [\d,]+ tokens, and the context holds 200; it was not taken")
        self.ask(terminal, "/file ~/most", r"goes in front")
        terminal.send("and with many more words than there are places left for " * 4 + "\r")
        terminal.expect("text of /file is put away")
        terminal.expect("this message is too long")
        self.assertNotIn(b"left it", terminal.output)  # nothing was dropped for a message that does not fit anyway
        terminal.expect(PROMPT)
        self.say(terminal, "more")
        self.assertEqual(self.users(terminal), ["hello", "more"])

    def test_exit(self):
        for name in ("/exit", "/quit", "/bye"):
            terminal = self.start()
            terminal.send(name + "\r")
            self.assertEqual(terminal.wait(), 0)


class Pipes(Chat):
    def test_one_message_a_line_and_plain_output(self):
        got = self.pipe("hello\r\n\nmore\n/context\nlast")
        self.assertEqual(got.returncode, 0)
        self.assertEqual(got.stderr.count(b"[prefill"), 3)
        self.assertNotIn(b"\x1b", got.stdout + got.stderr)
        self.assertIn(b"2 turns", got.stdout)
        self.assertFalse((self.home / ".local").exists())

    def test_once_takes_everything_as_one_message(self):
        got = self.pipe("one\n/two\nthree\n", "--once")
        self.assertEqual((got.returncode, got.stderr.count(b"[prefill")), (0, 1))

    def test_nothing_in_is_nothing_out(self):
        for args in ((), ("--once",)):
            got = self.pipe("", *args)
            self.assertEqual((got.returncode, got.stdout), (0, b""))

    def test_an_error_is_the_exit_status_and_the_rest_is_still_done(self):
        got = self.pipe("/nonsense\nhello\n")
        self.assertEqual((got.returncode, got.stderr.count(b"[prefill")), (2, 1))


class FullContext(Chat):
    LINES = "".join("Question number %d, with some words.\n" % n for n in range(8))

    def test_trim_drops_the_oldest_turns_with_a_notice(self):
        got = self.pipe(self.LINES + "/context\n", "-c", "300", "-n", "20")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stderr.count(b"[prefill"), 8)
        self.assertIn(b"the context is full: the 2 oldest turns left it", got.stderr)
        self.assertRegex(got.stdout, rb"8 turns, of which the oldest \d have left the context")

    def test_stop_refuses_the_message_and_says_what_helps(self):
        got = self.pipe(self.LINES, "-c", "300", "-n", "20", "--on-full", "stop")
        self.assertEqual(got.returncode, 2)
        self.assertLess(got.stderr.count(b"[prefill"), 8)
        self.assertRegex(got.stderr.decode(), r"the context is full: .* the context holds 300; .*--on-full trim")

    def test_window_goes_on_without_end(self):
        got = self.pipe(self.LINES + "/context\n", "-c", "300", "-n", "20", "--on-full", "window")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stderr.count(b"[prefill"), 8)
        self.assertNotIn(b"left it", got.stderr)
        self.assertRegex(got.stdout, rb"\d+ so far, of which 300 are seen")
        self.assertRegex(got.stdout, rb"8 turns;")
        # As long as everything fits it is the same as with no policy at all.
        few = "".join(self.LINES.splitlines(True)[:2])
        self.assertEqual(self.pipe(few, "-c", "300", "-n", "20", "--on-full", "window").stdout, self.pipe(few, "-c", "300", "-n", "20").stdout)

    def test_an_answer_that_fills_the_context_is_cut_or_goes_on(self):
        got = self.pipe("hello\n", "-c", "100", "-n", "-1", "--on-full", "stop")
        self.assertIn(b"the context of 100 tokens is full: the answer is cut", got.stderr)

    def test_a_message_that_cannot_fit_is_refused_with_both_numbers(self):
        got = self.pipe("x" * 400 + "\nhello\n", "-c", "300")
        self.assertEqual(got.returncode, 2)
        self.assertRegex(got.stderr.decode(), r"this message is too long: with it the prompt has \d+ tokens, but the context holds 300")
        self.assertEqual(got.stderr.count(b"[prefill"), 1)


class Thinking(Chat):
    def test_thinking_is_dim_or_hidden(self):
        path = self.home / "think.jinja"
        path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n")
        terminal = self.start("--template", path)
        self.say(terminal, "hello")
        self.assertRegex(terminal.output, rb"\x1b\[2m[^\x1b]+\x1b\[0m\r\n\x1b\[2m\[prefill")
        terminal = self.start("--template", path, "--hide-thinking", "-n", "20")
        line = self.say(terminal, "hello")
        self.assertIn("decode 20 tokens", line)
        shown = terminal.output[terminal.output.index(b"hello"):terminal.output.index(b"[cut after")].decode()
        self.assertEqual(re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]|[-|/\\] thinking", "", shown).strip(), "hello")


if __name__ == "__main__":
    unittest.main()
