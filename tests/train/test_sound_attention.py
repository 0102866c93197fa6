"""cuDNN's attention is left out of training wherever its backward pass may give no number, and nowhere else."""

import pytest
import torch

from ruplar.train import run
from ruplar.train.arguments import sound_attention
from ruplar.train.run import train


@pytest.fixture(autouse=True)
def switch():
    """The switch as it was, after each test."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(
    ("width", "kept"), [(0, False), (64, False), (128, True), (192, False), (200, False), (256, True)]
)
def test_cudnn_attention_stays_on_for_multiples_of_128(width, kept):
    with sound_attention(width):
        assert torch.backends.cuda.cudnn_sdp_enabled() == kept
    assert torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize(("pack", "kept"), [(0, False), (128, True)])
def test_training_runs_with_sound_attention(config, tmp_path, monkeypatch, pack, kept):
    from ruplar.config import from_dict

    seen, plain = [], run._run
    monkeypatch.setattr(
        run, "_run", lambda *given: seen.append(torch.backends.cuda.cudnn_sdp_enabled()) or plain(*given)
    )
    train(from_dict({**config(max_steps=1).as_dict(), "speed": {"pack": pack}}), output=tmp_path / "run")
    assert seen == [kept] and torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (1, 128), (192, 192)])
def test_gradients_of_very_low_scores_are_finite(queries, keys):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 64, device="cuda", dtype=torch.bfloat16) * 0.1 for n in (queries, keys, keys))
    q[..., 0], k[..., 0] = 1.0, -120 * 8.0  # every score is about -120
    leaves = [one.requires_grad_() for one in (q, k, v)]
    mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)[None, None]
    with sound_attention(0):
        torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask).sum().backward()
    assert all(one.grad.isfinite().all() for one in leaves)
