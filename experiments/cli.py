"""The command line: ``windtunnel COMMAND``, or ``./run COMMAND`` in a checkout.

A command prints its answer on standard output (one JSON object with ``--json``) and exits 0. A user error prints one
message on standard error, nothing on standard output, and exits 2; a simulated deadlock exits 3.
"""

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence

import typer

from experiments.cli_collective import collective
from experiments.cli_compare import compare
from experiments.cli_later import goodput
from experiments.cli_list import list_things
from experiments.cli_plan import plan
from experiments.cli_schedule import schedule
from experiments.cli_scoreboard import scoreboard
from experiments.cli_simulate import simulate
from experiments.cli_study import study
from experiments.cli_topology import topology
from sim.errors import DeadlockError, InputError

COMMANDS: dict[str, Callable[..., None]] = {
    "simulate": simulate,
    "compare": compare,
    "plan": plan,
    "collective": collective,
    "schedule": schedule,
    "topology": topology,
    "goodput": goodput,
    "scoreboard": scoreboard,
    "study": study,
    "list": list_things,
}
USER_ERROR, DEADLOCK, INTERRUPTED = 2, 3, 130


def application() -> typer.Typer:
    """Return the command line with every command of `COMMANDS`."""
    app = typer.Typer(
        help="Simulate the clusters that train language models.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, command in COMMANDS.items():
        app.command(name)(command)
    return app


atexit.register(gc.freeze)
"""What a command leaves behind need not be searched for garbage before the process ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        application()(args=arguments, prog_name="windtunnel")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except InputError as problem:
        return _fail(problem, USER_ERROR)
    except DeadlockError as problem:
        return _fail(problem, DEADLOCK)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        if problem.filename is None:
            raise
        return _fail(f"{problem.filename}: {problem.strerror}", USER_ERROR)
    except MemoryError as problem:
        return _fail(
            f"this machine's memory is too small for that ({problem}); ask for fewer", USER_ERROR
        )
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    return 0


def _fail(problem: object, status: int) -> int:
    """Print one message on standard error and return the exit status."""
    sys.stderr.write(f"error: {problem}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
