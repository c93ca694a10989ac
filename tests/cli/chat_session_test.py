"""quern chat --session: a conversation goes on where it ended, however it ended, and what does not fit is refused by name."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from chat_case import CTRL_C, CTRL_D, GOLDEN, LONG_TEXT, PASTE, PROMPT, QUERN, SMOL, TINY, Chat, needs_smol


class Session(Chat):
    def setUp(self):
        super().setUp()
        self.file = self.home / "talk.quern"

    def figures(self, line):
        numbers = {name: int(n.replace(",", "")) for name, n in re.findall(r"(prefill|re-used|context) ([\d,]+)", line)}
        return numbers["prefill"], numbers["re-used"], numbers["context"]

    def test_it_goes_on_where_it_ended_and_reads_nothing_again(self):
        terminal = self.start("--session", self.file, "--system", "Be brief.")
        self.assertIn(b"a new session", terminal.output)
        self.say(terminal, "one")
        _, _, context = self.figures(self.say(terminal, "two"))
        before = self.messages(terminal)
        terminal.send(CTRL_D)
        self.assertEqual(terminal.wait(), 0)
        self.assertRegex(terminal.output, rb"session: 2 turns, %d tokens saved to" % context)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        terminal = self.start("--session", self.file)
        self.assertRegex(terminal.output, rb"session '.*': 2 turns, %d tokens restored in .*\n.*the last message was: two" % context)
        self.assertEqual(self.messages(terminal), before)
        _, reused, _ = self.figures(self.say(terminal, "three"))
        self.assertEqual(reused, context)
        uninterrupted = self.start("--system", "Be brief.")
        for text in ("one", "two", "three"):
            self.say(uninterrupted, text)
        self.assertEqual(self.messages(terminal), self.messages(uninterrupted))

    def test_answers_that_are_no_text_come_back_byte_by_byte(self):
        wild = ("--temp", "3", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "3", "-n", "80", "--session", self.file)
        self.assertIn("\ufffd", self.pipe("hello\n", *wild).stdout.decode())
        continued = self.pipe("more\n", *wild).stderr.decode()
        whole = self.pipe("hello\nmore\n", *wild[:-2]).stderr.decode()
        self.assertEqual(self.figures(continued.splitlines()[-2])[:2], self.figures(whole.splitlines()[-1])[:2])

    def test_it_is_saved_however_it_ends(self):
        for turns, end in enumerate((CTRL_D, "/exit\r", CTRL_C, signal.SIGTERM, signal.SIGHUP, "closed"), start=1):
            terminal = self.start("--session", self.file)
            self.say(terminal, "message %d" % turns)
            if end == "closed":
                os.close(terminal.fd)  # the window is gone: SIGHUP, and nothing can be written any more
                terminal.fd = os.open("/dev/null", os.O_RDWR)
            elif isinstance(end, signal.Signals):
                terminal.signal(end)
            else:
                terminal.send(end)
                if end == CTRL_C:
                    terminal.expect("once more")
                    terminal.expect(PROMPT)
                    terminal.send(end)
            status = terminal.wait() if end != "closed" else os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1])
            terminal.status = status
            self.assertEqual(status, {CTRL_C: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, "closed": 129}.get(end, 0))
            terminal = self.start("--session", self.file)
            self.assertEqual(self.users(terminal), ["message %d" % n for n in range(1, turns + 1)], end)
            terminal.send(CTRL_D)
            terminal.wait()

    def test_ended_in_the_middle_of_an_answer_what_is_there_is_saved(self):
        terminal = self.start("--session", self.file, "-n", "-1", "-c", "100000")
        terminal.send("hello\r")
        terminal.expect(r"hello\r\n[^\r]")
        time.sleep(0.2)
        terminal.signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(), 143)
        terminal = self.start("--session", self.file, "-c", "100000")
        self.assertEqual(self.users(terminal), ["hello"])
        self.say(terminal, "go on")

    def test_a_kill_costs_the_answer_under_way_and_no_earlier_one(self):
        terminal = self.start("--session", self.file)
        self.say(terminal, "one")
        self.say(terminal, "two")
        before = self.messages(terminal)
        terminal.send("/set max -1\r")
        terminal.expect(PROMPT)
        terminal.send("three\r")
        terminal.expect(r"three\r\n[^\r]")
        terminal.signal(signal.SIGKILL)
        terminal.wait()
        terminal = self.start("--session", self.file)
        self.assertEqual(self.messages(terminal), before)
        _, reused, _ = self.figures(self.say(terminal, "three"))
        self.assertGreater(reused, 0)

    def test_a_session_that_cannot_be_saved_now_is_said_once_and_the_conversation_goes_on(self):
        folder = self.home / "gone"
        folder.mkdir()
        terminal = self.start("--session", folder / "talk.quern")
        shutil.rmtree(folder)
        self.say(terminal, "one")
        self.say(terminal, "two")
        self.assertEqual(terminal.output.count(b"the session is not saved now: cannot write"), 1)
        folder.mkdir()
        self.say(terminal, "three")
        terminal.signal(signal.SIGKILL)
        terminal.wait()
        terminal = self.start("--session", folder / "talk.quern")
        self.assertEqual(self.users(terminal), ["one", "two", "three"])

    def test_over_a_pipe(self):
        self.pipe("one\ntwo\n", "--session", self.file)
        got = self.pipe("/context\nthree\n", "--session", self.file)
        self.assertEqual(got.returncode, 0)
        self.assertIn(b"2 turns;", got.stdout)

    def test_what_does_not_fit_is_refused_by_name_and_the_file_kept(self):
        self.pipe("one\n", "--session", self.file)
        before = self.file.read_bytes()
        for args, text in ((("--kv-type", "int8"), "--kv-type f16"), (("--act", "f32"), "--act int8"), (("-c", "16"), "give -c"), (("--on-full", "window"), "--kv-window")):
            got = self.pipe("two\n", "--session", self.file, *args)
            self.assertEqual((got.returncode, got.stdout), (2, b""), got.stderr)
            self.assertIn(text, got.stderr.decode())
        other = subprocess.run([QUERN, "chat", str(GOLDEN / "tiny/qwen2.gguf"), "--template", "chatml", "--session", str(self.file)], input=b"two\n", capture_output=True, timeout=60, check=False, env=self.env)
        self.assertEqual((other.returncode, other.stdout), (2, b""))
        self.assertIn(b"was saved with the model", other.stderr)
        run = [QUERN, "run", str(TINY), "--raw", "-p", "abc", "-n", "2", "--session"]
        got = subprocess.run([*run, str(self.file)], capture_output=True, timeout=60, check=False)
        self.assertEqual(got.returncode, 2)
        self.assertIn(b"holds a conversation of quern chat", got.stderr)
        self.assertEqual(self.file.read_bytes(), before)
        subprocess.run([*run, str(self.home / "run")], capture_output=True, timeout=60, check=True)
        got = self.pipe("two\n", "--session", self.home / "run")
        self.assertEqual(got.returncode, 2)
        self.assertIn(b"holds no conversation", got.stderr)
        for bad, status in ((before[:5000] + b"x" + before[5001:], 1), (b"my notes", 2)):
            self.file.write_bytes(bad)
            got = self.pipe("two\n", "--session", self.file)
            self.assertEqual((got.returncode, got.stdout), (status, b""), got.stderr)
            self.assertEqual(self.file.read_bytes(), bad)

    def test_a_place_that_cannot_be_written_is_known_before_the_first_word(self):
        got = self.pipe("one\n", "--session", "/no/such/folder/talk.quern")
        self.assertEqual((got.returncode, got.stdout), (1, b""))
        self.assertIn(b"/no/such/folder", got.stderr)

    def test_another_template_reads_the_history_again_from_where_it_differs(self):
        self.pipe("one\n", "--session", self.file)
        got = self.pipe("two\n/context\n", "--session", self.file, "--template", "zephyr")
        self.assertEqual(got.returncode, 0)
        self.assertIn(b"2 turns;", got.stdout)

    @needs_smol
    def test_four_thousand_tokens_are_back_at_once(self):
        terminal = self.start("--session", self.file, "-n", "4", "--temp", "0", model=SMOL)
        terminal.send(PASTE % LONG_TEXT[:9300])
        terminal.settle()
        _, _, context = self.figures(self.say(terminal, ""))
        self.assertGreater(context, 4000)
        terminal.send(CTRL_D)
        terminal.wait()
        start = time.monotonic()
        terminal = self.start("--session", self.file, "-n", "4", "--temp", "0", model=SMOL)
        seconds = time.monotonic() - start
        print("%d tokens: at the prompt after %.0f ms, %s" % (context, 1000 * seconds, re.search(rb"restored in \d+ ms", terminal.output).group(0).decode()))
        self.assertLess(seconds, 5)  # under 1 s where nothing else runs
        prefill, reused, _ = self.figures(self.say(terminal, "What was the number on day 3?"))
        self.assertEqual(reused, context)
        self.assertLess(prefill, 40)


if __name__ == "__main__":
    unittest.main()
