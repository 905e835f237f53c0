"""Engine processes of this machine, of models with random weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml
from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found]

from bench.on_gpu.plan import wires
from bench.on_gpu.programs import VLLM, Program
from bench.truth_bench.asking import Served

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "operator" / "weft" / "catalog" / "models"
NIXL = {"kv_connector": "NixlConnector", "kv_load_failure_policy": "recompute", "kv_role": "kv_both"}
PREFILL_HEADER = "x-prefiller-host-port"
_START_SECONDS, _GRACE_SECONDS, _POLL_SECONDS = 240.0, 60.0, 0.1
_LOG_LINES = 60


@dataclass(frozen=True, slots=True)
class Model:
    """A folder that an engine can serve, and what is asked of it."""

    folder: Path
    asked: Served


def served(name: str, parent: Path) -> Model:
    """A model of the catalog as a folder with its config.json and a tokenizer of as many words as it has tokens."""
    config = yaml.safe_load((CATALOG / f"{name}.yaml").read_text(encoding="utf-8"))["config"]
    folder = parent.parent / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": _kind(config), **config}), encoding="utf-8")
    words = Tokenizer(models.WordLevel({f"w{each}": each for each in range(config["vocab_size"])}, unk_token="w0"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0", "eos_token": "w1", "bos_token": "w2"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")
    return Model(folder, Served(name, config["vocab_size"] - 1))


def _kind(config: Mapping[str, Any]) -> str:
    """What transformers calls the architecture."""
    kinds = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3_moe"}
    return kinds[config["architectures"][0]]


@dataclass(frozen=True, slots=True)
class Place:
    """Of an engine: where it answers, where halves of a split tell each other of their KV, and how they send it."""

    http: int
    side_channel: int
    wires: tuple[tuple[str, str], ...] = ()
    program: Program = VLLM


ALONE, PREFILL, DECODE, SIDECAR = Place(8000, 5600), Place(8100, 5600), Place(8200, 5700), 8300


class Engine:
    """One process, healthy once the block is entered, and gone after it."""

    def __init__(self, name: str, model: Path, options: Sequence[str], folder: Path, place: Place = ALONE) -> None:
        """It is started with the block; a port of its own is a cache of its own, so that two may compile at a time."""
        self._command = place.program.started(model, place.http, tuple(options))
        self._log, self._name = folder / f"{name}.log", name
        caches = folder.parent / f"cache-{place.http}"
        own = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(place.side_channel), "VLLM_CACHE_ROOT": str(caches)}
        self._environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1", **own, **dict(place.wires)}
        self.url = f"http://127.0.0.1:{place.http}"
        self.start_seconds = 0.0

    def __enter__(self) -> Self:
        """Raises `RuntimeError` with the end of the log where it ends or does not answer in time."""
        if healthy(self.url):
            raise RuntimeError(f"somebody else answers at {self.url}: end that first")
        begun = time.monotonic()
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=self._environment, start_new_session=True
            )
        while not healthy(self.url):
            if self._process.poll() is not None or time.monotonic() - begun > _START_SECONDS:
                self.__exit__()
                raise RuntimeError(f"{self._name} did not start:\n{self._log_end()}")
            time.sleep(_POLL_SECONDS)
        self.start_seconds = round(time.monotonic() - begun, 1)
        print(f"{self._name} answers after {self.start_seconds} s", file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Told to end, and killed with all its processes where it takes too long."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)

    def metrics(self) -> str:
        """The text of its `/metrics`."""
        return got(f"{self.url}/metrics") or ""

    def end(self) -> None:
        """Tell it to end, while somebody asks it."""
        self._process.terminate()

    def ended(self) -> float:
        """Seconds of the monotonic clock when its process was gone."""
        self._process.wait(_GRACE_SECONDS)
        return time.monotonic()

    def kill(self) -> None:
        """It and its processes, without a word."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_GRACE_SECONDS)

    def _log_end(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])


class Pair:
    """A prefill and a decode engine on one GPU, and what plays the sidecar of the decode pod before it."""

    def __init__(self, part: Mapping[str, Any], model: Path, folder: Path) -> None:
        """They are started with the block, both at once: `options` say what memory each one takes."""
        name, over = part["name"], wires(part)
        over_nixl = (*part["options"], "--kv-transfer-config", json.dumps(NIXL))
        self.prefill = Engine(f"{name}-prefill", model, over_nixl, folder, replace(PREFILL, wires=over))
        self.decode = Engine(f"{name}-decode", model, over_nixl, folder, replace(DECODE, wires=over))
        self.url = f"http://127.0.0.1:{SIDECAR}"
        self.through_prefill = {PREFILL_HEADER: f"127.0.0.1:{PREFILL.http}"}
        self._log = folder / f"{name}-sidecar.log"
        self._blocks = ExitStack()

    def __enter__(self) -> Self:
        """All three answer then."""
        with ExitStack() as blocks, ThreadPoolExecutor() as threads:
            starting = [threads.submit(blocks.enter_context, each) for each in (self.prefill, self.decode)]
            for each in starting:
                each.result()
            blocks.callback(self._sidecar().terminate)
            while not healthy(self.url):
                time.sleep(_POLL_SECONDS)
            self._blocks = blocks.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """All three are gone then."""
        self._blocks.close()

    def _sidecar(self) -> subprocess.Popen[bytes]:
        program = ROOT / "e2e" / "cluster" / "sidecar.py"
        ports = ("--port", str(SIDECAR), "--vllm-port", str(DECODE.http))
        options = ("--kv-connector", "nixlv2", "--secure-proxy", "false")
        with self._log.open("w", encoding="utf-8") as log:
            return subprocess.Popen((sys.executable, str(program), *ports, *options), stdout=log, stderr=log)


def healthy(url: str) -> bool:
    """Whether it answers that it is."""
    return got(f"{url}/health") is not None


def got(url: str) -> str | None:
    """What an address answers; None where nobody is there yet."""
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310 - our own engine
            return bytes(answer.read()).decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None
