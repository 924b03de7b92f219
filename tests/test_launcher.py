"""The launcher in a copy of the checkout whose lock files are empty, so that nothing is downloaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIM = """#!/bin/sh
if [ "$1 $2" = "-m venv" ] && [ "$3" != "--without-pip" ]; then
  mkdir -p "$3/bin"; echo "ensurepip is not available" >&2; exit 1
fi
exec {python} "$@"
"""
OLD = """#!/bin/sh
if [ "$1" = -V ]; then echo "Python 3.9.2"; exit 0; fi
exit 1
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout never run: the real launcher, empty lock files, a command line of two lines."""
    return fill(tmp_path / "a checkout")


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A checkout after its first run from another folder, and what that run said."""
    folder = fill(tmp_path_factory.mktemp("first") / "a checkout")
    return folder, launch(folder, "one", "two words", cwd=folder.parent)


@pytest.fixture
def ready(first: tuple[Path, object], tmp_path: Path) -> Path:
    """A copy of a checkout that is set up."""
    return Path(shutil.copytree(first[0], tmp_path / "ready", symlinks=True))


def fill(folder: Path) -> Path:
    """Make a checkout in a folder."""
    (folder / "experiments").mkdir(parents=True)
    shutil.copy(ROOT / "run", folder)
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    for name in ("requirements.lock", "requirements-dev.lock"):
        (folder / name).write_text("# nothing\n")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = []\noptional-dependencies = { dev = [] }\n'
    )
    (folder / "experiments" / "__init__.py").touch()
    (folder / "experiments" / "cli.py").write_text(
        "import os, sys\nprint(os.getcwd(), *sys.argv[1:])\nsys.exit(len(sys.argv) - 1)\n"
    )
    return folder


def launch(
    checkout: Path, *arguments: str, cwd: Path | None = None, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or plain_path()}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [checkout / "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd or checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def plain_path() -> str:
    """A PATH with this Python first and no uv."""
    here = Path(sys._base_executable).parent  # type: ignore[attr-defined]  # CPython has it
    return f"{here}:/usr/bin:/bin"


def shims(folder: Path, **scripts: str) -> str:
    """A PATH where the given commands come first."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return f"{folder}:{plain_path()}"


def test_first_run_sets_up_on_stderr_keeps_the_folder_and_passes_the_status(
    first: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = first
    assert done.returncode == 2
    assert done.stdout == f"{folder.parent} one two words\n"
    assert "setting up" in done.stderr
    again = launch(folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{folder}\n", "")


def test_the_callers_folder_never_shadows_the_checkout(ready: Path, tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise SystemExit('shadowed')")
    assert launch(ready, cwd=tmp_path).returncode == 0


def test_a_link_to_the_launcher_works(ready: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ready / "run")
    done = subprocess.run(
        [tmp_path / "link"], capture_output=True, text=True, check=False, env={"PATH": plain_path()}
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_ensurepip_the_venv_is_filled_by_the_systems_pip(
    checkout: Path, tmp_path: Path
) -> None:
    base = sys._base_executable  # type: ignore[attr-defined]  # CPython has it
    path = shims(tmp_path / "bin", python3=SHIM.format(python=base))
    # the set-up runs under sys.executable: point it at the shim's own failure
    text = (checkout / ".ci" / "setup_venv.py").read_text()
    shim = tmp_path / "bin" / "python3"
    (checkout / ".ci" / "setup_venv.py").write_text(
        text.replace('[sys.executable, "-m", "venv", VENV]', f'["{shim}", "-m", "venv", VENV]')
    )
    done = launch(checkout, path=path)
    assert done.returncode == 0, done.stderr
    assert not (checkout / ".venv" / "bin" / "pip").exists()


def test_an_old_python_is_told_so_plainly(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    shims(folder, **dict.fromkeys(("python3", "python"), OLD))
    for tool in ("sh", "cmp", "dirname", "readlink"):
        (folder / tool).symlink_to(shutil.which(tool) or "")
    done = launch(checkout, path=str(folder))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer; python3 here is Python 3.9.2" in done.stderr
    assert done.stdout == ""


def test_a_venv_whose_making_was_killed_is_made_anew(ready: Path) -> None:
    venv = ready / ".venv"
    (venv / "unfinished").touch()
    (venv / "requirements.lock").unlink()
    (venv / "leftover").touch()
    done = launch(ready)
    assert (done.returncode, done.stdout) == (0, f"{ready}\n")
    assert not (venv / "leftover").exists()
    assert launch(ready).stderr == ""


@pytest.mark.parametrize("damage", ["no stamp", "newer lock"])
def test_a_venv_that_does_not_match_the_lock_file_is_brought_up_to_date(
    ready: Path, damage: str
) -> None:
    if damage == "no stamp":
        (ready / ".venv" / "requirements.lock").unlink()
    else:
        (ready / "requirements.lock").write_text("# nothing, but newer\n")
    assert "setting up" in launch(ready).stderr
    assert launch(ready).stderr == ""


def test_first_runs_at_once_are_safe(checkout: Path) -> None:
    runs = [
        subprocess.Popen(
            [checkout / "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    answers = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert sum("ready" in err for _, err in answers) == 1
