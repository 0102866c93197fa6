"""What users of transformers and PEFT alone see: exported folders and adapters, in a process that cannot import ruplar."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import toys
from toys import LORA, PROMPT, moved, opened

from ruplar.domains.base import grade
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.model.exported import export_model
from ruplar.model.fetch import folder_of
from ruplar.model.store import save_model
from ruplar.problems.word_problems import generate
from ruplar.reasoner import LatentReasoner

MODELS = Path(__file__).parents[2] / "models"
_ALONE = "import json, sys\nsys.modules['ruplar'] = None\ngiven = json.loads(sys.stdin.read())\n"


def run_without_ruplar(script: str, given: Any) -> Any:
    """Run `script`, which reads the variable `given` and sets `found` → its `found`."""
    code = f"{_ALONE}{script}\nprint('\\nFOUND' + json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.split("\nFOUND")[1])


# exported folders in transformers

RELEASED = MODELS / "smollm2-135m-ruplar"
EXAMPLES = list(generate(100, 5))
QUESTIONS = [example.question for example in EXAMPLES]
LOAD = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

folder, questions = given
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
turns = [[{"role": "user", "content": question}] for question in questions]
inputs = tokenizer.apply_chat_template(
    turns, add_generation_prompt=True, return_dict=True, return_tensors="pt", padding=True
)
width = inputs["input_ids"].shape[1]
prompts = [ids[mask.bool()].tolist() for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"])]
"""
HARD = """
made = model.generate(**inputs, do_sample=False)[:, width:]
found = [prompts, [text.split("</think>")[-1] for text in tokenizer.batch_decode(made)]]
"""
SOFT = """
loads = {"custom_generate": folder, "trust_remote_code": True}
made = model.generate(**inputs, **loads, do_sample=False, max_new_tokens=64)
end, close = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("</think>")
answers, thoughts = [], []
for row in made[:, width:].tolist():
    cut = row.index(close)
    thoughts.append(row[:cut].count(tokenizer.convert_tokens_to_ids("<think>")))
    answer = row[cut + 1 :]
    answers.append(answer[: answer.index(end) + 1] if end in answer else answer)
shown = model.generate(**{k: v[:2] for k, v in inputs.items()}, **loads, show_thought=True)
ask = pipeline("text-generation", model=folder, tokenizer=tokenizer, dtype=torch.float32, trust_remote_code=True)
said = [ask(turn, return_full_text=False)[0]["generated_text"] for turn in turns[:5]]
found = [prompts, answers, thoughts, said, tokenizer.batch_decode(shown[:, width:])]
"""


