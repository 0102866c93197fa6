"""`LatentTrainer`: any causal LM and any dataset, through the same code as `ruplar train`."""

import json
from multiprocessing import active_children

import numpy as np
import pytest
import torch
from cases import cases

from ruplar import LatentReasoner, LatentTrainer, TrainConfig, UserError, evaluate, load_recipe, train
from ruplar.config.training import METRICS as MEASURED
from ruplar.model import fold_lora
from ruplar.model.store import read_metadata
from ruplar.train import METRICS
from ruplar.train.progress import rows

ROWS = [
    {"question": f"Tom has {a} bags of {b} apples and eats {c}. How many?",
     "steps": [f"{a}*{b}={a * b}", f"{a * b}-{c}={a * b - c}"], "answer": a * b - c}
    for a in (3, 4, 5, 6) for b in (7, 8, 9) for c in (1, 2)
]  # fmt: skip
PLAIN = {"template": "plain", "instruction": "", "answer": "{answer}"}
LORA = {"rank": 2, "alpha": 4, "dropout": 0.0}
TRAINING = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1, "learning_rate": 1e-2}


def arguments(folder, **changes):
    defaults = {"output_dir": folder, "seed": 3, "prompt": PLAIN, "lora": LORA, "save_strategy": "no", **TRAINING}
    return TrainConfig(**defaults | changes)


@pytest.fixture
def tiny(tiny_model, byte_tokenizer):
    """A random Llama and a byte tokenizer, both in memory."""
    return {"model": tiny_model("llama", len(byte_tokenizer)), "tokenizer": byte_tokenizer, "device": "cpu"}


def losses(run):
    return [row["loss"] for row in rows(run / METRICS)]


@pytest.mark.slow
@pytest.mark.parametrize("lora", [LORA, None], ids=["adapter", "all weights"])
def test_a_model_in_memory_trains_answers_and_loads_again(tiny, tmp_path, monkeypatch, lora):
    args = arguments(tmp_path / "run", lora=lora, eval_strategy="no")
    trainer = LatentTrainer(**tiny, train_dataset=ROWS, eval_dataset=ROWS[:3], args=args)
    result = trainer.train()
    assert result.steps == 3 and result.rows == len(ROWS) - 3, "validation questions are not trained on"
    assert (result.trainable < result.parameters) == (lora is not None)
    [answer] = trainer.reasoner.ask(ROWS[5]["question"], return_latents=True)
    assert answer.forwards > 1
    metrics = trainer.evaluate(ROWS[:2])
    assert set(metrics) == {f"eval_{name}" for name in MEASURED}
    assert 0 <= metrics["eval_accuracy"] <= 1 and metrics.keys() == trainer.evaluate().keys()
    saved = trainer.save_model(tmp_path / "elsewhere" / "model")
    (tmp_path / "run").rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path / "elsewhere")
    [again] = LatentReasoner.from_pretrained(saved).ask(ROWS[5]["question"], return_latents=True)
    assert (again.text, again.latent_count) == (answer.text, answer.latent_count)
    for one, two in zip(again.latents, answer.latents, strict=True):
        assert one.probs == pytest.approx(two.probs, abs=1e-4)


