"""CODI: sequences of student and teacher, their distance; training and inference use the same latents."""

from types import SimpleNamespace

import pytest
import torch
from overfitting import problems, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.methods.codi import distance
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, then times 2?", ("3+4=7", "7*2=14"), "14")


def codi(backbone, **settings):
    method = plugins.make("methods", "codi", settings)
    method.attach(backbone)
    return method


def batch_of(backbone, method, examples):
    tools = tools_of(backbone)
    return collate([method.encode(e, tools, SampleContext(0, i)) for i, e in enumerate(examples)], backbone.pad_id)


def test_student_and_teacher_have_the_same_question_and_answer_and_the_teacher_all_steps_but_the_last(backbone):
    tools = tools_of(backbone)
    item = plugins.make("methods", "codi", {"latents": 3}).encode(EXAMPLE, tools, SampleContext(0, 0))
    [teacher] = item.also["teacher"]
    prompt, answer = list(tools.prompt(EXAMPLE.question).ids), tools.answer("14")
    head = [*prompt, backbone.think_id]  # the student's alone
    text, close = tools.encode("<<3+4=7>>"), backbone.end_think_id
    assert item.ids == [*head, *[backbone.think_id] * 3, close, *answer]
    assert item.labels == [-100] * (len(head) + 4) + answer
    assert item.latent_at == [len(head), len(head) + 1, len(head) + 2]
    assert teacher.ids == [*prompt, *text, close, *answer]
    assert teacher.labels == [-100] * len(prompt) + [*text, close, *answer]
    # the answer is the number alone, so the token before it is </think>
    assert item.ids[item.mark_at[0]] == teacher.ids[teacher.mark_at[0]] == close
    whole = plugins.make("methods", "codi", {"include_last_step": True}).encode(EXAMPLE, tools, SampleContext(0, 0))
    assert whole.also["teacher"][0].ids == [*prompt, *tools.encode("<<3+4=7>> <<7*2=14>>"), close, *answer]


@pytest.mark.parametrize("answer", ["14", "-5", "1", "2.5", "21"])
def test_the_mark_is_the_last_token_before_the_answer_proper(backbone, answer):
    def boxed(text):  # `\boxed{` as four ids, then one per character
        return [1, 2, 3, 4, *(100 + ord(c) for c in text), 5, backbone.eos_id]

    tools = tools_of(backbone)
    item = plugins.make("methods", "codi").encode(
        Example("3+4?", ("3+4=7",), answer),
        SimpleNamespace(
            prompt=tools.prompt, encode=tools.encode, answer=boxed, think_id=backbone.think_id,
            end_think_id=backbone.end_think_id,
        ),
        SampleContext(0, 0),
    )  # fmt: skip
    [teacher] = item.also["teacher"]
    for one in (item, teacher):
        at = one.mark_at[0]
        assert one.ids[at - 3 : at + 1] == [1, 2, 3, 4] and one.ids[at + 1] == 100 + ord(answer[0])


def test_the_distance_is_smooth_l1_over_the_teachers_spread_in_each_layer():
    teacher = torch.tensor([[[0.0, 2.0]], [[0.0, 20.0]]])  # two layers, one row, two features
    student = torch.tensor([[[0.5, 2.0]], [[3.0, 20.0]]])
    # layer 1: 0.5²/2 over 2 features = 0.0625, spread √2; layer 2: (3 - 0.5)/2 = 1.25, spread 10·√2
    wanted = (0.0625 / 2**0.5 + 1.25 / 200**0.5) / 2
    assert distance(student, teacher, torch.tensor(1.0)).item() == pytest.approx(wanted)
    assert distance(student, teacher, torch.tensor(4.0)).item() == pytest.approx(wanted / 4)
    assert distance(teacher, teacher, torch.tensor(1.0)).item() == 0


def test_loss_and_gradient_are_those_of_whole_sequences_one_row_at_a_time(backbone):
    method, tools, examples = codi(backbone, latents=3), tools_of(backbone), problems(4)
    weights, said, marked = [*backbone.model.parameters(), *method.projector.parameters()], ([], []), ([], [])

    def read(inputs, answer, kind):
        hidden, layers = backbone.trunk(inputs[None], None, torch.arange(len(inputs))[None], all_layers=True)
        logits = backbone.logits(hidden[0, -1 - len(answer) : -1])
        said[kind].append(torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="none"))
        return torch.stack([layer[0] for layer in layers])

    for example in examples:
        prompt, answer = list(tools.prompt(example.question).ids), tools.answer(example.answer)
        chain = tools.encode(" ".join(f"<<{step}>>" for step in example.steps[:-1]))
        close = len(answer) + 1
        taught = backbone.embedding(torch.tensor([*prompt, *chain, backbone.end_think_id, *answer]))
        marked[1].append(read(taught, [*chain, backbone.end_think_id, *answer], 1)[:, -close].detach())
        fed = backbone.embedding(torch.tensor([*prompt, backbone.think_id]))
        for _ in range(3):
            hidden, _ = backbone.trunk(fed[None], None, torch.arange(len(fed))[None])
            fed = torch.cat([fed, method.projector(hidden[0, -1:])])
        fed = torch.cat([fed, backbone.embedding(torch.tensor([backbone.end_think_id, *answer]))])
        marked[0].append(read(fed, answer, 0)[:, -close])
    ours, theirs = torch.stack(marked[0], 1), torch.stack(marked[1], 1)  # [layers, rows, width]
    spread = theirs.flatten(1).std(1).clamp_min(1e-6)
    gap = (torch.nn.functional.smooth_l1_loss(ours, theirs, reduction="none").mean((1, 2)) / spread).mean()
    wanted = torch.cat(said[0]).mean() + torch.cat(said[1]).mean() + 20 * gap
    found = method.loss(backbone, batch_of(backbone, method, examples)).total
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    pairs = list(zip(*(torch.autograd.grad(total, weights) for total in (found, wanted)), strict=True))
    assert all((a - b).norm() < 1e-3 * b.norm() + 1e-5 for a, b in pairs), "the teacher is not trained by the distance"
    assert all(b.norm() > 0 for _, b in pairs)


def test_each_loss_part_has_its_weight_and_totals(backbone):
    method = codi(backbone)
    batch = batch_of(backbone, method, problems(3))
    one = {name: part.item() for name, part in method.loss(backbone, batch).parts.items()}
    assert list(one) == ["answer", "teacher", "distill"]
    method.config = method.config.model_copy(
        update={"answer_weight": 2.0, "teacher_weight": 0.5, "distill_weight": 5.0}
    )
    two = {name: part.item() for name, part in method.loss(backbone, batch).parts.items()}
    assert two == pytest.approx(
        {"answer": 2 * one["answer"], "teacher": one["teacher"] / 2, "distill": one["distill"] / 4}
    )
    taught = batch.also["teacher"]
    assert taught.totals.tolist()[:2] == [len(taught.label_ids), 0]
    assert batch.totals.tolist()[:2] == [len(batch.label_ids), 3]
    taught.totals = taught.totals * 2
    assert method.loss(backbone, batch).parts["teacher"].item() == pytest.approx(two["teacher"] / 2)
