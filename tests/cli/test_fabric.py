"""`weft fabric`: who sits where, what is free, kept or lost, and what still fits; as a tree, as data and as a page."""

from __future__ import annotations

import json
import re
from functools import partial
from html.parser import HTMLParser
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.statuses import decided
from tests.cli.terminal import listed, node, pod, pool, weft, written
from tests.fabric.cluster import board
from tests.yardstick import assert_no_steeper
from weft.catalog import load
from weft.cli.cluster.running import Running
from weft.cli.cluster.sitting import seat
from weft.cli.fabric.html import COLOURS, NOTCHES, colours, fabric_html
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Json = dict[str, Any]
NOW = 1_800_000_000.0


def of_pool(body: Json, name: str, replica: int) -> Json:
    """The same pod as one of ours."""
    owner = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "name": name, "uid": f"uid-{name}"}
    tags = {"weft.dev/pool-uid": f"uid-{name}", "weft.dev/replica": str(replica), "weft.dev/rank": "0"}
    meta = {**body["metadata"], "labels": tags, "ownerReferences": [{**owner, "controller": True}]}
    return {**body, "metadata": meta}


def rack(trays: int, clique: str = "uuid.1", **labels: str) -> list[Json]:
    nodes = [node(f"tray-{i}", "NVIDIA-GB200", 4, clique) for i in range(trays)]
    for each in nodes:
        each["metadata"]["labels"] |= labels
    return nodes


def placed_pool(nodes: list[list[str]], spares: int = 0) -> Json:
    """A pool of 4-GPU replicas that were assigned these nodes."""
    body = pool(placement={"accelerators": ["GB200"], "spareNodesPerDomain": spares})
    status = decided(body, ready=True, now=NOW)
    (first, *_) = status["assignments"]
    status["assignments"] = [
        {**first, "replica": index, "nodes": each, "gpusPerPod": 4} for index, each in enumerate(nodes)
    ]
    return {**body, "metadata": {"name": "chat", "namespace": "team", "uid": "uid-chat"}, "status": status}


def page(tmp_path: Path, *bodies: Json) -> str:
    return weft("fabric", "-f", written(tmp_path / "nodes.yaml", listed(*bodies))).out


def data(tmp_path: Path, *bodies: Json) -> Json:
    found: Json = json.loads(weft("fabric", "-f", written(tmp_path / "n.yaml", listed(*bodies)), "-o", "json").out)
    return found


def html(tmp_path: Path, *bodies: Json) -> str:
    ending = weft(
        "fabric", "-f", written(tmp_path / "nodes.yaml", listed(*bodies)), "--html", str(tmp_path / "fabric.html")
    )
    assert 0 == ending.code
    return (tmp_path / "fabric.html").read_text(encoding="utf-8")


def test_replicas_and_pods_of_others_are_named_where_they_sit(tmp_path: Path) -> None:
    """Pools that the file does not hold go by the owner of their pods."""
    ours = of_pool(pod("chat-3-0", "board-0", 2), "chat", 3)
    assert "■■■□□□□□  5 of 8 free  team/chat/3 2  team/training 1" in page(
        tmp_path, node("board-0"), ours, pod("training", "board-0", 1)
    )


def test_promises_and_spares_are_no_room_for_others(tmp_path: Path) -> None:
    """A replica has its place before its pod does; the last idle nodes of its rack are kept for it."""
    told = page(tmp_path, *rack(5), placed_pool([["tray-0"], ["tray-1"]], spares=1))
    assert "uuid.1  GB200  8 of 20 free  4 spare  5 nodes  fits 8 GPUs" in told
    assert "tray-0  ▣▣▣▣  0 of 4 free  team/chat/0 4 (promised)" in told
    assert "tray-4  ◌◌◌◌  0 of 4 free  spare of team/chat" in told
    assert "▣ promised to a replica   ◌ kept as a spare" in told


def test_a_pod_that_nothing_assigns_any_more_leaves(tmp_path: Path) -> None:
    """What it holds is not free until it is gone."""
    gone = of_pool(pod("chat-7-0", "tray-1", 4), "chat", 7)
    told = page(tmp_path, *rack(2), placed_pool([["tray-0"]]), gone)
    assert "tray-1  ■■■■  0 of 4 free  team/chat/7 4 (leaves)" in told


