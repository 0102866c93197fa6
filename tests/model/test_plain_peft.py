"""Adapters in plain PEFT: the released ones and those saved today load without ruplar and give the same logits and answers."""

import json
from pathlib import Path

import pytest
import torch
import toys
from plain import run_without_ruplar
from toys import LORA, PROMPT, moved, opened

from ruplar.model.fetch import folder_of
from ruplar.model.store import save_model
from ruplar.reasoner import LatentReasoner

MODELS = Path(__file__).parents[2] / "models"
QUESTIONS = [
    "Tom has 3 boxes with 12 pencils each. He gives 10 pencils to Anna. How many pencils has he left?",
    "A farm has 1250 hens and  375 ducks.\nHow many birds are there?",
    "Nina baked 4 trays of 9 rolls and sold ½ of them (٣٤٥ is no number of hers). How many are left?",
]
RELEASED = """
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base, folder, prompts, texts = given
tokenizer = AutoTokenizer.from_pretrained(base)
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)

tokenizer.add_tokens(list(json.load(open(f"{folder}/added_tokens.json"))))
model.resize_token_embeddings(len(tokenizer))
model = PeftModel.from_pretrained(model, folder).eval()

found = {"ids": [tokenizer.encode(text, add_special_tokens=False) for text in texts], "logits": [], "written": []}
for prompt in prompts:
    ids = torch.tensor([[*prompt, tokenizer.convert_tokens_to_ids("<think>")]])
    with torch.no_grad():
        found["logits"].append(model(input_ids=ids).logits[0, -1].tolist())
    made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=100, do_sample=False)
    found["written"].append(made[0, ids.shape[1] :].tolist())
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m-ruplar", pytest.param("smollm2-135m-cot", marks=pytest.mark.long)])
def test_a_released_adapter_loads_in_plain_peft_with_the_same_logits_and_answers(name, request):
    request.getfixturevalue("smollm2")  # skips, with the reason, where the backbone cannot be had
    reasoner = LatentReasoner.from_pretrained(MODELS / name, dtype="float32", engine="reference")
    backbone = reasoner.model.backbone
    prompts = [list(reasoner.model.prompt(question).ids) for question in QUESTIONS]
    given = [str(folder_of("smollm2-135m-instruct")), str(MODELS / name), prompts, QUESTIONS]
    found = run_without_ruplar(RELEASED, given)
    assert found["ids"] == [backbone.prompt.plain(question) for question in QUESTIONS]
    for prompt, theirs in zip(prompts, found["logits"], strict=True):
        with torch.no_grad():
            ours = backbone.model(input_ids=torch.tensor([[*prompt, backbone.think_id]])).logits[0, -1]
        torch.testing.assert_close(torch.tensor(theirs), ours, atol=2e-3, rtol=1e-4)
    if name.endswith("cot"):  # a written chain is what plain `generate` writes
        rows = reasoner.generate(QUESTIONS)
        assert found["written"] == [[*row.thought_ids, backbone.end_think_id, *row.answer_ids] for row in rows]
    config = json.loads((MODELS / name / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"


SAVED = """
import torch
from peft import AutoPeftModelForCausalLM

model = AutoPeftModelForCausalLM.from_pretrained(given[0], dtype=torch.float32).eval()
with torch.no_grad():
    found = model(input_ids=torch.tensor([given[1]])).logits[0, -1].tolist()
"""


@pytest.mark.slow
def test_an_adapter_with_added_tokens_saves_its_base_and_tokenizer_for_plain_peft(tmp_path, digit_base, monkeypatch):
    monkeypatch.setattr(toys, "PROMPT", PROMPT.model_copy(update={"template": "plain"}))
    model = moved(opened(name=str(digit_base), lora=LORA, number_tokens=True))
    assert len(model.backbone.added) == 2 + 1100
    save_model(tmp_path / "run", model)
    ids = [*model.prompt("Is 216 the 37?").ids, model.backbone.think_id]
    with torch.no_grad():
        ours = model.backbone.model(input_ids=torch.tensor([ids])).logits[0, -1]
    torch.testing.assert_close(
        torch.tensor(run_without_ruplar(SAVED, [str(tmp_path / "run"), ids])), ours, atol=1e-5, rtol=1e-5
    )


def test_an_adapter_on_merged_weights_names_their_run_and_one_on_the_packaged_model_no_base(tmp_path):
    save_model(tmp_path / "first", moved(opened("cot", name="embedded", lora=LORA)))
    save_model(tmp_path / "second", moved(opened(name="embedded", lora=LORA, init=str(tmp_path / "first"))))
    named = [json.loads((tmp_path / run / "adapter_config.json").read_text()) for run in ("first", "second")]
    assert [one["base_model_name_or_path"] for one in named] == [None, str(tmp_path / "first")]
