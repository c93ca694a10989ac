"""quern chat at the terminal: typing, pasting, how it looks, and every way of stopping."""
import re
import signal
import termios
import time
import unittest

from chat_case import BACKSPACE, CTRL_C, CTRL_D, LEFT, LONG_TEXT, PASTE, PROMPT, SMOL, UP, Chat, needs_smol


class Typing(Chat):
    def history(self):
        return self.home / ".local/state/quern/history"

    def test_the_history_is_kept_in_a_file_of_its_owners_alone(self):
        terminal = self.start()
        self.say(terminal, "first message")
        self.say(terminal, '"""two\rlines"""')
        terminal.send(CTRL_D)
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(self.history().stat().st_mode & 0o777, 0o600)
        terminal = self.start()
        terminal.send(UP)
        terminal.expect("two")
        terminal.send(UP)
        terminal.expect("first message")
        self.say(terminal, " again")
        self.assertEqual(self.users(terminal), ["first message again"])
        terminal.send(UP * 3)  # the /save, "first message again", the two lines
        terminal.settle()
        self.say(terminal, "")
        self.assertEqual(self.users(terminal)[-1], "two\nlines")

    def test_several_lines_in_quotes_or_with_backslashes_are_one_message(self):
        terminal = self.start()
        self.say(terminal, '"""one\rtwo\r\rthree"""')
        self.say(terminal, '"""\rfour\r"""')
        self.say(terminal, "five\\\rsix\\\rseven")
        self.assertEqual(self.users(terminal), ["one\ntwo\n\nthree", "four", "five\nsix\nseven"])

    def test_a_paste_of_several_lines_is_one_message(self):
        terminal = self.start()
        terminal.send("look: " + PASTE % "a\r\nb\rc\nd")
        terminal.settle()
        self.say(terminal, "")
        long = "\n".join("line %d of a file \u6771\u4eac" % n for n in range(60))
        terminal.send(PASTE % long)
        terminal.expect("60 lines")
        self.say(terminal, " what is this?")
        self.assertEqual(self.users(terminal), ["look: a\nb\nc\nd", long + " what is this?"])

    def test_the_question_beside_a_long_paste_can_be_corrected(self):
        long = "\n".join("line %d of a file" % n for n in range(60))
        terminal = self.start()
        for question in ("before: %s", "%s behind"):
            terminal.send(question.split("%s")[0] + PASTE % long)
            terminal.expect("60 lines")
            self.say(terminal, question.split("%s")[1])
            terminal.send("/edit\r")
            terminal.expect("back on the line")
            terminal.settle()
            shown = terminal.screen.text().splitlines()[-1]
            self.assertRegex(shown, "^> " + re.escape(question).replace("%s", r"\[text 1: 60 lines, \d+ bytes\]") + "$")
            self.say(terminal, "X")
            self.assertEqual(self.users(terminal), [question % long + "X"])
            terminal.send("/clear\r")
            terminal.expect(PROMPT)
        terminal.send(PASTE % long + " what?\r")
        terminal.expect(r"\[prefill")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        terminal.wait()
        # The next start knows no pastes: what stands in front of the last line is one mark.
        terminal = self.start()
        terminal.send(UP)
        terminal.settle()
        mark, last = terminal.screen.text().splitlines()[-2:]
        self.assertRegex(mark, r"^> \[text \d: 59 lines, \d+ bytes\]$")
        self.assertEqual(last, "line 59 of a file what?")
        self.say(terminal, "X")
        self.assertEqual(self.users(terminal), [long + " what?X"])

    @needs_smol
    def test_a_paste_during_an_answer_is_one_message_too(self):
        terminal = self.start("-n", "12", "--temp", "0", model=SMOL)
        terminal.send("hello\r")
        terminal.send(PASTE % "a\rb\rc")
        terminal.expect(r"\[prefill [^\]]*\]")
        terminal.expect(r"> a\r\n")
        terminal.settle()
        self.say(terminal, "")
        self.assertEqual(self.users(terminal), ["hello", "a\nb\nc"])

    @needs_smol
    def test_a_paste_with_line_breaks_of_two_bytes_during_an_answer(self):
        terminal = self.start("-n", "40", "--temp", "0", model=SMOL)
        terminal.send("hello\r")
        terminal.expect(r"hello\r\n\s*\S")  # the answer has begun: no line is being edited
        terminal.send(PASTE % "a\r\nb\r\n\r\nc")
        terminal.expect(r"\[prefill [^\]]*\]")
        terminal.expect(r"> a\r\n")
        terminal.settle()
        self.say(terminal, "")
        self.assertEqual(self.users(terminal), ["hello", "a\nb\n\nc"])

    def test_tab_completes_commands_settings_and_files(self):
        (self.home / "notes.json").write_text("{}")
        terminal = self.start()
        terminal.send("/he\t\r")
        terminal.expect(r"/regen")
        terminal.expect(PROMPT)
        terminal.send("/set temp\t0.5\r")
        terminal.expect("temp is 0.5 now")
        terminal.expect(PROMPT)
        terminal.send("/s\t")
        terminal.expect(r"/system.*/save.*/set.*/stats")
        terminal.send("\x15/load ~/no\t")
        terminal.expect(r"tes\.json")
        terminal.send("\r")
        terminal.expect("it has no list of messages")

    def test_wide_and_accented_characters_are_shown_and_edited_whole(self):
        terminal = self.start(columns=40)
        terminal.send("a\u6771\u4eac\u00e9\U0001f642b")
        terminal.settle()
        self.assertEqual(terminal.screen.text().splitlines()[-1], "> a\u6771\u4eac\u00e9\U0001f642b")
        self.assertEqual(terminal.screen.column, 2 + 1 + 2 + 2 + 1 + 2 + 1)
        terminal.send(LEFT + BACKSPACE)  # the smiling face
        terminal.settle()
        self.assertEqual(terminal.screen.text().splitlines()[-1], "> a\u6771\u4eac\u00e9b")
        terminal.send(LEFT + BACKSPACE + "X")  # the second of the Chinese characters
        terminal.settle()
        self.assertEqual(terminal.screen.text().splitlines()[-1], "> a\u6771X\u00e9b")
        self.assertEqual(terminal.screen.column, 2 + 1 + 2 + 1)
        self.say(terminal, "")
        self.assertEqual(self.users(terminal), ["a\u6771X\u00e9b"])

    def test_a_line_survives_a_change_of_the_windows_size(self):
        terminal = self.start(columns=40)
        text = "".join(chr(ord("a") + n % 26) for n in range(60))
        terminal.send(text)
        terminal.settle()
        self.assertEqual(terminal.screen.text().splitlines()[-2:], ["> " + text[:38], text[38:]])
        terminal.resize(30, 100)
        terminal.settle()
        self.assertIn("> " + text, terminal.screen.text())
        terminal.send("END")
        terminal.settle()
        self.assertIn(text + "END", terminal.screen.text())
        self.say(terminal, "")
        self.assertEqual(self.users(terminal), [text + "END"])

    def test_what_is_typed_during_an_answer_waits_for_the_next_line(self):
        terminal = self.start("-n", "400")
        terminal.send("first\r")
        terminal.expect(r"first\r\n")
        self.assertFalse(termios.tcgetattr(terminal.fd)[3] & (termios.ECHO | termios.ICANON))
        terminal.send("second")
        terminal.expect(r"\[prefill [^\]]*\]")
        terminal.expect(PROMPT)
        self.say(terminal, "")
        self.assertEqual(self.users(terminal), ["first", "second"])


