"""A whole stack in this process, from the lock to the last process gone.

`python -m app.local.run OPTIONS` is what `giveway up --detach` leaves in the background.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from app import logs
from app.declared.endpoints import check_installed
from app.errors import GivewayError
from app.local import leftovers, lock, postgres
from app.local.choices import choose, rechoose
from app.local.leftovers import birth_of
from app.local.options import MIGRATIONS, StackOptions
from app.local.output import LogFiles, Output, Outputs
from app.local.plan import Change, change, plan
from app.local.state import (
    ProcessState,
    StackState,
    forget_state,
    read_state,
    running_state,
    write_state,
)
from app.local.supervisor import Supervisor
from app.settings import load, settings_files

LOGS = "logs"


def run_stack(
    options: StackOptions,
    terminal: Output | None = None,
    on_change: Callable[[StackState], None] = lambda _state: None,
) -> None:
    """Run it until it is told to stop by a signal. Raises what prevented it.

    Lines go to files in the data folder and to `terminal`. `on_change` sees each new state.
    """
    options = replace(options, data=options.data.resolve())
    data = options.data
    with lock.held(data):
        end_leftovers(data)
        options = replace(options, config=settings_files(options.config))
        settings = load(options.config)
        check_installed(settings)
        choices = choose(settings, options)
        stack = plan(settings, options, choices)
        state = StackState(
            data=str(data),
            config=str(options.config.resolve()) if options.config else None,
            supervisor=_ourselves(),
            ready=False,
            addresses=stack.addresses,
            environment=stack.environment,
        )

        written: StackState | None = None

        def changed(processes: tuple[ProcessState, ...], ready: bool) -> None:
            nonlocal state, written
            lasting = tuple(process for process in processes if process.name != MIGRATIONS)
            new = replace(state, processes=lasting, ready=ready)
            if new != written:
                state = written = new
                write_state(data, state)
                on_change(state)

        def replan() -> Change:
            """What is started anew by the settings as they are now; nothing if they are wrong."""
            nonlocal state, stack, choices
            reloads = state.reloads + 1
            try:
                now = load(options.config)
                chosen = rechoose(now, options, choices)
                planned = plan(now, options, chosen)
            except GivewayError as error:
                state = replace(state, reloads=reloads, refused=str(error))
                return Change()
            found = change(stack, planned)
            stack, choices = planned, chosen
            state = replace(
                state,
                ready=False,
                reloads=reloads,
                refused=None,
                addresses=planned.addresses,
                environment=planned.environment,
            )
            return found

        with closing(LogFiles(data / LOGS)) as files:
            outputs = Outputs(files, *([terminal] if terminal else []))
            try:
                Supervisor(stack.specs, outputs, changed, replan).run()
            finally:
                forget_state(data)


def end_leftovers(data: Path) -> None:
    """End what a supervisor that was killed has left running on this folder."""
    state = read_state(data)
    if state is None or running_state(data) is not None:
        return
    births = [process.birth for process in state.processes if process.birth is not None]
    found = [leftovers.process_of(birth) for birth in births]
    leftovers.end([process for process in found if process is not None])
    leftovers.end_postgres(data / postgres.FOLDER)
    forget_state(data)


def _ourselves() -> leftovers.Birth:
    found = birth_of(os.getpid())
    if found is None:
        raise RuntimeError("this process is not in the process table")
    return found


def main() -> None:
    """In the background: errors go to standard error, which is a file there."""
    logs.configure()
    try:
        run_stack(StackOptions.from_json(sys.argv[1]))
    except GivewayError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
