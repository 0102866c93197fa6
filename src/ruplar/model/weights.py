"""Backbone and a method's own weights ↔ safetensors files in a folder; nothing is ever unpickled.

adapter_model.safetensors + adapter_config.json   if the backbone has a LoRA adapter, or
model.safetensors + config.json                   if all its weights are trained
method.safetensors                                the method's own modules, if it has any
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone

ADAPTER, ADAPTER_CONFIG, EXTRA = "adapter_model.safetensors", "adapter_config.json", "method.safetensors"


def save_weights(
    backbone: Backbone,
    extra: Mapping[str, nn.Module],
    folder: Path,
    dtype: torch.dtype | None = None,
    base: str | None = None,
    write: bool = True,
) -> None:
    """Write the method's own weights and the adapter on the model named `base`; without an adapter the whole model.

    Every process of a sharded run (FSDP) calls it, to gather the weights; only one has `write` set.
    """
    adapted = hasattr(backbone.model, "peft_config")
    if adapted:
        weights = _stored(_adapter(backbone.model), dtype)
    else:
        weights = _stored(backbone.model.state_dict(keep_vars=True), dtype, copies=False)
    own = _stored(_flat(extra), dtype)
    if not write:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if adapted:
        config = copy.copy(backbone.model.peft_config["default"])
        config.inference_mode = True  # as PEFT itself writes it, so that its own loader reads the folder
        config.base_model_name_or_path = base  # PEFT's own choice is a path of this machine
        config.save_pretrained(str(folder))
        save_file(weights, folder / ADAPTER, metadata={"format": "pt"})
    else:
        backbone.model.save_pretrained(folder, state_dict=weights)
        if dtype is not None:
            _note_dtype(folder / "config.json", dtype)
    if extra:
        save_file(own, folder / EXTRA, metadata={"format": "pt"})
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # safetensors makes files readable for the owner only


def load_weights(backbone: Backbone, extra: Mapping[str, nn.Module], folder: Path) -> None:
    """Load what `save_weights` wrote into a model of the same shape; each weight keeps the model's precision.

    A plain model given an adapter's folder gets that adapter, frozen, for inference.
    """
    if (folder / ADAPTER_CONFIG).is_file():
        _load_adapter(backbone, folder)
    elif hasattr(backbone.model, "peft_config"):
        raise UserError(f"{folder}: has no adapter ({ADAPTER_CONFIG}), but the model has one. Is it from another run?")
    else:
        _load_whole(backbone, folder)
    if extra:
        load_method_weights(extra, folder)


def load_method_weights(extra: Mapping[str, nn.Module], folder: Path) -> None:
    found = _read(folder / EXTRA)
    _check({name: tensor.shape for name, tensor in _flat(extra).items()}, found, folder / EXTRA)
    found = _placed(found, _flat(extra))
    for name, module in extra.items():
        prefix = f"{name}."
        module.load_state_dict({k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)})


def _adapter(model: nn.Module) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(model, save_embedding_layers=False)


def _load_adapter(backbone: Backbone, folder: Path) -> None:
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict

    found = _read(folder / ADAPTER)
    if not hasattr(backbone.model, "peft_config"):
        config = PeftConfig.from_pretrained(str(folder))
        config.base_model_name_or_path = backbone.model.name_or_path  # avoids PEFT's warning about a moved model
        try:
            backbone.set_model(get_peft_model(backbone.model, config))
        except ValueError as error:
            raise UserError(f"{folder / ADAPTER_CONFIG}: does not fit this model: {error}") from error
    expected = _adapter(backbone.model)
    _check({name: tensor.shape for name, tensor in expected.items()}, found, folder / ADAPTER)
    set_peft_model_state_dict(backbone.model, _placed(found, expected))


def _load_whole(backbone: Backbone, folder: Path) -> None:
    # transformers may store some architectures under other names than in memory, so use its own loader
    model = backbone.model
    try:
        stored, notes = type(model).from_pretrained(
            folder, dtype=model.dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, SafetensorError, RuntimeError) as error:
        raise UserError(f"{folder}: its weights cannot be read: {str(error).splitlines()[0]}") from error
    problems = [f"{kind.removesuffix('_keys')} {sorted(map(str, keys))[0]}" for kind, keys in notes.items() if keys]
    if stored.config.tie_word_embeddings != model.config.tie_word_embeddings:
        problems.append(f"its head is {'' if stored.config.tie_word_embeddings else 'not '}tied to the embedding")
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if problems or {name: tensor.shape for name, tensor in stored.state_dict().items()} != shapes:
        why = "; ".join(problems) or "other shapes"
        raise UserError(f"{folder}: its weights do not fit this model ({why}). Is it the folder of another run?")
    model.load_state_dict(_placed(stored.state_dict(), model.state_dict()))


def _flat(extra: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    return {f"{name}.{key}": tensor for name, module in extra.items() for key, tensor in module.state_dict().items()}


def _read(file: Path) -> dict[str, Tensor]:
    try:
        found = load_file(file)
    except FileNotFoundError as error:
        raise UserError(f"{file}: no such file; the model is incomplete. Copy or train it again.") from error
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}); it is truncated or not a safetensors file.") from error
    bad = next((name for name, tensor in found.items() if not tensor.isfinite().all()), None)
    if bad is not None:
        raise UserError(f"{file}: the weight {bad} contains NaN or infinite values. Copy or train the model again.")
    return found


def _check(expected: Mapping[str, torch.Size], found: Mapping[str, Tensor], file: Path) -> None:
    missing, surplus = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    other = [name for name in sorted(expected.keys() & found.keys()) if expected[name] != found[name].shape]
    problems = [f"lacks {len(missing)} weights the model has, e.g. {missing[0]}"] if missing else []
    problems += [f"has {len(surplus)} weights the model lacks, e.g. {surplus[0]}"] if surplus else []
    problems += [f"{n} is {list(found[n].shape)}, the model's {list(expected[n])}" for n in other[:1]]
    if problems:
        raise UserError(f"{file}: {'; '.join(problems)}. It was saved from another model or with other LoRA settings.")


def _stored(tensors: Mapping[str, Tensor], dtype: torch.dtype | None, copies: bool = True) -> dict[str, Tensor]:
    """Return tensors ready to write. Unless `copies`, tied tensors stay one, so that transformers still sees the tie."""
    made: dict[int, Tensor] = {}
    stored = {}
    for name, tensor in tensors.items():
        key = id(tensor)
        if copies or key not in made:
            # asks all processes of a sharded run
            whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            made[key] = whole.detach().to(dtype=dtype if tensor.is_floating_point() else None).contiguous()
            if copies:
                made[key] = made[key].to("cpu").clone()  # safetensors refuses two names for one memory
        stored[name] = made[key]
    return stored


def _placed(found: Mapping[str, Tensor], held: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors split over the processes as the model's own are; without sharding unchanged."""

    def like(tensor: Tensor, own: Tensor) -> Tensor:
        return distribute_tensor(tensor, own.device_mesh, own.placements) if isinstance(own, DTensor) else tensor

    return {name: like(tensor, held[name]) for name, tensor in found.items()}


def _note_dtype(file: Path, dtype: torch.dtype) -> None:
    config = json.loads(file.read_text(encoding="utf-8"))
    config["dtype"] = str(dtype).removeprefix("torch.")
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
