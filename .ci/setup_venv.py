"""Make or repair .venv beside this checkout and install the given lock files; standard library only.

Used by ``./run``: ``python3 .ci/setup_venv.py requirements.lock [requirements-dev.lock]``. It takes uv when
uv is there, else ``python3 -m venv``, else (Debian without python3-venv) a venv without pip, filled by the
system's pip.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UNFINISHED = VENV / "unfinished"
NO_PIP = """\
windtunnel: this Python has neither ensurepip nor a pip of 22.3 or newer, so packages cannot be installed.
            On Debian or Ubuntu: sudo apt install python3-venv
            Then run this again."""


def say(text: str) -> None:
    """Tell the person who waits, on standard error."""
    sys.stderr.write(f"windtunnel: {text}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold this checkout's set-up alone; another first run waits here. Freed when the process ends."""
    descriptor = os.open(ROOT, os.O_RDONLY)
    try:
        with contextlib.suppress(
            ImportError, OSError
        ):  # no lock on this file system: go on without
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another run is setting up .venv; waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def works(command: Sequence[str | Path]) -> bool:
    """Whether a command exits 0, quietly."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def installed(lock: str) -> bool:
    """Whether .venv was filled from exactly this lock file."""
    stamp = VENV / lock
    return stamp.is_file() and stamp.read_bytes() == (ROOT / lock).read_bytes()


def make() -> None:
    """Make an empty .venv by the first way that works here."""
    shutil.rmtree(VENV, ignore_errors=True)
    uv = shutil.which("uv")
    if uv and works([uv, "venv", "--quiet", "--python", sys.executable, VENV]):
        return
    if works([sys.executable, "-m", "venv", VENV]):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    if not works([sys.executable, "-m", "venv", "--without-pip", VENV]):
        raise SystemExit(
            f"windtunnel: {sys.executable} cannot make a virtual environment in {VENV}"
        )


def installer() -> list[str | Path]:
    """Return the command that installs into .venv: uv, the venv's pip, or the system's pip pointed at it."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", PYTHON]
    quiet = ["install", "--quiet", "--no-input", "--disable-pip-version-check"]
    if works([PYTHON, "-m", "pip", "--version"]):
        return [PYTHON, "-m", "pip", *quiet]
    if works([sys.executable, "-m", "pip", "--python", PYTHON, "--version"]):
        return [sys.executable, "-m", "pip", "--python", PYTHON, *quiet]
    shutil.rmtree(VENV, ignore_errors=True)
    raise SystemExit(NO_PIP)


def floors() -> list[str]:
    """Return the requirements of pyproject.toml, development tools included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["dev"]]


def install(locks: Sequence[str]) -> bool:
    """Install the lock files; where a pinned version cannot be had, say so and take what pyproject.toml allows."""
    command = installer()
    files = [word for lock in locks for word in ("-r", str(ROOT / lock))]
    if subprocess.run([*command, *files], stdout=sys.stderr, check=False).returncode == 0:
        return True
    say(
        "the versions of the lock file cannot be installed here; taking those pyproject.toml allows"
    )
    return subprocess.run([*command, *floors()], stdout=sys.stderr, check=False).returncode == 0


def main(locks: Sequence[str]) -> int:
    """Bring .venv to the state of the lock files."""
    with locked():
        version: list[str | Path] = [
            PYTHON,
            "-c",
            "import sys; sys.exit(sys.version_info < (3, 11))",
        ]
        usable = not UNFINISHED.exists() and works(version)
        if usable and all(installed(lock) for lock in locks):
            return 0
        say(f"setting up {VENV} (once; a minute or so)")
        for again in (False, True):
            if again:
                say("that failed; making .venv anew")
            if again or not usable:
                make()
            UNFINISHED.touch()
            if install(locks):
                break
        else:
            say("the packages could not be installed; the reason stands above")
            return 1
        for lock in locks:
            shutil.copyfile(ROOT / lock, VENV / lock)
        UNFINISHED.unlink(missing_ok=True)
        say("ready")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
