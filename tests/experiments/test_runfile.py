from dataclasses import fields
from pathlib import Path

import pytest

from experiments.assumed import assumed_keys
from experiments.presets import run_presets
from experiments.runfile import cluster_parameters, load_run, override
from sim.errors import InputError

LLAMA = "llama3-405b"
RUN = """
[model]
name = "toy"
num_layers = 4
hidden_size = 512
num_heads = 8
num_kv_heads = 8
head_dim = 64
ffn_size = 2048
vocab_size = 32000

[cluster]
preset = "h100-fat-tree"
num_devices = 16
oversubscription = 7

[plan]
tp = 2
pp = 2
global_batch = 8
seq_len = 1024
"""


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(RUN)
    return path


@pytest.mark.parametrize("name", run_presets())
def test_a_preset_loads_and_its_degrees_multiply_to_the_devices(name: str) -> None:
    run = load_run(name)
    assert run.plan.num_devices == run.cluster.num_devices
    assert run.source


def test_llama_presets_are_those_of_the_paper() -> None:
    # Table 4: tp, cp, pp, dp, sequence, batch
    rows = {
        "llama3-405b-8192": (8, 1, 16, 64, 8192, 2048),
        "llama3-405b": (8, 1, 16, 128, 8192, 2048),
        "llama3-405b-131k": (8, 16, 16, 8, 131072, 128),
    }
    for name, row in rows.items():
        plan = load_run(name).plan
        assert (plan.tp, plan.cp, plan.pp, plan.dp, plan.seq_len, plan.global_batch) == row
        assert plan.num_stages == 126 + 2


def test_what_a_preset_assumes_is_said_until_it_is_overridden() -> None:
    told = load_run("llama3-405b").assumptions
    assert any(text.startswith("plan.chunks: not published") for text in told)
    assert len(told) == 5
    changed = load_run("llama3-405b", ("plan.chunks=4",)).assumptions
    assert [text for text in told if text not in changed] == [told[0]]


@pytest.mark.parametrize("name", run_presets())
def test_an_assumption_is_about_keys_that_exist(name: str) -> None:
    run = load_run(name)
    known = {
        "model": {field.name for field in fields(run.model)},
        "cluster": {"preset", "num_devices", *run.cluster.parameters},
        "plan": {field.name for field in fields(run.plan)},
    }
    for text in run.assumptions:
        assert assumed_keys(text), text
        for section, _, key in (key.partition(".") for key in assumed_keys(text)):
            assert key in known[section], text


def test_what_is_assumed_is_a_list_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text('assumed = ["the network: guessed"]\n' + RUN)
    assert load_run(str(path), ("plan.tp=4",)).assumptions == ("the network: guessed",)
    path.write_text('assumed = "the network"\n' + RUN)
    with pytest.raises(InputError, match="assumed must be a list of texts, not 'the network'"):
        load_run(str(path))


def test_a_file_states_model_cluster_and_plan(run_file: Path) -> None:
    run = load_run(str(run_file))
    assert run.name == "toy"
    assert run.model.num_layers == 4
    assert run.cluster.num_devices == 16
    assert dict(run.cluster.parameters) == {"oversubscription": 7}
    assert run.plan.dp == 16 // (2 * 2)


def test_overrides_are_read_as_toml_values(run_file: Path) -> None:
    sets = ("plan.tp=4", "plan.schedule=gpipe", "plan.sequence_parallel=true", "plan.bucket_bytes=25MiB",
            "plan.layout=[2, 2]", "cluster.nic_bandwidth=400Gbit/s")  # fmt: skip
    run = load_run(str(run_file), sets)
    assert (run.plan.tp, run.plan.schedule, run.plan.sequence_parallel) == (4, "gpipe", True)
    assert run.plan.bucket_bytes == 25 * 2**20
    assert run.plan.layout == (2, 2)
    assert run.cluster.parameters["nic_bandwidth"] == 50e9


