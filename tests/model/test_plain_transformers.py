"""Exported folders in plain transformers, in a process without ruplar: prompts and hard tokens."""

from pathlib import Path

import pytest
from plain import run_without_ruplar

from ruplar.evaluate.score import score
from ruplar.model.store import export_model
from ruplar.problems.word_problems import generate
from ruplar.reasoner import LatentReasoner

RELEASED = Path(__file__).parents[2] / "models" / "smollm2-135m-ruplar"
EXAMPLES = list(generate(100, 5))
QUESTIONS = [example.question for example in EXAMPLES]
LOAD = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

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
@pytest.mark.long
def test_the_exported_released_model_builds_its_own_prompts(tmp_path, request):
    request.getfixturevalue("smollm2")
    model = LatentReasoner.from_pretrained(RELEASED, dtype="float32").model
    export_model(RELEASED, tmp_path / "plain")
    questions = [*QUESTIONS[:5], "Question: 1250 hens and  375 ducks.\nHow many?", " Is it 12?"]
    prompts = run_without_ruplar(LOAD + "found = prompts\n", [str(tmp_path / "plain"), questions])
    expected = [model.prompt(question) for question in questions]
    assert prompts == [[*prompt.ids, model.backbone.think_id] for prompt in expected]
    again = LatentReasoner.from_pretrained(tmp_path / "plain").model
    assert [again.prompt(question) for question in questions] == expected
