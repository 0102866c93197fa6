"""Exported folders in plain transformers, in a process without ruplar: prompts, hard tokens, `custom_generate`, pipeline."""

from pathlib import Path

import pytest
from plain import run_without_ruplar

from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.evaluate.score import score
from ruplar.model.store import export_model
from ruplar.problems.word_problems import generate
from ruplar.reasoner import LatentReasoner

RELEASED = Path(__file__).parents[2] / "models" / "smollm2-135m-ruplar"
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
    return sum(score(text, e.answer, domain).correct for text, e in zip(ends, EXAMPLES, strict=True))


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
