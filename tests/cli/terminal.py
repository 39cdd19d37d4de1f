# SPDX-License-Identifier: MIT
"""A program on a terminal, for the tests of what is typed."""
import os
import pty
import select
import signal
import sys
import termios
import time

SECONDS = 60


class Terminal:
    """Runs program with the words, and knows what it wrote that was not waited for yet."""

    def __init__(self, program, *words):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execv(program, ["winnow", *words])
        self.seen = b""

    def type(self, text):
        os.write(self.file, text)

    def wait_for(self, text):
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            ready = select.select([self.file], [], [], 1)[0]
            if time.monotonic() > deadline:
                sys.exit(f"no {text} in {self.seen[-300:]}")
            if ready:
                self.seen += os.read(self.file, 4096)
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def wait_for_prompt(self, prompt=b"> "):
        """The prompt stands there before the line editor has the terminal: what is typed in between,
        the system echoes by itself."""
        self.wait_for(prompt)
        deadline = time.monotonic() + SECONDS
        while termios.tcgetattr(self.file)[3] & termios.ICANON:
            if time.monotonic() > deadline:
                sys.exit("the terminal is not the line editor's")
            time.sleep(0.01)

    def ended(self):
        """The status that waitpid gives."""
        return os.waitpid(self.pid, 0)[1]


def was_interrupted(status):
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
