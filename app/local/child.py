"""Becomes another program that cannot outlive its parent. Run as a file, by path.

    python -I -S child.py PARENT SIGNAL UID GID -- program argument…

Linux sends SIGNAL when the thread that started us ends, however it ends; nothing else catches a
`kill -9` of the supervisor. It has to be asked for after the change of account (which clears it)
and before exec, and not in `preexec_fn`, which may deadlock in a process with threads. Hence this
file, which imports nothing of ours. Elsewhere than on Linux it only changes the account.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from signal import Signals

_PR_SET_PDEATHSIG = 1
_AS_WE_ARE = -1


def command(
    argv: Sequence[str], death: Signals, uid: int | None = None, gid: int | None = None
) -> list[str]:
    """The command that runs `argv` bound to this process, as `uid` and `gid` where they are given.

    To be started from a thread that lives as long as this process.
    """
    ids = [str(_AS_WE_ARE if number is None else number) for number in (uid, gid)]
    head = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(death)), *ids]
    return [*head, "--", *argv]


def main(arguments: Sequence[str]) -> None:
    """Change account, ask for the signal, become the program."""
    parent, death, uid, gid = map(int, arguments[:4])
    argv = list(arguments[5:])
    # Before the change of account: the other one may not be able to read Python's own files.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    if uid != _AS_WE_ARE:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, death, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this one is gone")
    os.execvp(argv[0], argv)  # noqa: S606 -- what it runs is its whole purpose


if __name__ == "__main__":
    main(sys.argv[1:])
