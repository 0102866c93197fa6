"""lm-evaluation-harness with `--model ruplar`: its generation tasks, answered by `LatentReasoner` with soft tokens.

    lm_eval --model ruplar --model_args pretrained=FOLDER --tasks benchmarks/lm_eval/ruplar_gsm8k.yaml
    python -m ruplar.evaluate.lm_eval --model ruplar --model_args pretrained=FOLDER --tasks TASK

Importing this module registers the model. lm-eval has no entry points, but it imports the functions that a task file names
before it looks for the model, so a file with `questions` or `grade` needs no more; the second command is for other tasks. A
task's prompt is the question: the model adds its own prompt format, also with --apply_chat_template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar import plugins
from ruplar.domains import base
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError, install_extra
from ruplar.evaluate.question_sets import open_questions
from ruplar.reasoner import LatentReasoner

try:
    import lm_eval.models  # noqa: F401  its own models, which it registers only while there are none
    from lm_eval.api.model import LM
    from lm_eval.api.registry import model_registry
except ImportError as error:
    raise UserError(f"lm-eval is not installed. {install_extra('lm-eval')}") from error

_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_KNOWN = {*_LIMITS, "until", "do_sample", "temperature", "top_p", "seed"}


if "ruplar" not in model_registry:  # by name, since `python -m` imports this module twice
    model_registry.register("ruplar", target="ruplar.evaluate.lm_eval:RuplarLM")


class RuplarLM(LM):
    """A ruplar model as lm-eval sees it; the arguments are those of --model_args, --batch_size and --device."""

    def __init__(
        self,
        pretrained: str = "",
        device: str | None = None,
        dtype: str = "auto",
        batch_size: int | str = 64,
        max_gen_toks: int = 64,
        max_batch_size: int | None = None,
    ):
        import torch

        super().__init__()
        if not pretrained:
            raise UserError("--model_args: no model given. Use pretrained=FOLDER, or pretrained=embedded.")
        if not str(batch_size).isdigit() or int(batch_size) < 1:
            raise UserError(f"--batch_size: '{batch_size}' is not a whole number of at least 1.")
        self.batch_size, self.max_gen_toks, self.pretrained = int(batch_size), max_gen_toks, pretrained
        if device is None or (device.startswith("cuda") and not torch.cuda.is_available()):
            device = "cuda" if torch.cuda.is_available() else "cpu"  # lm-eval's default is cuda:0 on every machine
        self.reasoner = LatentReasoner.from_pretrained(pretrained, device, dtype)

    @property
    def tokenizer_name(self) -> str:
        return self.pretrained

    def apply_chat_template(
        self, chat_history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Return the question of a single user message; the model adds its own prompt format."""
        if [message["role"] for message in chat_history] != ["user"]:
            raise UserError(
                "--apply_chat_template: this model answers a single user message. Leave out --system_instruction and "
                "--fewshot_as_multiturn, and set --num_fewshot 0."
            )
        return chat_history[0]["content"]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Answer each request's question; requests with equal generation settings share batches."""
        groups: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(place)
        texts = [""] * len(requests)
        for places in groups.values():
            settings = requests[places[0]].args[1]
            questions = [requests[place].args[0] for place in places]
            how = decoding_of(settings, self.max_gen_toks)
            found = self.reasoner.ask(questions, decoding=how, batch_size=self.batch_size)
            for place, answer in zip(places, found, strict=True):
                texts[place] = _cut(answer.text, settings.get("until") or ())
                self.cache_hook.add_partial("generate_until", requests[place].args, texts[place])
        return texts

    def loglikelihood(self, requests: list[Any]) -> Any:
        raise UserError(
            f"loglikelihood: not supported, because {self.pretrained} thinks before it answers. Choose "
            "tasks with output_type: generate_until."
        )

    loglikelihood_rolling = loglikelihood


def decoding_of(settings: Mapping[str, Any], max_gen_toks: int) -> Decoding:
    """A task's generation settings → `Decoding`; settings that would have no effect are refused."""
    unknown = sorted(settings.keys() - _KNOWN)
    if unknown:
        raise UserError(f"generation_kwargs: {unknown} are not supported. Known: {', '.join(sorted(_KNOWN))}.")
    limit = next((settings[name] for name in _LIMITS if settings.get(name) is not None), max_gen_toks)
    sampled = settings.get("do_sample", "temperature" in settings)
    temperature = settings.get("temperature", 1.0) if sampled else 0.0
    return Decoding(float(temperature), float(settings.get("top_p", 1.0)), int(settings.get("seed", 0)), int(limit))


def _cut(text: str, until: str | Sequence[str]) -> str:
    for stop in [until] if isinstance(until, str) else until:
        text = text.split(stop)[0] if stop else text
    return text


def questions(source: str, domain: str = "arithmetic", **_: Any) -> dict[str, Any]:
    """Known set or file → the `test` split of a task: the questions that `ruplar evaluate --on SOURCE` asks.

    A task names it as `custom_dataset`; the arguments are its `metadata`, or lm-eval's --metadata.
    """
    from datasets import Dataset

    [found] = open_questions([source], plugins.make("domains", domain))
    rows = [{"question": e.question, "answer": e.answer, "domain": domain} for e in found.examples]
    return {"test": Dataset.from_list(rows)}


def grade(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Answer of a question of `questions` → its score, by the rule of `ruplar evaluate`; a task's `process_results`."""
    return {
        "exact_match": float(base.grade(results[0], doc["answer"], plugins.make("domains", doc["domain"])).correct)
    }


def main() -> None:
    """Start lm-eval's command line."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