def test_the_table_counts_what_still_fits(tmp_path: Path) -> None:
    told = page(tmp_path, *rack(5), node("board-0"), pod("training", "board-0", 3))
    rows = [line.split() for line in told.partition("WHAT STILL FITS")[2].splitlines()]
    assert ["GB200", "20", "20", "20", "10", "5", "2", "1"] in rows
    assert ["H200", "5", "5", "5", "2", "1", "0"] in rows


def test_trays_of_a_rack_tell_their_memory_themselves_where_it_differs(tmp_path: Path) -> None:
    """One of them offers parts of GPUs."""
    trays = rack(3)
    trays[0]["metadata"]["labels"] |= {"nvidia.com/gpu.replicas": "2"}
    lines = page(tmp_path, *trays).splitlines()
    assert ["3 nodes  fits 8 GPUs", "4 of 4 free  parts of 92.5 GiB"] == [
        line.partition("12 free  ")[2] or line.partition("□□□□  ")[2] for line in lines[2:4]
    ]
    assert [True, True] == [line.endswith("4 of 4 free  185 GiB each") for line in lines[4:6]]
    assert 1 == page(tmp_path, *rack(3)).count("185 GiB each")


def test_a_tier_that_domains_share_is_a_branch(tmp_path: Path) -> None:
    """One that a single domain has is told beside it."""
    spine = {"network.topology.nvidia.com/spine": "spine-1"}
    boards = [node(f"board-{i}") for i in range(3)]
    for each, leaf in zip(boards, ("leaf-1", "leaf-1", "leaf-2"), strict=True):
        each["metadata"]["labels"] |= {**spine, "network.topology.nvidia.com/leaf": leaf}
    lines = [re.sub(r"^[│├└─ ]+", "", line) for line in page(tmp_path, *boards).splitlines()]
    assert lines[1:4] == ["zone not labelled", "spine-1", "leaf-1"]
    assert lines[6].endswith("in leaf-2")
    assert "in " not in lines[4] + lines[5]


def test_data_has_the_same_under_keys_that_stay(tmp_path: Path) -> None:
    found = data(
        tmp_path,
        *rack(5),
        placed_pool([["tray-0"]], spares=1),
        pod("training", "tray-1", 1),
        node("down") | {"status": {}},
    )
    (domain,) = found["domains"]
    assert {"free": 11, "spare": 4, "gpus": 20, "largestReplica": 8}.items() <= domain.items()
    assert {"1": 11, "2": 5, "4": 2, "8": 1, "16": 0} == domain["slots"]
    first, second, *_, last = domain["nodes"]
    assert [{"pool": "team/chat", "replica": 0, "gpus": 4, "promised": True, "leaves": False}] == first["heldBy"]
    assert [{"pod": "team/training", "gpus": 1, "promised": False, "leaves": False}] == second["heldBy"]
    assert ("team/chat", None) == (last["spareOf"], first["spareOf"])
    (kind,) = found["accelerators"]
    assert {"name": "GB200", "free": 11, "largestReplica": 8}.items() <= kind.items()
    assert 0.2727 == kind["unusableShare"]["4"]
    assert ["team/chat"] == found["pools"]


