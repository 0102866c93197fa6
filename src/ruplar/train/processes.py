"""Several training processes: FSDP2 as `accelerate launch` or `training.fsdp` asks for it, and the check of equal inputs.

Data parallelism (DDP) needs nothing from here. With FSDP2 each process stores a share of every weight, gradient and optimizer
state; a layer's weights are gathered while the layer runs.
"""

import os
import socket
from collections.abc import Mapping
from typing import Any

from accelerate import Accelerator, DistributedType
from accelerate.utils import FullyShardedDataParallelPlugin, disable_fsdp_ram_efficient_loading, gather_object
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import TrainingArguments
from transformers.training_args import ParallelMode

from ruplar.errors import UserError


def shards(args: TrainingArguments) -> bool:
    """Return whether this run shards its weights with FSDP2.

    Raises:
        UserError: Another kind of sharding was asked for.
    """
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true" or args.deepspeed:
        raise UserError("DeepSpeed is not supported. Use FSDP2 (use_fsdp with fsdp_version: 2), or plain DDP.")
    given = args.fsdp_plugin_args or {}
    if not args.fsdp and os.environ.get("ACCELERATE_USE_FSDP", "false").lower() != "true":
        return False
    version = given.get("fsdp_version", os.environ.get("FSDP_VERSION", "1"))
    if int(version) != 2:
        raise UserError(f"FSDP {version} is not supported. Set fsdp_version: 2 (accelerate), or training.fsdp: true.")
    if args.parallel_mode != ParallelMode.DISTRIBUTED:
        raise UserError("FSDP needs processes that a launcher starts: use `accelerate launch` or `torchrun`.")
    disable_fsdp_ram_efficient_loading()  # every process checks and adapts the whole model on the CPU before it is sharded
    return True


def set_up_sharding(accelerator: Accelerator, args: TrainingArguments) -> None:
    """Make accelerate shard as this trainer needs it, also on CPUs, for which accelerate itself only has DDP."""
    state = accelerator.state
    if state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin = FullyShardedDataParallelPlugin(**(args.fsdp_plugin_args or {}))
    plugin = state.fsdp_plugin
    plugin.auto_wrap_policy = transformer_auto_wrap_policy  # one unit per decoder layer
    plugin.state_dict_config = plugin.optim_state_dict_config = None  # of the type chosen before
    plugin.set_state_dict_type("SHARDED_STATE_DICT")
    # autocast chooses the precision, as without sharding; FSDP's own policy would cast priors and totals to bfloat16
    plugin.mixed_precision_policy = MixedPrecisionPolicy()


def check_equal_inputs(mine: Mapping[str, Any]) -> None:
    """Refuse to train if the processes differ in an input: data, start weights, recipe. All processes call it."""
    everyone = gather_object([(socket.gethostname(), dict(mine))])
    first_host, first = everyone[0]
    for rank, (host, other) in enumerate(everyone):
        differ = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        if differ:
            name = differ[0]
            raise UserError(
                f"{name}: process {rank} on {host} has {other.get(name, 'none')}, process 0 on {first_host} has "
                f"{first.get(name, 'none')}. Give every process the same files and recipe."
            )
