"""No-CoT that is out of the GPU's memory the first times it is trained, and says in files how often it was.

It fails only once another row is being trained beside it, where it is told to wait for one.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from ruplar.methods import no_cot

PATIENCE = 60
"""Seconds; both rows start at once, but on a busy machine importing torch alone may take half a minute."""


class Config(no_cot.Config):
    """Settings of the method."""

    marks: str = Field("", description="Folder of the files.")
    name_of: str = Field("hungry", description="What its files are called.")
    fails: int = Field(0, description="How often it fails.")
    wait_for: str = Field("", description="File that it waits for before anything else.")


@dataclass
class Method(no_cot.Method):
    """See the module's docstring."""

    config: Config

    def loss(self, backbone, batch):
        """The loss of No-CoT, or the error."""
        import torch

        config, folder = self.config, Path(self.config.marks)
        if config.marks and self.training_begins():
            tries = len(list(folder.glob(f"{config.name_of}-*")))
            (folder / f"{config.name_of}-{tries + 1}").touch()
            end = time.monotonic() + PATIENCE
            while config.wait_for and not (folder / config.wait_for).exists():
                assert time.monotonic() < end, f"{config.wait_for} did not come"
                time.sleep(0.01)
            if tries < config.fails:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().loss(backbone, batch)

    def training_begins(self) -> bool:
        """True at the first call alone."""
        first = not getattr(self, "begun", False)
        self.begun = True
        return first
