"""Runs a command on a new terminal: its output is copied to ours, our input is typed there, and its end closes the terminal.

The first argument is "owner" (the terminal is the command's own, closing it sends SIGHUP) or "guest" (it only has its
streams there). Ends with the command's exit code, 128 + signal where a signal ended it.
"""

import fcntl
import os
import select
import subprocess
import sys
import termios

master, slave = os.openpty()


def take_terminal():
    os.setsid()
    if sys.argv[1] == "owner":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


child = subprocess.Popen(sys.argv[2:], stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal)
os.close(slave)
while True:
    readable, _, _ = select.select([master, 0], [], [])
    if 0 in readable:
        typed = os.read(0, 65536)
        if not typed:
            break
        os.write(master, typed)
        continue
    try:
        os.write(1, os.read(master, 65536))
    except OSError:  # The command has ended.
        break
os.close(master)
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