class _Reader(HTMLParser):
    """Tags that open and close in order, and every address that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


def test_the_page_is_one_file_that_fetches_nothing(tmp_path: Path) -> None:
    """It has a look for dark rooms, and needs no script."""
    text = html(tmp_path, *rack(3), node("board-0"), pod("training", "board-0", 3))
    reader = _Reader()
    reader.feed(text)
    assert ([], []) == (reader.open, reader.fetched)
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert "prefers-color-scheme: dark" in text
    assert "url(" not in text
    assert "@import" not in text


def test_a_cell_is_a_gpu_and_states_differ_by_their_class(tmp_path: Path) -> None:
    down = node("board-1")
    down["spec"]["unschedulable"] = True
    ours = of_pool(pod("chat-0-0", "board-0", 2), "chat", 0)
    text = html(tmp_path, node("board-0"), down, ours, pod("training", "board-0", 1))
    racks = text.partition("<div class=racks>")[2]
    look = colours(["team/chat"])["team/chat"]
    assert {look: 2, "other": 1, "free": 5, "lost": 8} == {
        each: len(re.findall(f'<i class="{each}">', racks)) for each in (look, "other", "free", "lost")
    }
    assert "NodeCordoned" in racks


def test_a_taint_stands_beside_what_looks_free(tmp_path: Path) -> None:
    """Free GPUs that most pools may not use; a node that nobody may use says only why."""
    tainted, down = node("board-0"), node("board-1")
    tainted["spec"]["taints"] = [{"key": f"team-{i}", "value": "<a>", "effect": "NoSchedule"} for i in range(9)]
    down["spec"] = {"unschedulable": True, "taints": [{"key": "gone", "effect": "NoSchedule"}]}
    rows = html(tmp_path, tainted, down).partition("<div class=racks>")[2].split('<div class="tray')[1:]
    assert "<em>taint team-0=&lt;a&gt;:NoSchedule, taint team-1" in rows[0]
    assert "more taint" in rows[0]
    assert "<em>taint" not in rows[1]
    assert "taint gone:NoSchedule" in rows[1].partition(">")[0]


def test_every_name_is_escaped(tmp_path: Path) -> None:
    """A label may be made by anybody who makes pods."""
    evil = node("board-0")
    evil["metadata"]["name"] = "<script>alert(1)</script>"
    evil["metadata"]["labels"] |= {"topology.kubernetes.io/zone": "<b>z", "kubernetes.io/hostname": "x"}
    text = html(tmp_path, evil, pod('"><img src=x>', "<script>alert(1)</script>", 1))
    assert "<script" not in text
    assert "<img" not in text
    assert "zone &lt;b&gt;z" in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_legend_tells_what_numbers_in_cells_are_where_there_are_any(tmp_path: Path) -> None:
    ours = of_pool(pod("chat-0-0", "board-0", 2), "chat", 0)
    assert "number of a replica" in html(tmp_path, node("board-0"), ours)
    assert "number of a replica" not in html(tmp_path, node("board-0"), pod("training", "board-0", 1))


def test_a_node_with_a_fault_is_called_so_whether_in_use_or_not(tmp_path: Path) -> None:
    """One whose device plugin is gone has no cells: words say so, as an empty frame looks like a free GPU."""
    told = html(tmp_path, node("board-0"), node("board-1", gpus=0))
    assert '<div class="tray amiss"' in told
    assert "</i>node with a fault</li>" in told
    assert 1 == told.count("<u class=count>0 GPUs</u>")


def test_names_of_nodes_take_the_same_room_whatever_their_letters(tmp_path: Path) -> None:
    """They are set in a font whose letters are equally wide, in a column as wide as the longest: rows begin alike."""
    told = html(tmp_path, *rack(1), node("www"), node("iiiii"))
    assert ";--names:5ch" in told
    (rule,) = re.findall(r"\.tray em\.name {([^}]*)}", told)
    assert "font-family: ui-monospace, monospace;" in rule
    assert " width: var(--names); flex: none;" in rule


def test_numbers_in_cells_stand_out_from_every_colour(tmp_path: Path) -> None:
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5 for text of that size."""
    rules = re.findall(r"\.c\d { --c: (#\w{6});(?: color: (#\w{6});)? }", html(tmp_path, node("board-0")))
    assert COLOURS == len(rules)
    for behind, ink in rules:
        dark, light = sorted((_luminance(behind), _luminance(ink or "#ffffff")))
        assert 4.5 <= (light + 0.05) / (dark + 0.05), behind


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it, of `#rrggbb`."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_file_is_named_as_other_commands_name_it(tmp_path: Path) -> None:
    """`weft plan` and `weft simulate` take it by --fabric; here it is what the command is about, too."""
    file = written(tmp_path / "nodes.yaml", listed(node("b-0")))
    every = [weft("fabric", option, file).out for option in ("--fabric", "--file", "-f")]
    assert "8 of 8 free" in every[0]
    assert every == [every[0]] * 3


