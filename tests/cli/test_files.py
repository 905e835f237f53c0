"""Files as people have them: packed, in the encoding of another system, or as the API server itself writes lists."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import listed, node, pod, pool, weft, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LISTED = json.dumps(listed(node("board-0"), pod("training", "board-0", 1)))
TABLE = "model,gpu,engine,isl,osl,concurrency\nLlama-3.1-8B,H100,vllm,1000,200,16\n"
SYSTEMS: dict[str, Callable[[str], bytes]] = {
    "gzip": lambda text: gzip.compress(text.encode(), mtime=0),
    "PowerShell": lambda text: text.encode("utf-16"),
    "UTF-16 the other way round": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "a mark before UTF-8": lambda text: text.encode("utf-8-sig"),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_nodes_are_read_however_their_text_is_kept(tmp_path: Path, system: str) -> None:
    content = SYSTEMS[system](LISTED)
    (tmp_path / "nodes").write_bytes(content)
    assert "7 of 8 free" in weft("fabric", "-f", str(tmp_path / "nodes")).out
    assert "7 of 8 free" in weft("fabric", "-f", "-", stdin=content).out


@pytest.mark.parametrize("system", SYSTEMS)
def test_tables_are_read_however_their_text_is_kept(tmp_path: Path, system: str) -> None:
    (tmp_path / "rows").write_bytes(SYSTEMS[system](TABLE))
    ending = weft("predict", "--csv", str(tmp_path / "rows"), "--output", str(tmp_path / "out.csv"))
    assert (0, True) == (ending.code, ending.out.endswith("1 of 1 rows answered\n"))


def test_a_list_of_the_api_server_tells_the_kind_of_its_items(tmp_path: Path) -> None:
    """As `kubectl get --raw /api/v1/nodes` writes it."""
    bare = {name: value for name, value in node("board-0").items() if name not in {"kind", "apiVersion"}}
    whole = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [bare]}
    assert "8 of 8 free" in weft("fabric", "-f", written(tmp_path / "nodes.yaml", whole)).out


def test_what_kubectl_prints_for_people_is_refused_with_what_to_ask_it_for(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text("NAME      STATUS   ROLES    AGE\nboard-0   Ready    <none>   3d\n")
    ending = weft("fabric", "-f", str(tmp_path / "nodes.txt"))
    assert (2, "") == (ending.code, ending.out)
    assert ending.sentence.endswith("a string, not a Kubernetes object: let kubectl write it with -o yaml or -o json")


LABELS = {"team": "chat"}
BOMB = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 11))


def test_aliases_that_say_something_once_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    written(file, {**pool(), "metadata": {"name": "chat", "labels": LABELS, "annotations": LABELS}})
    assert "*" in file.read_text(encoding="utf-8")
    assert 0 == weft("plan", "-f", str(file)).code


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"metadata:\n\tname: chat\n", "line 2, column 1: found character that cannot start any token: indent with"),
        (b"name: {{ .Values.name }}\n", "if this is a Helm template, give what `helm template` makes of it"),
        (b"a: \x00b", "is neither YAML nor JSON: character 4 is the control character 0x00"),
        (b"a: " + b"9" * 5000, "is neither YAML nor JSON: a number has more digits than can be read"),
        (b"a: &a [*a]", "is neither YAML nor JSON: an alias (*) stands inside what it refers to"),
        (BOMB.encode(), "is neither YAML nor JSON: its aliases (*) stand for more than 50,000,000 values"),
    ],
    ids=["tabs", "a template", "a control character", "a long number", "a circle", "a few lines that mean billions"],
)
def test_what_is_often_wrong_with_yaml_is_told_with_what_to_do(content: bytes, words: str) -> None:
    ending = weft("plan", "-f", "-", stdin=content)
    assert words in ending.sentence
    assert 2 == ending.code


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00broken", SYSTEMS["gzip"](LISTED)[:-9]])
@pytest.mark.parametrize("command", [("fabric", "-f"), ("plan", "-f"), ("predict", "--output", "out.csv", "--csv")])
def test_a_packed_file_that_is_broken_cannot_be_read(tmp_path: Path, content: bytes, command: tuple[str, ...]) -> None:
    (tmp_path / "nodes.gz").write_bytes(content)
    ending = weft(*command, str(tmp_path / "nodes.gz"))
    assert (2, "") == (ending.code, ending.out)
    assert ending.sentence.startswith("weft: cannot read ")


def test_lists_in_a_list_are_opened(tmp_path: Path) -> None:
    """`jq -s` makes one of two dumps: no node and no pod of theirs is lost."""
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [pod("training", "board-0", 1)]}
    both = listed(listed(node("board-0"), node("board-1")), pods)
    assert "16 GPUs, 15 free" in weft("fabric", "-f", written(tmp_path / "nodes.yaml", both)).out


def test_a_resource_whose_kind_ends_like_that_of_a_list_is_no_list(tmp_path: Path) -> None:
    """`kubectl get nodes,pods,todolists` writes it beside the others, and its items are its own matter."""
    other = {"apiVersion": "example.com/v1", "kind": "TodoList", "metadata": {"name": "today"}, "items": ["milk"]}
    told = weft("fabric", "-f", written(tmp_path / "nodes.yaml", listed(node("board-0"), other)))
    assert "8 GPUs, 8 free" in told.out


def test_what_two_dumps_of_one_cluster_have_in_common_counts_once(tmp_path: Path) -> None:
    """Of a pod the later one: it may have ended meanwhile."""
    held, kept = pod("training", "board-0", 1), pod("notebook", "board-0", 2)
    again = {**held, "status": {"phase": "Succeeded"}}
    twice = listed(node("board-0"), held, kept), listed(node("board-0"), again, kept)
    told = weft("fabric", "-f", written(tmp_path / "nodes.yaml", *twice)).out
    assert "8 GPUs, 6 free" in told
    assert "several nodes" not in told


def test_a_page_takes_the_place_of_a_page_and_of_nothing_else(tmp_path: Path) -> None:
    """`--html` with the name of an input replaced that without a word."""
    nodes, page = written(tmp_path / "nodes.yaml", listed(node("board-0"))), tmp_path / "page.html"
    before = (tmp_path / "nodes.yaml").read_bytes()
    ending = weft("fabric", "-f", nodes, "--html", nodes)
    assert ending.code == 2
    assert "is there and is no HTML page: name another file, or remove it" in ending.sentence
    assert (tmp_path / "nodes.yaml").read_bytes() == before
    page.touch()
    for _ in range(2):
        assert weft("fabric", "-f", nodes, "--html", str(page)).code == 0
    assert page.read_bytes().lower().startswith(b"<!doctype html")
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0.5,500,50\n")
    pools = written(tmp_path / "pool.yaml", pool(slo={"ttft": {"p95": "1s"}}))
    ending = weft("simulate", "-f", pools, "--fabric", nodes, "--trace", str(trace), "--html", str(trace))
    assert (ending.code, trace.read_text()[:9]) == (2, "arrival_s")
