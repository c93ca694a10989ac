"""A program in a pseudo-terminal: what was written to it, and what a user sees on the screen."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

PATIENCE = 120.0  # seconds: the machines that run tests are slow and shared


class Screen:
    """The rows that a terminal shows, by the control sequences that line editing and colours use (those of xterm)."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.rest = ""

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            c = text[at]
            if c == "\x1b":
                sequence = re.match(r"\x1b(\[[?>]?[0-9;]*[@-~]|[()][A-Z0-9]|[=>78M])", text[at:])
                if not sequence:
                    self.rest = text[at:]
                    return
                self.control(sequence.group(1))
                at += len(sequence.group(0))
                continue
            self.character(c)
            at += 1

    def newline(self):
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.lines = self.lines[1:] + [[" "] * self.columns]

    def character(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            self.newline()
        elif c == "\b":
            self.column = max(0, self.column - 1)
        elif c == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
        elif c >= " ":
            if unicodedata.combining(c):
                self.lines[self.row][max(0, self.column - 1)] += c
                return
            width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
            if self.column + width > self.columns:  # as late as that: behind a full line the cursor waits
                self.column = 0
                self.newline()
            self.lines[self.row][self.column] = c
            for i in range(1, width):
                self.lines[self.row][self.column + i] = ""
            self.column += width

    def control(self, sequence):
        if sequence[0] != "[":
            return
        numbers = [int(n) for n in re.findall(r"\d+", sequence)]
        n = numbers[0] if numbers else 1
        line = self.lines[self.row]
        kind = sequence[-1]
        if kind == "C":
            self.column = min(self.columns - 1, self.column + n)
        elif kind == "D":
            self.column = max(0, self.column - n)
        elif kind == "A":
            self.row = max(0, self.row - n)
        elif kind == "B":
            self.row = min(self.rows - 1, self.row + n)
        elif kind == "G":
            self.column = n - 1
        elif kind == "H":
            self.row, self.column = (numbers + [1, 1])[0] - 1, (numbers + [1, 1])[1] - 1
        elif kind == "K":
            line[self.column:] = [" "] * (self.columns - self.column)
        elif kind == "J":
            line[self.column:] = [" "] * (self.columns - self.column)
            for row in range(self.row + 1, self.rows):
                self.lines[row] = [" "] * self.columns
        elif kind == "P":
            del line[self.column:self.column + n]
            line += [" "] * (self.columns - len(line))
        elif kind == "@":
            line[self.column:self.column] = [" "] * n
            del line[self.columns:]

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines).strip("\n")


class Terminal:
    """`command` in a pseudo-terminal of its own. All that it writes is in `output`; expect() looks behind what it found last."""

    def __init__(self, command, env, rows=30, columns=100):
        self.output, self.seen, self.screen = b"", 0, Screen(rows, columns)
        self.decoded = 0
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, env)
        self.resize(rows, columns, keep_screen=True)

    def resize(self, rows, columns, keep_screen=False):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if not keep_screen:
            self.screen = Screen(rows, columns)

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            data = data[os.write(self.fd, data[:512]):]
            self.read(0)

    def read(self, seconds):
        """What comes within that time; False at the end."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += data
        # Only whole characters: the rest comes with the next bytes.
        text = self.output[self.decoded:]
        whole = text.decode(errors="ignore") if text[-4:].isascii() else text[:len(text) - incomplete_tail(text)].decode(errors="replace")
        self.decoded += len(text) if text[-4:].isascii() else len(text) - incomplete_tail(text)
        self.screen.feed(whole)
        return bool(data)

    def expect(self, pattern, seconds=PATIENCE):
        """Waits for a pattern in what was written since the last one, and returns its match."""
        wanted = re.compile(pattern.encode() if isinstance(pattern, str) else pattern, re.S)
        end = time.monotonic() + seconds
        while True:
            match = wanted.search(self.output, self.seen)
            if match:
                self.seen = match.end()
                return match
            left = end - time.monotonic()
            if left < 0 or not self.read(min(left, 1.0)):
                match = wanted.search(self.output, self.seen)
                if match:
                    self.seen = match.end()
                    return match
                raise AssertionError("%r did not come; written since: %r" % (pattern, self.output[self.seen:]))

    def settle(self, seconds=0.4):
        """Reads until nothing has come for that long."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            before = len(self.output)
            if not self.read(seconds) or len(self.output) == before:
                return

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=PATIENCE):
        """The exit status, after everything that is still written."""
        end = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() > end:
                raise AssertionError("it does not end; written: %r" % self.output[-2000:])
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        while self.read(0.05) and select.select([self.fd], [], [], 0)[0]:
            pass
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def incomplete_tail(data):
    """Bytes at the end that begin a UTF-8 character and do not end it."""
    for n in range(1, min(4, len(data)) + 1):
        byte = data[-n]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return n if length > n else 0
        if byte < 0x80:
            return 0
    return 0
