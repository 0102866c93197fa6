"""Run the Triton kernels in Triton's interpreter on the CPU and compare them with PyTorch operators; one line per check.

test_kernels.py starts it in a process of its own, since the interpreter is chosen when Triton is imported.
"""

import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ruplar.engine import layer_kernels, small_batch
from ruplar.engine.decoder import Decoder
from ruplar.engine.fused import read_weights
from ruplar.engine.layer_kernels import LayerKernels
from ruplar.engine.slot_state import DONE, HEADER, LATENTS, LIMIT, THINKING, TOKENS, SlotState
from ruplar.engine.small_batch import FusedDecision, SmallBatchKernels
from ruplar.engine.thinker import NoThinker, SoftThinker, TextThinker
from ruplar.types import Markers


def patch_interpreter() -> None:
    """Make loop bounds work: Triton 3.6's interpreter converts arrays of one element by int(), which numpy now refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    interpreter._patch_lang_tensor = patched


class Shell:
    """The parts of a backbone that `read_weights` needs."""

    def __init__(self, model):
        self.model = self.plain_model = model
        self.embedding, self.head = model.get_input_embeddings(), model.get_output_embeddings()
        self.head_dtype = model.dtype


def decoder_of(family: str, dtype: torch.dtype) -> Decoder:
    layers = 2 if family == "llama" else 1  # the interpreter is slow
    shape = {"hidden_size": 48, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 80}
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
    kernels = SmallBatchKernels.of(decoder_of(family, dtype), check=False)
    assert kernels is not None
    return kernels.difference()


def check_layer(family: str) -> float:
    kernels = LayerKernels.of(decoder_of(family, torch.float32), check=False)
    assert kernels is not None
    return kernels.difference()


def check_decision(thinker, decoder: Decoder, seed: int) -> int:
    """Number of rows that differ between the kernels and PyTorch operators, from equal states."""
    generator = torch.Generator().manual_seed(seed)
    kind = {SoftThinker: "soft", TextThinker: "text", NoThinker: "none"}[type(thinker)]
    plain, fused = (SlotState(decoder, thinker, kind, Markers(6, 7, 9), 0, 6, 5) for _ in range(2))
    header = torch.randint(0, 2, (6, HEADER), generator=generator)
    header[:, LATENTS] = torch.randint(0, 4, (6,), generator=generator)  # up to the cap
    header[:, TOKENS] = torch.randint(0, 5, (6,), generator=generator)
    header[:, LIMIT] = 5
    header[:, THINKING] *= int(thinker.thinks)
    logits = 2.0 * torch.randn(6, 1500, generator=generator)
    logits[::2, 7] += 8.0  # some halt
    logits[1, 9] += 20.0  # some end
    small_batch.PIECE = 64 if seed % 2 else 256  # more pieces than the largest top_k, or fewer
    assert FusedDecision.fits(fused)
    decision = FusedDecision(fused, decoder)
    if seed == 2:  # once per thinker: what the engine does at its start on a GPU
        decision.check()
    fused.fused = decision
    at = slice(0, 6) if seed % 2 else torch.tensor([4, 0, 2, 1])
    given = logits.half()[at]
    # a gap between rows, as of a padded head
    raw = torch.cat([given, 50.0 + given], 1)[:, :1500] if seed % 2 else given
    for state, found in ((plain, given.float()), (fused, raw)):
        state.rows[:, :HEADER] = header
        state.decide(at, torch.zeros(len(given), 48), found, sampled=False, advance=bool(seed % 3))
        state.rows[:, [HEADER + 5, state.rows.shape[1] - 1]] = 0  # the spare columns
    same_rows = (plain.rows == fused.rows).all(1)
    active = plain.rows[:, DONE] == 0  # the next input of a finished row is never used
    same_embeds = torch.isclose(plain.embeds, fused.embeds, atol=1e-5).all(1) | ~active
    return int((~(same_rows & same_embeds)).sum())


@torch.inference_mode()
def main() -> None:
    patch_interpreter()
    layer_kernels.CACHE_TILE = 512  # 32 columns in a tile, so that attention reads several
    for family in ("llama", "qwen2", "qwen3"):
        difference = check_step(family, torch.float32)
        sys.stdout.write(f"step {family} {difference:.2e}\n")
        assert difference < 1e-5, family
        difference = check_layer(family)
        sys.stdout.write(f"layer {family} {difference:.2e}\n")
        assert difference < 1e-5, family
    decoder = decoder_of("llama", torch.float32)
    embedding = torch.nn.Embedding.from_pretrained(decoder.weights.table)
    soft = [{}, {"halt": "argmax"}, {"drop_halt": False}, {"harden": True}, {"top_k": 16}, {"halt_threshold": 0.001}]
    thinkers = [SoftThinker(embedding, 7, cap=3, **options) for options in soft]
    text = [TextThinker(embedding, end, cap=3) for end in (7, -1)]  # -1: nothing ends the chain, as in the benchmarks
    for number, thinker in enumerate([*thinkers, *text, NoThinker()]):
        # rows by slice or index, advancing or not: all four combinations, then two
        for seed in range(6) if number == 0 else (2, 3):
            assert check_decision(thinker, decoder, seed) == 0, (thinker, seed)
        sys.stdout.write(f"decision {type(thinker).__name__} agrees\n")


if __name__ == "__main__":
    main()
