"""The training section of a recipe as transformers gets it; cuDNN's attention only where its backward pass gives numbers."""

import pytest
import torch
from cases import cases

from ruplar.config import from_dict
from ruplar.errors import UserError
from ruplar.train import run
from ruplar.train.arguments import sound_attention, training_arguments
from ruplar.train.run import train


def arguments(tmp_path, validates=False, device="cpu", **section):
    return training_arguments(section, tmp_path, seed=7, device=device, validates=validates)


def test_arguments_are_passed_on_with_the_seed_of_the_run(tmp_path):
    args = arguments(tmp_path, learning_rate=0.5, logging_steps=3)
    assert (args.learning_rate, args.logging_steps, args.seed, args.data_seed) == (0.5, 3, 7, 7)
    assert args.report_to == [] and args.disable_tqdm and not args.logging_nan_inf_filter


@pytest.mark.parametrize(("section", "evaluated", "saved", "best"), cases(__file__, "saving"))
def test_the_best_model_is_loaded_where_every_validation_is_saved(tmp_path, section, evaluated, saved, best):
    args = arguments(tmp_path, validates=True, **section)
    assert (args.eval_strategy, args.save_strategy, args.save_steps) == (evaluated, *saved)
    assert args.load_best_model_at_end == best
    assert args.metric_for_best_model == "accuracy" and args.greater_is_better


@pytest.mark.parametrize(("section", "message"), cases(__file__, "refused"))
def test_what_cannot_work_is_refused_by_name(tmp_path, section, message):
    with pytest.raises(UserError, match=message):
        arguments(tmp_path, **section)


def test_a_missing_device_is_refused(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="would train on 'cpu'"):
        arguments(tmp_path, device="cuda")


@pytest.fixture
def switch():
    """The switch as it was, after each test."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(
    ("width", "kept"), [(0, False), (64, False), (128, True), (192, False), (200, False), (256, True)]
)
def test_cudnn_attention_stays_on_for_multiples_of_128(switch, width, kept):
    with sound_attention(width):
        assert torch.backends.cuda.cudnn_sdp_enabled() == kept
    assert torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize(("pack", "kept"), [(0, False), (128, True)])
def test_training_runs_with_sound_attention(switch, config, tmp_path, monkeypatch, pack, kept):
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
