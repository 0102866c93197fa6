"""CoLaR with one group of tokens per step: ReGuLaR without its vision encoder and projector, so not ReGuLaR itself.

    P | <think> | z_1 .. z_N | </think> | answer eos        z_i = summed token embeddings of step i / √n

Each latent's position predicts one token of the step that follows, redrawn for every sample; a latent head predicts z_i.
"""

from dataclasses import dataclass, replace

from ruplar.methods._gaussian import GaussianConfig, GaussianMethod, summed
from ruplar.methods.base import Tools
from ruplar.types import Example, Item, SampleContext


class Config(GaussianConfig):
    """Settings of CoLaR with one group per step."""


@dataclass
class Method(GaussianMethod):
    """See the module's docstring."""

    config: Config

    @property
    def label(self) -> str:
        """The name in tables."""
        return "CoLaR with one group per step"

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        # differs from the paper: D54. Its prompt ends in "(Thinking speed: 1)", always the same and so left out
        prompt = tools.prompt(self.question(example.question, context))
        # differs from the paper: D55. Its step texts may contain markup; here the step without << and >>
        steps = [tools.encode(step) for step in example.steps]
        item = self.group_item(prompt, steps, example.answer, tools, context)
        # differs from the paper: D53. Its targets are projected features of a vision encoder
        return replace(item, priors=[summed(step) for step in steps])