def test_devices_follow_from_dp_when_only_dp_is_stated(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(RUN.replace("num_devices = 16\n", "").replace("tp = 2", "tp = 2\ndp = 2"))
    assert load_run(str(path)).cluster.num_devices == 2 * 2 * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("plan.tp=6", r"tp=6 does not divide num_heads=128; choose tp from 1, 2, 4"),
        ("plan.tp=0", r"tp=0 must be at least 1"),
        ("plan.pp=17", r"pp=17 x chunks=8 = 136 stages"),
        ("plan.microbatch=-1", r"microbatch=-1 must be at least 1"),
        ("plan.global_batch=7", r"global_batch=7 is not a multiple of dp=128"),
        ("plan.tpp=4", r"unknown key plan\.tpp; did you mean tp"),
        ("cluster.num_devices=10", r"tp 8 x cp 1 x pp 16 = 128 does not divide num_devices=10; choose num_devices 128"),
        ("cluster.num_devices=0", r"num_devices=0 must be at least 1"),
        ("plan.schedule=zigzag", r"unknown schedule 'zigzag'"),
        ("plan.schedule=1f1", r"did you mean '1f1b'"),
        ("plan.tp=abc", r"plan\.tp='abc' must be a whole number"),
        ("plan.tp=2.5", r"plan\.tp=2\.5 must be a whole number"),
        ("plan.tp=true", r"plan\.tp=true must be a number"),
        ("plan.tp=nan", r"plan\.tp=nan must be a finite number"),
        ("plan.tp=", r"plan\.tp='' must be a whole number"),
        ("plan.dp=3", r"dp 3 = 384 devices, but num_devices=16384; leave dp out or set dp=128"),
        ("plan.bucket_bytes=400G", r"'400G' is ambiguous"),
        ("model.preset=lama3-405b", r"did you mean 'llama3-405b'"),
        ("model.hidden=4", r"unknown key model\.hidden; did you mean hidden_size"),
        ("cluster.preset=h100-fat-tee", r"did you mean 'h100-fat-tree'"),
        ("cluster.preset=", r"unknown cluster ''"),
        ("tp=4", r"write section\.key=value, for example --set plan\.tp=4"),
        ("plan.tp", r"write section\.key=value"),
        ("plam.tp=4", r"unknown section 'plam'; did you mean 'plan'"),
    ],
)  # fmt: skip
def test_a_bad_value_names_the_value_the_rule_and_the_way_out(change: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_run(LLAMA, (change,))


def test_all_problems_come_in_one_message() -> None:
    with pytest.raises(InputError) as caught:
        load_run(
            LLAMA, ("plan.tpp=4", "plan.pp=abc", "model.preset=nosuch", "cluster.preset=nosuch")
        )
    text = str(caught.value)
    assert "4 problems" in text
    assert all(word in text for word in ("plan.tpp", "plan.pp='abc'", "'nosuch'"))


def test_an_unknown_run_suggests_near_names() -> None:
    with pytest.raises(InputError, match="did you mean 'llama3-405b'"):
        load_run("lama3-405b")


def test_unknown_and_missing_sections_are_named(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(RUN.replace("[cluster]", "[clutser]"))
    with pytest.raises(
        InputError,
        match=r"unknown key clutser; did you mean cluster(?s:.*)section \[cluster\] is missing",
    ):
        load_run(str(path))


def test_missing_fields_are_named(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(RUN.replace("hidden_size = 512\n", ""))
    with pytest.raises(InputError, match="or also hidden_size"):
        load_run(str(path))
    path.write_text(RUN.replace("seq_len = 1024\n", ""))
    with pytest.raises(InputError, match=r"\[plan\] needs also seq_len"):
        load_run(str(path))


def test_a_file_that_cannot_be_read_or_parsed_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read run file .*none\.toml: No such file"):
        load_run(str(tmp_path / "none.toml"))
    path = tmp_path / "bad.toml"
    path.write_text("[model\n")
    with pytest.raises(InputError, match=r"bad\.toml is not TOML: .*line 1"):
        load_run(str(path))


def test_override_leaves_its_input_alone() -> None:
    table = {"plan": {"tp": 1}}
    assert override(table, ["plan.tp=2"]) == {"plan": {"tp": 2}}
    assert table == {"plan": {"tp": 1}}


def test_cluster_parameters_are_read_with_and_without_their_section() -> None:
    texts = ("oversubscription=7", "cluster.nic_bandwidth=400Gbit/s")
    assert cluster_parameters(texts) == {"oversubscription": 7, "nic_bandwidth": 50e9}


def test_a_model_can_come_from_a_config_json(tmp_path: Path) -> None:
    config = """{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000}"""
    (tmp_path / "config.json").write_text(config)
    head = RUN[RUN.index("[cluster]") :]
    path = tmp_path / "run.toml"
    path.write_text(f'[model]\nhf_config = "config.json"\n{head}')
    run = load_run(str(path), ("model.num_layers=6",))
    assert (run.model.hidden_size, run.model.num_kv_heads, run.model.num_layers) == (64, 2, 6)
    for text, message in (("[1]", "must hold a JSON object"), ("{", "is not JSON")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InputError, match=message):
            load_run(str(path))
    with pytest.raises(InputError, match=r"nosuch\.json: No such file"):
        load_run(str(path), ("model.hf_config=nosuch.json",))


def test_documents_are_a_text_a_number_a_table_or_a_file_beside_the_run(run_file: Path) -> None:
    (run_file.parent / "lengths.csv").write_text("length,count\n128,3\n1024,1\n")
    stated = {
        "documents = 256": "256",
        'documents = "128:3,1024:1"': "128:3,1024:1",
        "documents = {128 = 3, 1024 = 1}": "128:3,1024:1",
        'documents = "file:lengths.csv"': f"file:{run_file.parent / 'lengths.csv'}",
    }
    for line, text in stated.items():
        run_file.write_text(f"{RUN}{line}\n")
        assert load_run(str(run_file)).plan.documents == text
    assert load_run(str(run_file), ["plan.documents=512"]).plan.documents == "512"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "2048",
            r"a document of 2048 tokens is longer than seq_len=1024; .* raise seq_len to 2048",
        ),
        ("128:-1", r"-1 documents of 128 tokens; a share or count must be 0 or more"),
        ("file:lost.csv", r"documents='file:lost.csv': No such file .*; give the path of a CSV"),
        ("[128]", r"plan.documents=\[128\] must be a text"),
    ],
)
def test_documents_that_cannot_be(run_file: Path, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_run(str(run_file), [f"plan.documents={value}"])
