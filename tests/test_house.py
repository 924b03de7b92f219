"""The rules of the house: numbers, names, lengths, light imports, truthful documents, a complete wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from experiments.cli import COMMANDS
from experiments.presets import run_presets

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sim", "topologies", "workloads", "experiments")
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SCALES = {10.0**n for n in (3, 6, 9, 12, 15, 18)}
POWERS = {(2, n) for n in (10, 20, 30, 40)} | {(10, n) for n in range(3, 19, 3)}
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
SMALL_SCALES = {10.0**-n for n in (3, 6, 9)}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def raw_powers(source: str) -> list[int]:
    """Lines with a power of ten or two that `sim.units` has a name for."""
    text = source.splitlines()
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            written = text[node.lineno - 1][node.col_offset : node.end_col_offset]
            if node.value in SCALES and "e" in written.lower():
                lines.add(node.lineno)
        elif isinstance(node, ast.BinOp):
            numbers = [n.value for n in (node.left, node.right) if isinstance(n, ast.Constant)]
            power = isinstance(node.op, ast.Pow) and tuple(numbers) in POWERS
            scaled = isinstance(node.op, ast.Mult | ast.Div)
            if power or (scaled and any(n == 1024 or n in SMALL_SCALES | SCALES for n in numbers)):
                lines.add(node.lineno)
    return sorted(lines)


def test_powers_of_ten_and_two_stand_in_units_only() -> None:
    found = {name_of(path): raw_powers(path.read_text()) for path in MODULES}
    found.pop("sim/units.py")
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_rule_finds_what_it_forbids() -> None:
    wrong = ("x = 1e9", "x = y / 1e-6", "x = 2**30", "x = 10 ** 9", "x = 1024 * y", "x = y / 1000")
    assert [raw_powers(text) for text in wrong] == [[1]] * len(wrong)
    for right in ("x = 1024", "n < 1e-9", "x = 50 * GB", "x = 2 * y", "x = 2**n"):
        assert raw_powers(right) == []


def test_files_and_functions_stay_readable() -> None:
    long = {}
    for path in MODULES:
        text = path.read_text()
        if (lines := len(text.splitlines())) > LONGEST_FILE:
            long[name_of(path)] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{name_of(path)}: {node.name}"] = lines
    assert long == {}


def test_files_have_a_noun_for_a_name() -> None:
    vague = ("utils", "helpers", "common", "misc")
    names = {name_of(p): p.stem for p in MODULES}
    assert [n for n, stem in names.items() if stem in vague or stem.startswith("base_")] == []


def test_exported_names_exist_and_stand_once() -> None:
    for path in MODULES:
        if "__all__" not in path.read_text():
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = import_module(".".join(p for p in parts if p != "__init__"))
        assert len(module.__all__) == len(set(module.__all__)), module
        assert [name for name in module.__all__ if not hasattr(module, name)] == [], module


def test_the_command_line_starts_without_heavy_libraries() -> None:
    code = "import experiments.cli, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"pandas", "matplotlib", "networkx", "numpy", "simpy", "pydantic"})


def tracked() -> list[Path]:
    """Files of the repository, or of the packages where there is no git."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return MODULES
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_machine_or_a_registry() -> None:
    forbidden = re.compile(
        r"(?<![\w.])/(?:work|home|root|opt|Users)/\w|py" r"pi\.org|files\.pythonhosted|\.\./shared"
    )
    found = []
    for path in tracked():
        if path.suffix in (
            ".py",
            ".toml",
            ".md",
            ".lock",
            ".yaml",
            ".sh",
            ".txt",
            "",
        ) and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name_of(path)}: {m[0]}" for m in forbidden.finditer(text)]
    assert found == []


def commands(document: str) -> list[list[str]]:
    """The ``./run`` and ``windtunnel`` commands of a document's code blocks."""
    blocks = re.findall(
        r"```(?:sh|bash|console)\n(.*?)```", (ROOT / document).read_text(), re.DOTALL
    )
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    words = [line.partition("#")[0].split() for line in lines]
    return [w[1:] for w in words if w and w[0] in ("./run", "windtunnel") and len(w) > 1]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_commands_and_runs_that_exist(document: str) -> None:
    for words in commands(document):
        assert words[0] in (*COMMANDS, "test"), words
        if words[0] in ("simulate", "compare", "plan", "goodput"):
            assert words[1] in run_presets(), words


def test_documents_have_no_dead_links() -> None:
    link = re.compile(r"\]\((?!https?:|#)([^)#]+)")
    targets = [(d, t) for d in DOCUMENTS for t in link.findall((ROOT / d).read_text())]
    dead = [f"{document}: {target}" for document, target in targets if not (ROOT / target).exists()]
    assert dead == []


def test_the_script_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for block in blocks:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
        done = subprocess.run(
            [sys.executable, "-c", block],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 80


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and re.search(
        r"No module named pip|connection|resolve|No matching", done.stderr
    ):
        pytest.skip(
            f"no way to fetch the build backend here: {done.stderr.strip().splitlines()[-1]}"
        )
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_module_and_data_file_and_nothing_else(wheel: Path) -> None:
    held = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    suffixes = (".py", ".toml", ".csv", ".json", ".js", ".css", ".html", ".typed")
    ours = {
        name_of(path)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    }
    assert held == ours


def test_the_wheel_requires_what_its_code_imports(wheel: Path) -> None:
    text = next(
        zipfile.ZipFile(wheel).read(n).decode()
        for n in zipfile.ZipFile(wheel).namelist()
        if n.endswith("METADATA")
    )
    required = set(re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra)", text, re.MULTILINE))
    imported = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    assert imported - set(PACKAGES) - set(sys.stdlib_module_names) <= required


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Installed away from the checkout, beside the dependencies alone."""
    target = tmp_path / "installed"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(
        (str(target), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    )
    for arguments in (
        ["list", "runs"],
        ["list", "models"],
        ["list", "devices"],
        ["list", "clusters"],
    ):
        ran = subprocess.run(
            [sys.executable, "-P", target / "bin" / "windtunnel", *arguments, "--json"],
            capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert str(ROOT / "sim") not in ran.stderr
