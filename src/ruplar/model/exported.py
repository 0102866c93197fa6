"""A model → a folder for plain transformers: merged weights, chat template, tokenizer rule, `custom_generate`.

The chat template renders the prompt of training and opens the thought, so plain `generate` answers with hard tokens.
"""

import json
import logging
import re
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.io import write_text
from ruplar.model.lora import merged
from ruplar.model.prompt import CLOSE, OPEN
from ruplar.model.store import Model, check_replaceable, load_model, save_model

log = logging.getLogger(__name__)

_MARK = "RUPLARUSERRUPLAR"
_SAMPLE = [{"role": "user", "content": "Tom has 12 bags. How many?"}]
_ONE_MESSAGE = "This model answers a single user message: system messages and several turns are not supported."


def export_model(
    reference: str | Path, folder: Path, *, merge: bool = True, dtype: Any = None, with_generate: bool = False
) -> Model:
    """Write a model to share: merged, a folder that `AutoModelForCausalLM` loads; otherwise the adapter itself.

    Both contain `ruplar.json`, so ruplar loads them too. `with_generate` adds `custom_generate` for transformers.
    """
    check_replaceable(folder)
    model = load_model(reference, dtype="float32")
    source = _custom_generate(model) if with_generate else ""
    if merge:
        model.backbone.set_model(merged(model.backbone))
        backbone = model.metadata.backbone.model_copy(update={"lora": None, "init": None})
        model.metadata = model.metadata.model_copy(update={"backbone": backbone})
        _prepare(model)
    save_model(folder, model, dtype)
    if source:
        write_text(folder / "custom_generate" / "generate.py", source)
    return model


def _prepare(model: Model) -> None:
    """Set chat template, end token and tokenizer rule, so that the saved folder builds the model's own prompts."""
    from transformers import GenerationConfig

    backbone = model.backbone
    opening = OPEN if model.method.thinker(backbone).thinks else OPEN + CLOSE
    before, after = backbone.prompt.frame
    if model.metadata.prompt.template == "plain":
        _keep_boundary(backbone.tokenizer, before, after)
    text = backbone.prompt.user_text(model.method.question(_MARK))
    backbone.tokenizer.chat_template = _template(before + text + after, opening, backbone.tokenizer.chat_template)
    backbone.tokenizer.padding_side = "left"
    backbone.tokenizer.init_kwargs["padding_side"] = "left"  # what save_pretrained writes
    longest = model.method.thinker(backbone).cap + 64  # thought and answer
    # greedy, as in evaluation; some backbones sample by default
    backbone.model.generation_config = GenerationConfig(
        eos_token_id=backbone.eos_id, pad_token_id=backbone.pad_id, max_new_tokens=longest
    )
    rendered = backbone.tokenizer.apply_chat_template(_SAMPLE, add_generation_prompt=True, return_dict=False)
    wanted = [*model.prompt(_SAMPLE[0]["content"]).ids, *backbone.tokenizer.encode(opening, add_special_tokens=False)]
    if rendered != wanted:
        log.warning("the exported chat template gives other tokens than training did: this tokenizer merges some.")


def _template(text: str, opening: str, original: str | None) -> str:
    """Return a Jinja template of one user message; with `training_frame` it renders as before the export."""
    parts = [json.dumps(part, ensure_ascii=False) for part in text.split(_MARK)]
    rendered = " + messages[0]['content'] + ".join(parts)
    ours = (
        "{% if messages | length != 1 or messages[0]['role'] != 'user' %}"
        f"{{{{ raise_exception({json.dumps(_ONE_MESSAGE)}) }}}}{{% endif %}}"
        f"{{{{ {rendered} }}}}{{% if add_generation_prompt %}}{{{{ {json.dumps(opening)} }}}}{{% endif %}}"
    )
    return f"{{% if training_frame is defined %}}{original or ''}{{% else %}}{ours}{{% endif %}}"


def _keep_boundary(tokenizer: Any, before: str, after: str) -> None:
    """Split `before` from the user's text before BPE merges them, as training does; only in a whole prompt."""
    from tokenizers import Regex, pre_tokenizers

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.pre_tokenizer is None:
        return
    whole = Regex(rf"\A{re.escape(before)}(?=(?m:.*){re.escape(after)}\z)")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(whole, "isolated"), backend.pre_tokenizer])


def _custom_generate(model: Model) -> str:
    """Return the source of custom_generate/generate.py for a model that thinks in soft tokens."""
    method, backbone = model.metadata.method.name, model.backbone
    if method != "ruplar":
        raise UserError(f"--custom-generate: the method '{method}' does not think in soft tokens. Leave it out.")
    thinker: Any = model.method.thinker(backbone)
    settings = {name: getattr(thinker, name) for name in ("halt", "halt_threshold", "top_k", "drop_halt", "cap")}
    ids = {"think_id": backbone.think_id, "end_think_id": backbone.end_think_id, "pad_id": backbone.pad_id}
    source = Path(__file__).with_name("custom_generate.py").read_text(encoding="utf-8")
    return source.replace("SETTINGS: dict[str, Any] = {}", f"SETTINGS: dict[str, Any] = {ids | settings!r}")
