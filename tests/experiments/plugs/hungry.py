"""No-CoT that is out of the GPU's memory the first times it is trained, and counts in files how often it was."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from ruplar.methods import no_cot


class Config(no_cot.Config):
    """Settings of the method."""

    marks: str = Field("", description="Folder of the files.")
    fails: int = Field(0, description="How often it fails.")


@dataclass
class Method(no_cot.Method):
    """See the module's docstring."""

    config: Config

    def loss(self, backbone, batch):
        """The loss of No-CoT, or the error."""
        import torch

        tries = len(list(Path(self.config.marks).glob("try-*")))
        if self.config.marks and tries < self.config.fails:
            (Path(self.config.marks) / f"try-{tries + 1}").touch()
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().loss(backbone, batch)