class Looks(Chat):
    @needs_smol
    def test_an_answer_is_broken_between_words_on_a_terminal_alone(self):
        args = ("--temp", "0", "-n", "100", "--quiet")
        question = "Tell me about the history of Rome in a long paragraph."
        plain = self.pipe(question + "\n", *args, model=SMOL).stdout.decode()
        self.assertNotIn("\x1b", plain)
        for columns in (100, 40, 23):
            terminal = self.start(*args, model=SMOL, rows=60, columns=columns)
            terminal.send("/system\r" + question + "\r")
            terminal.expect(r"paragraph\.\r\n")
            terminal.expect(PROMPT)
            terminal.settle()
            shown = terminal.screen.text()
            shown = shown[shown.index("paragraph.") + len("paragraph.\n"):].rsplit("\n>", 1)[0]
            self.assertGreater(len(shown.splitlines()), len(plain.splitlines()) + 2)
            self.assertEqual(shown.split(), plain.split())
            lines = shown.splitlines()
            for line, following in zip(lines, lines[1:]):  # full, unless a paragraph ends there
                if line not in plain.splitlines() and not any(text.endswith(line) for text in plain.splitlines()):
                    self.assertGreater(len(line) + 1 + len(following.split(" ")[0]), columns, (line, following))
        dumb = self.start(*args, model=SMOL, rows=60, columns=40, env={"TERM": "dumb"})
        dumb.send(question + "\r")
        dumb.expect(PROMPT)
        self.assertNotIn(b"G\x1b[K", dumb.output)

    def test_colours_and_no_color(self):
        terminal = self.start()
        self.say(terminal, "hello")
        self.assertIn(b"\x1b[2m[prefill", terminal.output)
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            terminal = self.start(env=env)
            self.say(terminal, "hello")
            self.assertIsNone(re.search(rb"\x1b\[[0-9;]*m", terminal.output))

    def test_one_line_after_each_answer_which_quiet_hides(self):
        terminal = self.start()
        line = self.say(terminal, "hello")
        self.assertRegex(line, r"^\[prefill \d+ tokens, \d+/s; re-used 0; decode 6 tokens, \d+/s; context \d+ of 2,048\]$")
        again = self.say(terminal, "more")
        self.assertNotIn("re-used 0;", again)
        terminal = self.start("--quiet")
        terminal.send("hello\r")
        terminal.expect(PROMPT)
        self.assertNotIn(b"[prefill", terminal.output)
        self.assertNotIn(b"template", terminal.output)

    def test_no_broken_characters_reach_the_screen(self):
        # Random weights at a high temperature write bytes that are no text.
        seen = b""
        for seed in range(4):
            got = self.pipe("hello\nmore\n", "--temp", "3", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", seed, "-n", "200")
            self.assertEqual(got.returncode, 0)
            got.stdout.decode()
            seen += got.stdout
        self.assertIn("\ufffd".encode(), seen)
        terminal = self.start("--temp", "3", "--seed", "1", "-n", "200")
        self.say(terminal, "hello")
        terminal.output.decode()

    @needs_smol
    def test_progress_is_shown_while_a_long_prompt_is_read(self):
        terminal = self.start("-n", "4", "--temp", "0", model=SMOL)
        terminal.send(PASTE % LONG_TEXT[:6000])
        terminal.settle()
        terminal.send("\r")
        terminal.expect(r"reading the prompt: [\d,]+ of [\d,]+ tokens")
        terminal.expect(r"\r\x1b\[K")
        terminal.expect(r"\[prefill [\d,]+ tokens")


class Stopping(Chat):
    def test_ctrl_c_twice_at_the_empty_prompt_ends_with_130(self):
        terminal = self.start()
        terminal.send("half a line")
        terminal.settle()
        terminal.send(CTRL_C)
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        terminal.expect("once more")
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        self.assertEqual(terminal.wait(), 130)

    def test_ctrl_c_once_and_a_message_do_not_end(self):
        terminal = self.start()
        for _ in range(3):
            terminal.send(CTRL_C)
            terminal.expect("once more")
            terminal.expect(PROMPT)
            self.say(terminal, "hello")
        terminal.send(CTRL_D)
        self.assertEqual(terminal.wait(), 0)

    def test_ctrl_d_ends_with_0_and_sends_nothing(self):
        terminal = self.start()
        terminal.send(CTRL_D)
        self.assertEqual(terminal.wait(), 0)
        self.assertNotIn(b"[prefill", terminal.output)
        terminal = self.start()
        terminal.send('"""half a message\r' + CTRL_D)
        self.assertEqual(terminal.wait(), 0)
        self.assertNotIn(b"[prefill", terminal.output)

    def test_the_terminal_is_left_as_it_was(self):
        for end in (CTRL_D, "/exit\r", CTRL_C + CTRL_C, None):
            terminal = self.start()
            self.assertFalse(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
            if end:
                for character in end:
                    terminal.send(character)
                    terminal.settle()
            else:
                terminal.signal(15)
            terminal.wait()
            self.assertTrue(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
            self.assertGreater(terminal.output.rindex(b"\x1b[?2004l"), terminal.output.rindex(b"\x1b[?2004h"))

    def test_a_closed_window_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            terminal = self.start()
            terminal.signal(number)
            self.assertEqual(terminal.wait(), 128 + number)

    @needs_smol
    def test_ctrl_c_while_reading_comes_back_at_once_and_keeps_the_cache(self):
        terminal = self.start("-n", "4", "--temp", "0", "--batch", "2048", model=SMOL)
        self.say(terminal, "Hello.")
        before = self.messages(terminal)
        terminal.send(PASTE % LONG_TEXT)
        terminal.settle()
        terminal.send("\r")
        terminal.expect(r"reading the prompt")
        time.sleep(0.3)
        start = time.monotonic()
        terminal.send(CTRL_C)
        terminal.expect(r"interrupted before the answer began")
        terminal.expect(PROMPT)
        print("Ctrl-C while reading: back at the prompt after %.0f ms" % (1000 * (time.monotonic() - start)))
        self.assertLess(time.monotonic() - start, 2.0)  # 0.2 s on an idle machine
        self.assertEqual(self.messages(terminal), before)
        line = self.say(terminal, "Hello again.")
        self.assertNotIn("re-used 0;", line)
        cold = self.start("-n", "4", "--temp", "0", model=SMOL)
        self.say(cold, "Hello.")
        self.say(cold, "Hello again.")
        self.assertEqual(self.messages(terminal), self.messages(cold))

    @needs_smol
    def test_ctrl_c_while_answering_keeps_what_is_there(self):
        terminal = self.start("--temp", "0", "--ignore-eos", model=SMOL)
        terminal.send("Tell me a long story.\r")
        terminal.expect(r"story\.\r\n[^\x1b]*\w+ \w+ \w+")
        start = time.monotonic()
        terminal.send(CTRL_C)
        terminal.expect(r"\[interrupted; what is there stays")
        terminal.expect(PROMPT)
        print("Ctrl-C while answering: back at the prompt after %.0f ms" % (1000 * (time.monotonic() - start)))
        self.assertLess(time.monotonic() - start, 2.0)
        history = self.messages(terminal)
        self.assertEqual(len(history), 2)
        self.assertGreater(len(history[1][1]), 5)
        terminal.send("/set max 4\r")
        terminal.expect(PROMPT)
        self.assertRegex(self.say(terminal, "Go on."), r"re-used [1-9]")


if __name__ == "__main__":
    unittest.main()
