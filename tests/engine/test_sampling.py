import pytest
import torch

from ruplar.engine.sampling import Decoding, pick, uniforms
from ruplar.errors import UserError

LOGITS = torch.tensor([[0.5, 0.3, 0.2]]).log()


def at(u: float, temperature: float = 1.0, top_p: float = 1.0) -> int:
    return int(pick(LOGITS, temperature, top_p, torch.tensor([u])))


def test_greedy_takes_the_likeliest():
    assert int(pick(LOGITS, 0.0, 1.0, None)) == 0
    assert uniforms(Decoding(), [0, 1]) is None


def test_sampling_is_the_inverse_of_the_cumulative_distribution():
    # 0 holds [0, 0.5), 1 holds [0.5, 0.8), 2 the rest
    assert [at(u) for u in (0.0, 0.49, 0.51, 0.79, 0.81, 0.999)] == [0, 0, 1, 1, 2, 2]


def test_top_p_keeps_the_fewest_tokens_that_hold_it_and_renormalises():
    # 0.5 + 0.3 reach 0.7: token 2 is out, and 0 holds 0.5/0.8 = 0.625
    assert [at(u, top_p=0.7) for u in (0.62, 0.63, 0.999)] == [0, 1, 1]
    assert [at(u, top_p=1e-9) for u in (0.0, 0.999)] == [0, 0]


def test_temperature_sharpens_and_flattens():
    # squared: 0.25, 0.09, 0.04 of 0.38: token 0 holds 0.658
    assert [at(u, temperature=0.5) for u in (0.65, 0.67)] == [0, 1]
    # near zero it is greedy, also where 1 / temperature is infinite
    assert at(0.999, temperature=1e-3) == at(0.999, temperature=1e-320) == 0


def test_a_row_draws_from_its_seed_and_key_alone():
    decoding = Decoding(temperature=1.0, seed=5, max_answer_tokens=3)
    both, one = uniforms(decoding, [7, 9]), uniforms(decoding, [9])
    assert both.shape == (2, 3) and torch.equal(both[1], one[0])
    assert not torch.equal(both[0], both[1])
    assert not torch.equal(one, uniforms(Decoding(temperature=1.0, seed=6, max_answer_tokens=3), [9]))


def test_impossible_decoding_is_refused_all_at_once():
    with pytest.raises(UserError) as error:
        Decoding(temperature=-1, top_p=0, max_answer_tokens=0)
    assert len(error.value.problems) == 3 and "temperature" in str(error.value)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(
            UserError, match="temperature: must be 0 or more and finite.*\n.*noise: must be 0 or more and"
        ):
            Decoding(temperature=wrong, noise=wrong)
