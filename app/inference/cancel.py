"""A flag that closes what hangs on it the moment it is set."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancel(threading.Event):
    """An event that runs its hooks in the thread that sets it.

    A call that waits for bytes cannot look at an event; it hooks its socket's shutdown on here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._hooks: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set the flag and run every hook. Safe to call again, from any thread."""
        with self._guard:
            super().set()
            hooks = tuple(self._hooks)
        for hook in hooks:
            hook()

    def hook(self, act: Callable[[], None]) -> None:
        """Run `act` when set; at once if it is set already. `act` must not block or raise."""
        with self._guard:
            self._hooks.append(act)
            already = self.is_set()
        if already:
            act()

    def unhook(self, act: Callable[[], None]) -> None:
        """Forget `act`. It may still be running in another thread when this returns."""
        with self._guard:
            self._hooks.remove(act)
