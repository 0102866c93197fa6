"""Model folders from elsewhere, places that cannot be written, and Ctrl-C → one sentence, never a traceback."""

import json
import resource
import shutil
from pathlib import Path

import pytest
from cases import cases
from safetensors.torch import load_file, save_file

from ruplar.errors import UserError
from ruplar.evaluate.record import read_record
from ruplar.model.store import find_model, load_model

RUN = Path(__file__).parents[1] / "results" / "main" / "RuPLaR-plus-seed1"


@pytest.mark.parametrize(("name", "change", "said"), cases(__file__, "damages"))
def test_a_damaged_model_folder_is_named(tmp_path, name, change, said):
    folder = tmp_path / "model"
    shutil.copytree(find_model("embedded:ruplar"), folder)
    file = folder / name
    text = json.dumps(json.loads(file.read_text()) | change) if isinstance(change, dict) else change
    file.write_text(text.replace("DEEP", "[" * 100_000))
    with pytest.raises(UserError) as error:
        load_model(folder)
    assert said in str(error.value) and str(folder) in str(error.value) and len(str(error.value)) < 1000


def test_a_nan_in_the_weights_is_named(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(find_model("embedded:ruplar"), folder)
    tensors = load_file(folder / "adapter_model.safetensors")
    name = sorted(tensors)[5]
    tensors[name].view(-1)[7] = float("nan")
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(UserError, match=f"{name} contains NaN"):
        load_model(folder)


def test_a_chat_template_and_a_config_that_fail_are_named(tmp_path):
    from ruplar.model.exported import export_model

    export_model("embedded:no_cot", tmp_path / "model")
    template = tmp_path / "model" / "chat_template.jinja"
    good = template.read_text()
    template.write_text(good.replace("{% endif %}", "{% enf %}", 1))
    with pytest.raises(UserError, match="chat template fails"):
        load_model(tmp_path / "model").prompt("3 bags of 4?")
    template.write_text(good)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "num_key_value_heads": "²"}))
    with pytest.raises(UserError, match="num_key_value_heads"):
        load_model(tmp_path / "model")


def test_a_backbone_of_another_shape_is_named(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(find_model("embedded:cot"), folder)
    config = json.loads((folder / "config.json").read_text())
    # with this width the model would take 4 TB: it is refused before anything is allocated
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 262_144}))
    with pytest.raises(UserError, match="cannot load '.*model': .* by config.json"):
        load_model(folder)


def test_evaluate_finds_out_that_it_cannot_write_before_it_loads_the_model(ruplar, monkeypatch):
    monkeypatch.setattr("ruplar.reasoner.LatentReasoner.from_pretrained", None)
    # only the check of the run itself
    monkeypatch.setattr("ruplar.cli.options.writable_folder", lambda folder: folder)
    said = ruplar("evaluate", "embedded:no_cot", "--on", "word-problems", "--output", "/proc/none/x")
    assert said.code == 2 and "/proc/none/x: cannot be created" in said.err.replace("\n", " ")


@pytest.mark.parametrize("words", cases(__file__, "places"))
def test_places_that_cannot_be_used_are_named_before_any_work(ruplar, words, tmp_path, monkeypatch):
    for work in ("report.page.write_page", "demo._show_thoughts", "model.exported.export_model"):
        monkeypatch.setattr(f"ruplar.{work}", None)
    said = ruplar(*(str(RUN) if word == "RUN" else word for word in words))
    assert said.code == 2 and said.err.startswith("ruplar: ") and "Traceback" not in said.err


@pytest.mark.slow
@pytest.mark.parametrize("words", cases(__file__, "full_disks"))
def test_a_full_disk_is_told_in_one_sentence(ruplar, words, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # a longer file fails as on a full disk
    try:
        said = ruplar(*(str(RUN) if word == "RUN" else word for word in words))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said.code == 2 and "File too large" in said.err.replace("\n", " ")
    assert not (tmp_path / "out" / "model").exists()


def test_ctrl_c_says_what_is_kept_and_how_to_resume(ruplar, monkeypatch, tmp_path):
    (tmp_path / "one.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    import ruplar.evaluate.benchmark as benchmark

    plain = benchmark.evaluate

    def stopped(reasoner, on, **more):
        if on[0].name == "word-problems":
            raise KeyboardInterrupt
        return plain(reasoner, on, **more)

    monkeypatch.setattr(benchmark, "evaluate", stopped)
    words = ("evaluate", "embedded:no_cot", "--on", "one.jsonl,word-problems", "--device", "cpu", "--output", "asked")
    said = ruplar(*words)
    assert said.code == 130 and "recorded in asked: one.jsonl" in said.err.replace("\n", " ")
    assert [result.name for result in read_record(tmp_path / "asked").benchmarks] == ["one.jsonl"]

    def interrupted(config, output, **more):
        (output / "checkpoint-2").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("ruplar.train.run.train", interrupted)
    monkeypatch.setattr("ruplar.train.checkpoint.latest", lambda run: run / "checkpoint-2")
    said = ruplar("train", "embedded-live", "--output", "run", "--device", "cpu")
    said_so = "run/checkpoint-2 is kept; repeat the command with --resume" in said.err.replace("\n", " ")
    assert said.code == 130 and said_so