@pytest.mark.slow
def test_the_losses_are_those_of_the_recipe_on_the_same_data(tiny, tmp_path):
    folder = tmp_path / "backbone"
    tiny["model"].save_pretrained(folder)
    tiny["tokenizer"].save_pretrained(folder)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    recipe = {
        "name": "same", "seed": 3, "backbone": {"name": str(folder), "lora": LORA}, "prompt": PLAIN,
        "data": {"train": str(tmp_path / "rows.jsonl")}, "method": "ruplar", "training": {"save_strategy": "no", **TRAINING},
    }  # fmt: skip
    (tmp_path / "same.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    train(tmp_path / "same.yaml", output=tmp_path / "recipe")
    LatentTrainer(folder, train_dataset=ROWS, args=arguments(tmp_path / "named"), device="cpu").train()
    LatentTrainer(**tiny, train_dataset=ROWS, args=arguments(tmp_path / "in_memory")).train()
    expected = losses(tmp_path / "recipe")
    assert len(expected) == 3 and expected[0] > expected[-1]
    assert losses(tmp_path / "named") == losses(tmp_path / "in_memory") == expected
    metadata = read_metadata(tmp_path / "named" / "model")
    assert metadata.backbone.name == str(folder) and metadata.method.name == "ruplar"


def test_chains_as_text_other_column_names_and_plugins_by_name_or_settings(tiny, tmp_path):
    texts = [" ".join(f"<<{step}>>" for step in row["steps"]) for row in ROWS]
    given = zip(ROWS, texts, strict=True)
    renamed = [{"problem": row["question"], "cot": text, "result": np.float64(row["answer"])} for row, text in given]
    prior = {"name": "mixture", "operand_share": 0.3}
    args = arguments(tmp_path / "run", method_args={"align_weight": 0.5}, prior=prior, spans="operation")
    columns = {"question": "problem", "steps": "cot", "answer": "result"}
    trainer = LatentTrainer(**tiny, train_dataset=renamed, args=args, columns=columns)
    assert [e.steps for e in trainer.run.data.train] == [tuple(r["steps"]) for r in ROWS]
    assert [e.answer for e in trainer.run.data.train] == [f"{r['answer']}.0" for r in ROWS]
    metadata = trainer.model.metadata
    assert metadata.method.settings["align_weight"] == 0.5 and metadata.prior.settings["operand_share"] == 0.3
    assert metadata.spans.name == "operation"
    assert TrainConfig().run_config("ruplar", "embedded", False).training["learning_rate"] == 3e-4


def test_a_method_without_steps_needs_none_and_a_run_is_resumed(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(fold_lora, "SMALL", 0)  # these layers are as small as those folded together
    plain = [{"question": r["question"], "answer": r["answer"]} for r in ROWS]
    args = arguments(tmp_path / "run", save_strategy="steps", save_steps=2, speed={"fold_lora": True})
    trainer = LatentTrainer(**tiny, method="no_cot", train_dataset=plain, args=args)
    trainer.train()
    model, ids = trainer.model.backbone.model.eval(), torch.arange(8)[None]
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
    torch.testing.assert_close(model(input_ids=ids).logits, wanted)  # not the folded ones of an earlier step
    with pytest.raises(UserError, match="contains a run already"):
        trainer.train()
    assert trainer.train(resume=True).resumed_from == tmp_path / "run" / "checkpoint-3"
    with pytest.raises(UserError, match="run: saving a model here would delete .*checkpoint-2.*run/final"):
        trainer.save_model(tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint-3").is_dir()


def test_after_training_neither_data_workers_nor_their_token_ids_stay(tiny, tmp_path):
    args = arguments(tmp_path / "run", prior="gumbel", dataloader_num_workers=2)
    trainer = LatentTrainer(**tiny, train_dataset=ROWS, args=args)
    trainer.train()
    assert not active_children() and trainer.model.backbone.prompt.plain.cached is None


def test_the_base_model_of_an_earlier_run_is_not_overwritten(tiny, tiny_model, tmp_path):
    LatentTrainer(**tiny, train_dataset=ROWS, args=arguments(tmp_path / "run"))
    before = (tmp_path / "run" / "backbone" / "model.safetensors").read_bytes()
    tiny["model"] = tiny_model("llama", len(tiny["tokenizer"]), seed=1)
    with pytest.raises(UserError, match="backbone: has another model than the one passed"):
        LatentTrainer(**tiny, train_dataset=ROWS, args=arguments(tmp_path / "run"))
    assert (tmp_path / "run" / "backbone" / "model.safetensors").read_bytes() == before


def test_a_hugging_face_dataset_is_a_dataset(tiny, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows_ = datasets.Dataset.from_list(ROWS)
    trainer = LatentTrainer(**tiny, train_dataset=rows_, args=arguments(tmp_path / "run"))
    assert [e.steps for e in trainer.run.data.train] == [tuple(r["steps"]) for r in ROWS]


def test_steps_without_a_result_are_told_as_by_data_check(tiny, tmp_path, caplog):
    prose = [ROWS[0] | {"steps": ["Tom has three bags"]}, *ROWS[1:]]
    LatentTrainer(**tiny, train_dataset=prose, args=arguments(tmp_path / "run"))
    assert "1 of the first 47 steps have no result (first: train_dataset[0] 'Tom has three bags'). The" in caplog.text


@pytest.mark.parametrize(("change", "message"), cases(__file__, "bad_rows"))
def test_a_bad_row_is_named_with_its_column(tiny, tmp_path, change, message):
    broken = [*ROWS[:2], ROWS[2] | change, *ROWS[3:]]
    with pytest.raises(UserError, match=message):
        LatentTrainer(**tiny, train_dataset=broken, args=arguments(tmp_path / "run"))


@pytest.mark.parametrize(("given", "message"), cases(__file__, "wrong_arguments"))
def test_wrong_arguments_are_refused_by_name(tiny, tmp_path, given, message):
    given = {name: ROWS if value == "ROWS" else value for name, value in given.items()}
    args = arguments(tmp_path / "run", **given.pop("args", {}))
    with pytest.raises(UserError, match=message):
        LatentTrainer(**{"train_dataset": ROWS, **tiny, **given}, args=args)


def test_the_public_functions_take_names_and_paths(tmp_path):
    found = evaluate("embedded", on="word-problems", limit=4)
    assert [(result.name, result.n) for result in found.results] == [("word-problems", 4)]
    with pytest.raises(UserError, match="unknown recipe 'ruplr'"):
        train("ruplr", output=tmp_path)
    assert load_recipe("embedded-ruplar", check_files=False).method.name == "ruplar"
