"""Run files: a model, a cluster and a plan in TOML, checked and frozen.

A run is a preset of ``experiments/runs`` or the path of a TOML file with the tables ``[model]``,
``[cluster]`` and ``[plan]``; ``section.key=value`` overrides come on top. ``source`` says where its numbers are from,
``assumed`` lists what they are not: texts, or ``section.key: text``, which an override of that key makes void.
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict

from experiments.assumed import assumed_texts, said
from experiments.presets import preset_table, run_presets
from experiments.quantity import looks_like_quantity, parse_quantity
from experiments.section import missing_fields, read_section, section_type, unknown_key
from sim.errors import InputError, PlanError, unknown
from topologies import CLUSTERS
from workloads.documents import FILE, documents_text
from workloads.hf_config import model_from_hf
from workloads.model import Model
from workloads.models import model as preset_model
from workloads.plan import Plan
from workloads.plan_check import check

Table = Mapping[str, object]
_SECTIONS = {"model": "", "cluster": "", "plan": "", "source": "", "assumed": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Which machine: a cluster preset, how many devices of it, and parameters of its family."""

    preset: str
    num_devices: int
    parameters: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One run: a model on a cluster under a plan. ``source`` says where a preset's numbers are from."""

    name: str
    model: Model
    cluster: ClusterSpec
    plan: Plan
    source: str = ""
    assumptions: tuple[str, ...] = ()


class _Cluster(BaseModel):
    """The keys of ``[cluster]`` that every family has; the others are parameters of the family."""

    model_config = ConfigDict(extra="allow", frozen=True)
    preset: str
    num_devices: int | None = None


class _Origin(BaseModel):
    """Where ``[model]`` starts from; its other keys are fields of `Model`, on top."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preset: str = ""
    hf_config: str = ""


def load_run(name: str, overrides: Iterable[str] = ()) -> RunConfig:
    """Return a run by preset name or path of a TOML file, with ``section.key=value`` overrides applied.

    Raises `InputError` naming every wrong key and value at once.
    """
    title, table, folder = _read(name)
    return build_run(title, override(table, overrides), folder)


def build_run(name: str, table: Table, folder: Path = Path()) -> RunConfig:
    """Return the run of a table as a run file has it; its ``hf_config`` path starts at ``folder``."""
    problems = [unknown_key("", key, _SECTIONS) for key in table if key not in _SECTIONS]
    sections = {key: _section(table, key, problems) for key in ("model", "cluster", "plan")}
    stated = _with_documents(sections["plan"], folder)
    values, wrong = read_section("plan", stated, section_type(Plan))
    cluster, more = read_section("cluster", sections["cluster"], _Cluster)
    problems += wrong + more
    if not more and cluster["preset"] not in CLUSTERS:
        problems.append(f"cluster.preset: {unknown('cluster', cluster['preset'], CLUSTERS)}")
    assumed = assumed_texts(table, problems)
    model, read = _model(sections["model"], folder, problems)
    if problems or model is None:
        raise InputError(_together(name, problems))
    plan, num_devices = _plan(values, model, cluster.pop("num_devices", None))
    spec = ClusterSpec(
        preset=cluster.pop("preset"),
        num_devices=num_devices,
        parameters=MappingProxyType({k: _parameter(k, v) for k, v in cluster.items()}),
    )
    return RunConfig(
        name=name,
        model=model,
        cluster=spec,
        plan=plan,
        source=str(table.get("source", "")),
        assumptions=(*assumed, *read),
    )


def override(table: Table, overrides: Iterable[str]) -> dict[str, object]:
    """Return a table with ``section.key=value`` texts applied; values as in TOML, else plain texts."""
    result: dict[str, object] = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in table.items()
    }
    for text in overrides:
        path, equals, raw = text.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and section and key):
            raise InputError(f"--set {text}: write section.key=value, for example --set plan.tp=4")
        if section not in ("model", "cluster", "plan"):
            raise InputError(
                f"--set {text}: {unknown('section', section, ('model', 'cluster', 'plan'))}"
            )
        target = result.setdefault(section, {})
        if not isinstance(target, dict):
            raise InputError(f"[{section}] must be a table, not {target!r}")
        *parents, last = key.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                raise InputError(f"--set {text}: {section}.{parent} is {target!r}, not a table")
        target[last] = _value(raw.strip())
        said(result, path.strip())
    return result


def cluster_parameters(overrides: Iterable[str]) -> dict[str, object]:
    """Return the cluster parameters of ``key=value`` texts."""
    table = override(
        {"cluster": {}}, (f"cluster.{text.removeprefix('cluster.')}" for text in overrides)
    )
    section = table["cluster"]
    assert isinstance(section, dict)
    return {key: _parameter(key, value) for key, value in section.items()}


def _value(raw: str) -> object:
    """Read an override's value as TOML would, else as a text."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return raw


def _read(name: str) -> tuple[str, dict[str, Any], Path]:
    """Return a run's title, its table and its folder."""
    path = Path(name)
    if name and name not in run_presets() and path.is_dir():
        raise InputError(
            f"{name} is a folder; give a run file (.toml) or a run preset, see list runs"
        )
    if not (name.endswith(".toml") or path.is_file()):
        return name, preset_table(name), Path()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"cannot read run file {name}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"cannot read run file {name}: it is not UTF-8 text") from problem
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"run file {name} is not TOML: {problem}") from problem
    if not table:
        raise InputError(
            f"run file {name} is empty; it needs the tables [model], [cluster] and [plan]"
        )
    return path.stem, table, path.parent