def right(texts: list[str], domain) -> int:
    ends = [text.split("<|end|>")[0] for text in texts]
    return sum(grade(text, e.answer, domain).correct for text, e in zip(ends, EXAMPLES, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ruplar", pytest.param("cot", marks=pytest.mark.long), pytest.param("no_cot", marks=pytest.mark.long)]
)
def test_the_exported_chat_template_gives_the_prompts_of_training_and_plain_generate_answers(tmp_path, name):
    reasoner = LatentReasoner.from_pretrained(f"embedded:{name}")
    model = reasoner.model
    export_model(f"embedded:{name}", tmp_path / "plain")
    prompts, answers = run_without_ruplar(LOAD + HARD, [str(tmp_path / "plain"), QUESTIONS])
    opening = [model.backbone.think_id] + [model.backbone.end_think_id] * (name == "no_cot")
    assert prompts == [[*model.prompt(question).ids, *opening] for question in QUESTIONS]
    ours = right([answer.text for answer in reasoner.ask(QUESTIONS)], model.domain)
    theirs = right(answers, model.domain)
    # hard tokens lose a little where the model thinks in mixtures; otherwise they are what the model does itself
    assert theirs >= ours - 10 if name == "ruplar" else theirs == ours
    again = LatentReasoner.from_pretrained(tmp_path / "plain")
    assert again.model.prompt(QUESTIONS[0]) == model.prompt(QUESTIONS[0])


@pytest.mark.slow
def test_custom_generate_thinks_token_for_token_as_the_engine_and_pipeline_answers_with_it(tmp_path):
    reasoner = LatentReasoner.from_pretrained("embedded:ruplar", engine="reference")
    export_model("embedded:ruplar", tmp_path / "plain", with_generate=True)
    found = run_without_ruplar(LOAD + SOFT, [str(tmp_path / "plain"), QUESTIONS])
    _, answers, thoughts, said, shown = found
    rows = reasoner.generate(QUESTIONS, decoding=Decoding(max_answer_tokens=64), batch_size=100)
    assert answers == [row.answer_ids for row in rows]
    assert thoughts == [row.latent_count for row in rows] and len(set(thoughts)) > 1
    asked = reasoner.ask(QUESTIONS[:5], return_latents=True)
    assert [text.strip() for text in said] == [answer.text for answer in asked]
    top = "".join(latent.tokens[0] for latent in asked[0].latents)
    assert shown[0].replace("<|pad|>", "").startswith(f"{top}</think>{asked[0].text}")


@pytest.mark.slow
@pytest.mark.long
def test_the_released_model_thinks_in_plain_transformers_from_its_own_prompts(tmp_path, request):
    request.getfixturevalue("smollm2")
    reasoner = LatentReasoner.from_pretrained(RELEASED, dtype="float32", engine="reference")
    export_model(RELEASED, tmp_path / "plain", with_generate=True)
    questions = [*QUESTIONS[:5], "Question: 1250 hens and  375 ducks.\nHow many?", " Is it 12?"]
    prompts, answers, *_ = run_without_ruplar(LOAD + SOFT, [str(tmp_path / "plain"), questions])
    think = reasoner.model.backbone.think_id
    assert prompts == [[*reasoner.model.prompt(question).ids, think] for question in questions]
    assert answers == [row.answer_ids for row in reasoner.generate(questions)]
    again = LatentReasoner.from_pretrained(tmp_path / "plain")
    assert all(again.model.prompt(question) == reasoner.model.prompt(question) for question in questions)


def test_custom_generate_is_refused_where_the_model_does_not_think_in_soft_tokens(tmp_path):
    with pytest.raises(UserError, match="'cot' does not think in soft tokens"):
        export_model("embedded:cot", tmp_path / "plain", with_generate=True)
    assert not (tmp_path / "plain").exists()


# adapters in PEFT

ASKED = [
    "Tom has 3 boxes with 12 pencils each. He gives 10 pencils to Anna. How many pencils has he left?",
    "A farm has 1250 hens and  375 ducks.\nHow many birds are there?",
    "Nina baked 4 trays of 9 rolls and sold ½ of them (٣٤٥ is no number of hers). How many are left?",
]
ADAPTER = """
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
    prompts = [list(reasoner.model.prompt(question).ids) for question in ASKED]
    given = [str(folder_of("smollm2-135m-instruct")), str(MODELS / name), prompts, ASKED]
    found = run_without_ruplar(ADAPTER, given)
    assert found["ids"] == [backbone.prompt.plain(question) for question in ASKED]
    for prompt, theirs in zip(prompts, found["logits"], strict=True):
        with torch.no_grad():
            ours = backbone.model(input_ids=torch.tensor([[*prompt, backbone.think_id]])).logits[0, -1]
        torch.testing.assert_close(torch.tensor(theirs), ours, atol=2e-3, rtol=1e-4)
    if name.endswith("cot"):  # a written chain is what plain `generate` writes
        rows = reasoner.generate(ASKED)
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
    found = torch.tensor(run_without_ruplar(SAVED, [str(tmp_path / "run"), ids]))
    torch.testing.assert_close(found, ours, atol=1e-5, rtol=1e-5)


def test_an_adapter_on_merged_weights_names_their_run_and_one_on_the_packaged_model_no_base(tmp_path):
    save_model(tmp_path / "first", moved(opened("cot", name="embedded", lora=LORA)))
    save_model(tmp_path / "second", moved(opened(name="embedded", lora=LORA, init=str(tmp_path / "first"))))
    named = [json.loads((tmp_path / run / "adapter_config.json").read_text()) for run in ("first", "second")]
    assert [one["base_model_name_or_path"] for one in named] == [None, str(tmp_path / "first")]
