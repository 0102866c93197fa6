"""Runs the Triton kernels through Triton's interpreter on the CPU and holds them to the plain operators; one line a check.

Started by test_kernels.py in a process of its own, since the interpreter is chosen when Triton is imported.
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ruplar.engine.decoder import Decoder
from ruplar.engine.fused import read_weights
from ruplar.engine.layer_kernels import Between
from ruplar.engine.slot_state import HEAD, Markers, SlotState
from ruplar.engine.small_batch import FewRows, FusedDecision
from ruplar.engine.thinker import NoThinker, SoftThinker, TextThinker


def mend_interpreter() -> None:
    """Triton 3.6's interpreter makes loop bounds by int(array of one), which numpy has since stopped to allow."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    interpreter._patch_lang_tensor = patched


class Shell:
    """The parts of a backbone that reading weights needs."""

    def __init__(self, model):
        self.model = self.plain_model = model
        self.embedding, self.head = model.get_input_embeddings(), model.get_output_embeddings()
        self.head_dtype = model.dtype


def decoder_of(family: str, dtype: torch.dtype) -> Decoder:
    shape = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 80}
    extra = {"llama": {"mlp_bias": True}, "qwen3": {}, "qwen2": {}}[family] | {"head_dim": 16}
    config = AutoConfig.for_model(
        family,
        vocab_size=1500,
        num_key_value_heads=2,
        initializer_range=0.2,
        tie_word_embeddings=True,
        **shape,
        **extra,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            weight.data = weight.data + 0.3 * torch.randn_like(weight)
    return Decoder(read_weights(Shell(model)))


def check_step(family: str, dtype: torch.dtype) -> float:
    decoder = decoder_of(family, dtype)
    rows = FewRows.of(decoder, check=False)
    assert rows is not None
    return rows.difference()


def check_between(family: str) -> float:
    between = Between.of(decoder_of(family, torch.float32), check=False)
    assert between is not None
    return between.difference()


def check_decision(thinker, decoder: Decoder, seed: int) -> int:
    """Rows that differ between the kernels and the plain operators, from equal ledgers."""
    generator = torch.Generator().manual_seed(seed)
    kind = {SoftThinker: "soft", TextThinker: "text", NoThinker: "none"}[type(thinker)]
    books = [SlotState(decoder, thinker, kind, Markers(7, 9, 0), 6, 5) for _ in range(2)]
    header = torch.randint(0, 2, (6, HEAD), generator=generator)
    header[:, 2] = torch.randint(0, 4, (6,), generator=generator)  # made, up to the cap
    header[:, 3] = torch.randint(0, 5, (6,), generator=generator)
    header[:, 7] = 5
    header[:, 1] *= int(thinker.thinks)
    logits = 2.0 * torch.randn(6, 1500, generator=generator)
    logits[::2, 7] += 8.0  # some halt
    logits[1, 9] += 20.0  # some end
    assert FusedDecision.fits(books[1])
    if seed == 2:  # once a thinker: what the engine does when it starts on a GPU
        FusedDecision(books[1], decoder.weights.table).check()
    books[1].fused = FusedDecision(books[1], decoder.weights.table)
    for book in books:
        book.rows[:, :HEAD] = header
    at = slice(0, 6) if seed % 2 else torch.tensor([4, 0, 2, 1])
    given = logits[at]
    for book in books:
        book.decide(at, torch.zeros(len(given), 48), given, sampled=False, advance=bool(seed % 3))
    spare = [HEAD + 5, books[0].rows.shape[1] - 1]  # what lies there is nobody's
    for book in books:
        book.rows[:, spare] = 0
    same_rows = (books[0].rows == books[1].rows).all(1)
    fed = books[0].rows[:, 0] == 0  # what a finished row would feed is never read
    same_embeds = torch.isclose(books[0].embeds, books[1].embeds, atol=1e-5).flatten(1).all(1) | ~fed
    return int((~(same_rows & same_embeds)).sum())


@torch.inference_mode()
def main() -> None:
    mend_interpreter()
    for family in ("llama", "qwen2", "qwen3"):
        difference = check_step(family, torch.float32)
        sys.stdout.write(f"step {family} {difference:.2e}\n")
        assert difference < 1e-5, family
        between = check_between(family)
        sys.stdout.write(f"between {family} {between:.2e}\n")
        assert between < 1e-5, family
    decoder = decoder_of("llama", torch.float32)
    embedding = torch.nn.Embedding.from_pretrained(decoder.weights.table)
    soft = [{}, {"halt": "argmax"}, {"drop_halt": False}, {"harden": True}, {"top_k": 16}, {"halt_threshold": 0.001}]
    thinkers = [SoftThinker(embedding, 7, cap=3, **options) for options in soft]
    for number, thinker in enumerate([*thinkers, TextThinker(embedding, 7, cap=3), NoThinker()]):
        # rows by slice or by index, ahead or not: all four, then two
        for seed in range(6) if number == 0 else (2, 3):
            assert check_decision(thinker, decoder, seed) == 0, (thinker, seed)
        sys.stdout.write(f"decision {type(thinker).__name__} agrees\n")


if __name__ == "__main__":
    main()
