"""The parser of the real `vllm serve` takes every command that Weft renders for that release."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import engine_environment

Json = dict[str, Any]
HERE = Path(__file__).parent
GOLDEN = HERE.parent / "tests" / "render" / "golden"
SCRIPT = HERE / "serve_parser.py"
USERS = (
    *("--enable-eplb", "--enable-dbo", "--numa-bind", "--enable-chunked-prefill", "--enable-prefix-caching"),
    *("--scheduling-policy", "priority", "--structured-outputs-config.backend", "xgrammar"),
)
# What the parser says of each, or the test could not fail.
WRONG = {
    "unrecognized arguments": ["--frobnicate"],
    "requires --tool-call-parser": ["--enable-auto-tool-choice"],
    "Found duplicate keys --port": ["--port", "8001"],
    "invalid choice": ["--scheduling-policy", "whim"],
    "kv_role": ["--kv-transfer-config.kv_role", "kv_nobody"],
}

# What the installed release does not do, or Weft does not know by the image; it has all of their options.
OF_OTHER_RELEASES = {
    *("decode-mooncake-offload-0", "lmcache-on-disks-0"),
    *("nim-vllm-claim-0", "nim-vllm-tp8-fp8-0", "nim-of-one-model-0"),
}
IN_SGLANG = "sglang-model-free-nim"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]  # it may build the environment


def commands(containers: dict[str, Json]) -> dict[str, list[str]]:
    """What vLLM is started with in each; a NIM starts the same server, and says the model in its environment."""
    return {
        name: each.get("command") or ["vllm", "serve", "model", *each["args"][1:]] for name, each in containers.items()
    }


def containers() -> dict[str, Json]:
    """The recorded containers of vLLM, by file and number of the pod."""
    pods = {
        f"{file.stem}-{rank}": pod
        for file in sorted(GOLDEN.glob("*.yaml"))
        for rank, pod in enumerate(yaml.safe_load_all(file.read_text()))
    }
    found = {name: pod["spec"]["containers"][0] for name, pod in pods.items() if pod["kind"] == "Pod"}
    return {name: each for name, each in found.items() if is_vllm(each)}


def is_vllm(container: Json) -> bool:
    """A NIM has no command: its image says which engine it has, or the profile of a NIM of one model."""
    command = container.get("command")
    if command:
        return bool(command[0] == "vllm")
    profile = next((each["value"] for each in container["env"] if each["name"] == "NIM_MODEL_PROFILE"), "vllm")
    return IN_SGLANG not in container["image"] and not profile.startswith("sglang")


def verdicts(commands: dict[str, list[str]]) -> dict[str, list[str]]:
    """What the parser has against each command. No cluster is needed to ask it."""
    engine = engine_environment.ensure()
    done = subprocess.run(
        [str(engine.python), str(SCRIPT)],
        input=json.dumps(list(commands.values())),
        env={"VLLM_CACHE_ROOT": str(engine.model_information), "VLLM_NO_USAGE_STATS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_every_rendered_command_is_understood_and_no_wrong_one() -> None:
    """Options of users that a command may carry are understood as well. One start of Python answers for all."""
    known = containers()
    ours, version = commands(known), engine_environment.VERSIONS["vllm"]
    others = {name for name, each in known.items() if not each["image"].endswith(f":v{version}")}
    assert others == OF_OTHER_RELEASES, "every other golden pod of vLLM is of the release that is installed"
    plain = ours["aggregated-tp1-0"]
    found = verdicts({**ours, "users": [*plain, *USERS], **{said: [*plain, *args] for said, args in WRONG.items()}})
    assert {name: [] for name in (*ours, "users")} == {name: found[name] for name in found if name not in WRONG}
    for said in WRONG:
        assert said in " ".join(found[said])