@pytest.mark.parametrize("racks", [1, 12, 64], ids=["one rack", "a row", "a hall"])
def test_a_larger_fabric_has_smaller_cells_and_fewer_words(tmp_path: Path, racks: int) -> None:
    """So that 64 racks are still one look."""
    nodes = [
        {**each, "metadata": {**each["metadata"], "name": f"r{index}-{each['metadata']['name']}"}}
        for index in range(racks)
        for each in rack(18, f"uuid.{index}")
    ]
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(listed(*nodes)))
    out = tmp_path / "fabric.html"
    weft("fabric", "-f", str(file), "--html", str(out))
    text = out.read_text(encoding="utf-8")
    assert {1: "roomy", 12: "compact", 64: "small"}[racks] in text.partition("<body class=")[2][:12]
    assert racks * 72 == text.partition("<div class=racks>")[2].count('<i class="free">')
    assert ("class=name" in text.partition("</style>")[2]) == (racks == 1)
    assert len(text) < 400_000


def test_the_page_grows_with_the_boards_and_not_with_their_square() -> None:
    """Each of them is below a network tier, which is a title where others share it."""

    def pages(count: int) -> Iterator[Callable[[], object]]:
        tiers = {"fabric.topograph.run/tier-0": "leaf"}
        fabric = build_fabric([board(f"b-{index}", labels=tiers) for index in range(count)], (), load())
        return repeat(partial(fabric_html, seat(fabric, (), Running(), {}), ""))

    assert_no_steeper(pages(400), pages(1600), times=8)


def test_a_node_with_more_gpus_than_a_row_can_show_is_told_in_numbers(tmp_path: Path) -> None:
    """As one whose capacity somebody mistyped."""
    odd = node("odd", "NVIDIA-H200", 10_000_000)
    assert "10000000 of 10000000 free" in page(tmp_path, odd)
    assert weft("fabric", "-f", str(tmp_path / "nodes.yaml"), "--html", str(tmp_path / "f.html")).code == 0
    assert (tmp_path / "f.html").stat().st_size < 100_000


def test_a_pod_that_asks_for_more_than_its_node_has_fills_its_row(tmp_path: Path) -> None:
    """Who names a node goes past the scheduler, and may ask for anything."""
    assert "■■■■■■■■  0 of 8 free" in page(tmp_path, node("b"), pod("greedy", "b", 2**63))


def test_an_empty_fabric_has_a_page_too(tmp_path: Path) -> None:
    bare = node("plain", gpus=0)
    bare["metadata"]["labels"] = {}
    assert "No node offers accelerators that Weft can use</p>" in html(tmp_path, bare)
    bare["status"] = {}
    assert "No node offers accelerators: do the device plugin" in html(tmp_path, bare)


def test_a_fabric_of_nodes_that_nobody_labels_says_that_none_can_be_used(tmp_path: Path) -> None:
    """They do offer GPUs, and the note beside it says what is missing."""
    bare = node("plain")
    bare["metadata"]["labels"] = {}
    told = page(tmp_path, bare)
    assert "no node offers accelerators that Weft can use:\n" in told
    assert "AcceleratorUnknown: node plain offers 8" in told


def test_nodes_of_one_kind_that_cannot_be_used_are_one_note(tmp_path: Path) -> None:
    unknown = [node(f"old-{number}", product="Tesla-T4") for number in range(9)]
    odd = node("odd", product="Tesla-P4")
    told = " ".join(page(tmp_path, *unknown, odd).replace("│", " ").split())
    assert 2 == told.count("AcceleratorUnknown: ")
    assert "=NAME; likewise old-1, old-2, old-3, old-4, old-5, old-6 and 2 more" in told
    assert "AcceleratorUnknown: node odd has 'Tesla-P4'" in told
    assert 2 == html(tmp_path, *unknown, odd).count("AcceleratorUnknown")


def test_colours_go_by_name_and_no_two_pools_share_a_look() -> None:
    """As long as there are fewer pools than looks; a few pools differ by colour alone."""
    names = [f"team/pool-{index}" for index in range(COLOURS * NOTCHES)]
    assert len(names) == len(set(colours(names).values()))
    few = colours(names[:COLOURS]).values()
    assert {f"c{index}" for index in range(COLOURS)} == set(few)
    assert colours(names) == colours(reversed(names))
    assert len(colours([f"p-{index}" for index in range(200)])) == 200


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    ending = weft(
        "fabric",
        "-f",
        written(tmp_path / "nodes.yaml", node("board-0")),
        "--html",
        str(tmp_path / "no" / "fabric.html"),
    )
    assert 2 == ending.code
    assert "cannot write" in ending.sentence
