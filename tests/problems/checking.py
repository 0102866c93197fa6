"""Generated problem → what is wrong with it, or None: the domain's own checks, and where each operand comes from."""

import re

from ruplar import plugins
from ruplar.domains.base import faults
from ruplar.problems.word_problems import FAMILIES
from ruplar.problems.word_problems.words import DIGIT_WORDS, WORDS

IMPLIED = {word: (value,) for value, word in enumerate(DIGIT_WORDS) if value >= 2} | WORDS["implied"]
for family in FAMILIES.values():
    IMPLIED = IMPLIED | family.constants


def fault(example, domain):
    """What is wrong with a chain by its domain: a step, the question it does not fit, its end; or a step that is not checked."""
    found = plugins.make("domains", domain)
    unread = [step for step in example.steps if found.unchecked(step)]
    if not example.steps or unread:
        return f"not checked: {unread}"
    if example.chain != " ".join(f"<<{step}>>" for step in example.steps):
        return "the chain does not spell out the steps"
    return next(iter(faults(found, example)), None)


def numbers(question):
    """The numbers of a question, in digits or as a word such as `twice` or `week`."""
    tokens = re.findall(r"\d+|[A-Za-z]+|%", question)
    return {n for token in tokens for n in ((int(token),) if token.isdigit() else IMPLIED.get(token.lower(), ()))}


def word_problem_fault(example):
    """The same of a word problem: also, operands are in the question or results, and each result but the last is used."""
    known, used, results = numbers(example.question), set(), []
    for step in example.steps:
        *operands, result = map(int, re.findall(r"\d+", step))
        if unknown := [n for n in operands if n not in known and n not in results]:
            return f"{unknown} in {step} is neither in the question nor a result"
        used.update(operands)
        results.append(result)
    if unused := set(results[:-1]) - used:
        return f"{unused} is never used"
    return fault(example, "arithmetic")