def _section(table: Table, key: str, problems: list[str]) -> Table:
    """Return a section of a run file, noting one that is missing or no table."""
    value = table.get(key)
    if isinstance(value, Mapping):
        return value
    problems.append(
        f"section [{key}] is missing"
        if value is None
        else f"[{key}] must be a table, not {value!r}"
    )
    return {}


def _model(table: Table, folder: Path, problems: list[str]) -> tuple[Model | None, tuple[str, ...]]:
    """Return the model of ``[model]`` (a preset, a config.json, or fields) and what was assumed."""
    origin, wrong = read_section("model", _part(table, _Origin.model_fields), _Origin)
    fields = _part(table, _Origin.model_fields, inside=False)
    stated, more = read_section(
        "model", fields, section_type(Model), extra=tuple(_Origin.model_fields)
    )
    own = wrong + more
    preset, config = origin.get("preset", ""), origin.get("hf_config", "")
    if preset and config:
        own.append("[model] has both preset and hf_config; give one of them")
    problems += own
    if own:
        return None, ()
    try:
        if not preset and not config:
            values = {"name": "model", **stated}
            gaps = missing_fields(Model, values)
            if gaps:
                hint = f"[model] needs a preset, an hf_config, or also {', '.join(gaps)}"
                raise InputError(hint)
            return Model(**values), ()
        base, assumed = (preset_model(preset), ()) if preset else _config_model(folder / config)
        return dataclasses.replace(base, **stated), assumed
    except InputError as problem:
        problems.append(str(problem))
        return None, ()


def _part(table: Table, names: Iterable[str], *, inside: bool = True) -> dict[str, object]:
    """Return the keys of a table that are among some names, or the others."""
    known = set(names)
    return {key: value for key, value in table.items() if (key in known) is inside}


def _config_model(path: Path) -> tuple[Model, tuple[str, ...]]:
    """Return the model of a Hugging Face ``config.json`` and what the reader assumed."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"model.hf_config={path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InputError(f"model.hf_config={path} is not JSON: {problem}") from problem
    if not isinstance(config, dict):
        raise InputError(
            f"model.hf_config={path} must hold a JSON object, not a {type(config).__name__}"
        )
    return model_from_hf(config)


def _plan(values: dict[str, Any], model: Model, num_devices: int | None) -> tuple[Plan, int]:
    """Return the plan, its dp filled in, and the number of devices. Raises `PlanError`."""
    degrees = {axis: values.get(axis, 1) for axis in ("tp", "cp", "pp")}
    gaps = missing_fields(Plan, values)
    if gaps:
        raise PlanError(f"[plan] needs also {', '.join(gaps)}")
    unset = {"dp": 1, "ep": 1, "etp": 1, "shard": 0, "overlap_ep": "auto", "overlap_shared": "auto"}
    unset |= {"dispatcher": "auto", "dispatch_dtype": ""}
    alone = Plan(**{**values, **unset})
    check(alone, model)  # what the model says to a degree comes before what the devices say
    product = math.prod(degrees.values())
    words = " x ".join(f"{axis} {value}" for axis, value in degrees.items())
    dp = values.get("dp")
    if num_devices is None and dp is None:
        raise PlanError("give cluster.num_devices, or plan.dp to derive it from")
    if num_devices is None:
        num_devices = product * int(dp or 1)
    if num_devices < 1:
        raise PlanError(f"cluster.num_devices={num_devices} must be at least 1")
    if num_devices % product:
        low = num_devices // product * product
        near = f"{low} or {low + product}" if low else str(product)
        raise PlanError(
            f"{words} = {product} does not divide num_devices={num_devices}; choose num_devices"
            f" {near}, or degrees whose product divides {num_devices}"
        )
    if dp is not None and product * dp != num_devices:
        raise PlanError(
            f"{words} x dp {dp} = {product * dp} devices, but num_devices={num_devices};"
            f" leave dp out or set dp={num_devices // product}"
        )
    plan = Plan(**{**values, "dp": num_devices // product})
    check(plan, model)
    return plan, num_devices


def _with_documents(table: Table, folder: Path) -> Table:
    """Return ``[plan]`` with documents as one text: a table of lengths and shares, or a CSV found from ``folder``."""
    documents = table.get("documents")
    if isinstance(documents, Mapping):
        return {**table, "documents": documents_text(documents)}
    if isinstance(documents, str) and documents.startswith(FILE):
        beside = folder / documents.removeprefix(FILE)
        if beside.is_file():
            return {**table, "documents": f"{FILE}{beside}"}
    return table


def _parameter(key: str, value: object) -> object:
    """Return a cluster parameter, a written quantity as a number."""
    if isinstance(value, str) and looks_like_quantity(value):
        return parse_quantity(value, f"cluster.{key}")
    return value


def _together(name: str, problems: Sequence[str]) -> str:
    """Return all problems of a run as one message."""
    if len(problems) == 1:
        return f"run {name}: {problems[0]}"
    return "\n  ".join((f"run {name} has {len(problems)} problems:", *problems))
