"""`weft replay`: the same input is the same decisions, byte for byte, and what differs is named."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.terminal import shell, weft
from tests.decide.test_splits import half, split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.forgetting import forget_everything
from tests.scaling.cases import seen
from weft import __version__
from weft.catalog import load
from weft.control.deciding.isolating import Isolating
from weft.control.deciding.recording import Recorder, record_of
from weft.control.metrics.telemetry import Telemetry
from weft.decide import decide
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import ShapePins
from weft.domain.stumbling import Stumbled
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import Snapshot

TURNS = 8
GROWING = ScalingSpec(max_replicas=4)


def recorded(folder: Path, most_bytes: int = 10_000_000) -> list[Path]:
    """The passes of a small cluster that grows, loses a node and shrinks."""
    recorder = Recorder(folder, most_bytes)
    cluster = World.of([board("b-0"), board("b-1"), board("b-2")], pool("chat", pool_spec(4, external(3))))
    for turn in range(TURNS):
        if turn == TURNS // 2:
            cluster.nodes = cluster.nodes[1:]
        snapshot = cluster.snapshot()
        recorder.record(snapshot, decide(snapshot, load()))
        cluster.turn()
    return sorted(folder.iterdir())


def changed(path: Path, change: dict[str, Any]) -> None:
    body = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**body, **change}).encode()))


def test_a_folder_of_records_is_decided_the_same_way(tmp_path: Path) -> None:
    """By a process that remembers nothing of it."""
    assert len(recorded(tmp_path / "kept")) == TURNS
    forget_everything()
    ending = weft("replay", str(tmp_path / "kept"))
    assert (ending.code, ending.complaints) == (0, [])
    assert f"{TURNS} records replayed, all decided as recorded" in ending.out


def test_processes_that_order_sets_otherwise_decide_the_same_byte_for_byte(tmp_path: Path) -> None:
    """One file is a whole bug report: a split and a pool whose traffic is measured, learnt from and scaled by."""
    cluster = split_world(half(Role.Prefill, 1, GROWING), half(Role.Decode, 1, GROWING))
    cluster.pools["chat"] = pool("chat", pool_spec(1, GROWING))
    cluster.turn(6)
    for rate in (1.0, 2.0, 40.0):
        cluster.observations = {f"uid-{name}": seen(rate, cluster.serving(name)) for name in cluster.pools}
        snapshot = cluster.snapshot()
        Recorder(tmp_path, 10_000_000).record(snapshot, decide(snapshot, load()))
        cluster.turn()
    assert cluster.status("chat").desired_replicas > 1
    one, other = (shell("replay", str(tmp_path), "-o", "json", PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert (0, "", one.out) == (one.code, one.err, other.out)
    assert [[]] * 3 == [each["differences"] for each in json.loads(one.out)]


def test_what_is_decided_otherwise_is_named(tmp_path: Path) -> None:
    path = recorded(tmp_path)[0]
    body = json.loads(gzip.decompress(path.read_bytes()))
    body["decisions"]["pools"][0]["status"]["desired_replicas"] = 7
    changed(path, body | {"weft": "0.0.9"})
    ending = weft("replay", str(path))
    assert ending.code == 1
    assert "1 record replayed, 1 decided otherwise; recorded by weft 0.0.9" in ending.out
    assert "pools[team/chat].status.desired_replicas  7" in ending.out
    assert ["WHERE", "RECORDED", "DECIDED", "NOW"] in [line.split() for line in ending.out.splitlines()]
    told = json.loads(weft("replay", str(path), "-o", "json").out)
    assert [["7", "3"]] == [[one["recorded"], one["decided"]] for one in told[0]["differences"]]


def test_yaml_says_what_json_says(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / "pass-9.json.gz").write_bytes(b"{}")
    one, other = (weft("replay", str(tmp_path), "-o", form) for form in ("json", "yaml"))
    assert (one.code, json.loads(one.out)) == (other.code, yaml.safe_load(other.out))
    assert other.out.startswith("- record: ")


def of_an_older_build(path: Path) -> None:
    """Of a field that is gone since."""
    body = json.loads(gzip.decompress(path.read_bytes()))
    body["snapshot"]["nodes"][0]["restarts"] = 2
    changed(path, body)


def test_records_of_another_build_are_told_and_the_others_are_replayed(tmp_path: Path) -> None:
    """One of the same version too, as long as nothing is released."""
    old, *others = recorded(tmp_path)
    of_an_older_build(old)
    ending = weft("replay", str(tmp_path))
    assert ending.code == 2
    assert f"{old}, written by weft {__version__}, cannot be replayed by this build of weft" in ending.sentence
    assert ending.sentence.endswith(": this build has no field restarts in NodeRecord")
    assert f"{TURNS - 1} records replayed, all decided as recorded; 1 file could not be" in " ".join(ending.out.split())
    told = json.loads(weft("replay", str(tmp_path), "-o", "json").out)
    assert [(str(old), None, True)] + [(str(path), [], False) for path in others] == [
        (each["record"], each["differences"], bool(each["problem"])) for each in told
    ]


def test_of_many_files_that_cannot_be_replayed_the_first_are_told(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"pass-{number:02}.json.gz").write_bytes(b"{}")
    ending = weft("replay", str(tmp_path))
    assert (2, "") == (ending.code, ending.out)
    assert 11 == len(ending.complaints)
    assert "weft: 2 more files cannot be replayed" == ending.complaints[-1]


def test_the_folder_stays_within_its_size_and_keeps_the_latest(tmp_path: Path) -> None:
    everything = recorded(tmp_path / "all")
    sizes = [path.stat().st_size for path in everything]
    kept = recorded(tmp_path / "some", most_bytes=sum(sizes[-3:]) + 1)
    assert [path.name for path in kept] == [path.name for path in everything[-3:]]
    assert [path.name for path in recorded(tmp_path / "one", most_bytes=1)] == [everything[-1].name]


def test_a_new_recorder_counts_what_an_earlier_one_left(tmp_path: Path) -> None:
    recorded(tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    cluster = World.of([board("b-0")], pool("chat", pool_spec(4, external(1))))
    snapshot = replace(cluster.snapshot(), now=cluster.snapshot().now + 1000.0)
    Recorder(tmp_path, size // 2).record(snapshot, decide(snapshot, load()))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= size // 2


def written_at(folder: Path, *times: float, most_bytes: int) -> list[Path]:
    """Passes of one process over an empty board, at these times of its clock."""
    recorder, snapshot = Recorder(folder, most_bytes), World.of([board("b-0")]).snapshot()
    for at in times:
        now = replace(snapshot, now=at)
        recorder.record(now, decide(now, load()))
    return [folder / f"pass-{round(at * 1000.0):015}.json.gz" for at in times]


@pytest.mark.parametrize("restarted", [False, True], ids=["the same process", "after a restart"])
def test_after_a_clock_went_back_the_latest_records_are_those_written_last(tmp_path: Path, restarted: bool) -> None:  # noqa: FBT001 - a case
    """It was an hour ahead, and the folder is full: what is written now has names before all that is there."""
    ahead, back = [10_000.0 + turn for turn in range(6)], [6_400.0 + turn for turn in range(4)]
    (one, *_) = written_at(tmp_path / "one", 10_000.0, most_bytes=1)
    room = 5 * one.stat().st_size
    if restarted:
        written_at(tmp_path / "kept", *ahead, most_bytes=room)
        late = written_at(tmp_path / "kept", *back, most_bytes=room)
    else:
        late = written_at(tmp_path / "kept", *ahead, *back, most_bytes=room)[-len(back) :]
    assert set(late) <= set((tmp_path / "kept").iterdir())


def test_a_record_that_replaces_one_of_the_same_moment_is_the_last_one_written(tmp_path: Path) -> None:
    (first, *_) = written_at(tmp_path / "one", 1.0, most_bytes=1)
    *_, again, other = written_at(tmp_path / "kept", 1.0, 2.0, 1.0, 3.0, most_bytes=first.stat().st_size * 5 // 2)
    assert {again, other} == set((tmp_path / "kept").iterdir())


def test_what_killed_processes_leave_does_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody counts or deletes an unfinished record, and an operator without memory is killed again and again."""

    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(Path, "replace", killed)
    snapshot = World.of([board("b-0")]).snapshot()
    for seconds in range(3):
        later = replace(snapshot, now=snapshot.now + seconds)
        with pytest.raises(SystemExit):
            Recorder(tmp_path, 1).record(later, decide(later, load()))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_takes_nothing_costs_records_and_no_pass(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    recorder = Recorder(folder, 1000)
    folder.rmdir()
    snapshot = World.of([board("b-0")]).snapshot()
    recorder.record(snapshot, decide(snapshot, load()))
    assert "this pass is not recorded" in caplog.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no record of `weft run --record`, which is JSON packed with gzip"),
        (b"\x1f\x8b\x08broken", "is damaged or not whole"),
        (gzip.compress(b"{}", mtime=0)[:-9], "is damaged or not whole"),
        (b"\x1f\x8b\x01" + bytes(20), "is damaged or not whole"),
        (b"\xff\xfe", "is no record of"),
        (b"[1]", "is no record of"),
        (b"{}", "it has no snapshot"),
        (b'{"snapshot": 5}', "it has no decisions"),
        (b'{"decisions": {}, "snapshot": {"~": "Reason"}}', "json.gz cannot be replayed by this build of weft"),
        (
            b'{"decisions": {}, "snapshot": {"~": "Reason", "is": "New"}}',
            'no Reason has the value {"~": "Reason", "is": "New"}',
        ),
        (b'{"decisions": {}, "snapshot": {"~": "Snapshot"}}', "Snapshot has no value for its field now"),
        (b'{"decisions": {}, "snapshot": {"~": "set", "of": [{"a": 1}]}}', 'no set has the value {"~": "set"'),
        (b'{"decisions": {}, "snapshot": {"~": ["set"]}}', "this build has no type ['set']"),
        (
            b'{"decisions": {}, "snapshot": {"~": "Path"}, "weft": "0.0.9"}',
            ", written by weft 0.0.9, cannot be replayed by this build",
        ),
        (b'{"decisions": {}, "snapshot": 5}', "is no record of"),
    ],
)
def test_a_file_that_is_no_record_is_refused_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "pass-1.json.gz"
    path.write_bytes(content)
    ending = weft("replay", str(path))
    assert words in ending.sentence
    assert ending.code == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("requests", "2020"), ("requests", [["nvidia.com/gpu", 4.5]]), ("identity", {}), ("node", True), ("phase", 1)],
)
def test_a_damaged_record_is_told_and_the_others_are_replayed(tmp_path: Path, field: str, value: object) -> None:
    """It is no fault of Weft that a field is of another type, and the sentence names it."""
    path = recorded(tmp_path)[-1]
    body = json.loads(gzip.decompress(path.read_bytes()))
    body["snapshot"]["pods"][0][field] = value
    path.write_bytes(gzip.compress(json.dumps(body).encode()))
    ending = weft("replay", str(tmp_path))
    assert f": {field} in PodRecord cannot be {json.dumps(value)}" in ending.sentence
    assert f"{TURNS - 1} records replayed, all decided as recorded; 1 file could not be" in ending.out
    assert ending.code == 2


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_record_of_no_time_is_none(tmp_path: Path, form: str) -> None:
    path = recorded(tmp_path)[0]
    body = json.loads(gzip.decompress(path.read_bytes()))
    body["snapshot"]["now"] = float("nan")
    path.write_bytes(gzip.compress(json.dumps(body).encode()))
    ending = weft("replay", str(path), "-o", form)
    assert "it was taken at nan, which is no time" in ending.sentence
    assert 2 == ending.code


def over_which_deciding_stumbles(cluster: World) -> Snapshot:
    """No user could write such a shape; the record of it is as sound as any."""
    known = cluster.pools["chat"]
    assert known.spec is not None
    poisoned = replace(known, spec=replace(known.spec, shape=ShapePins(tensor_parallel=0)))
    snapshot = cluster.snapshot()
    return replace(snapshot, pools=tuple(poisoned if each.key == known.key else each for each in snapshot.pools))


def two_pools() -> World:
    return World.of([board("b-0"), board("b-1")], *(pool(name, pool_spec(4, external(1))) for name in ("chat", "code")))


FAILS = "deciding fails: ZeroDivisionError: integer modulo by zero (in "


def test_a_record_has_the_resource_that_made_deciding_fail_and_replay_fails_with_it(tmp_path: Path) -> None:
    """One file is a whole bug report, and the others are replayed."""
    recorded(tmp_path)
    isolating, snapshot = Isolating(Telemetry()), over_which_deciding_stumbles(two_pools())
    decisions = isolating.decide(snapshot, load())
    assert {"uid-chat"} == isolating.left_out.keys()
    Recorder(tmp_path, 10_000_000).record(snapshot, decisions, isolating.left_out)
    path = max(tmp_path.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    ending = weft("replay", str(path))
    assert f"weft: {path}: {FAILS[:-4]}" in ending.sentence
    assert "1 record replayed, all decided as recorded; deciding on 1 fails" in ending.out
    assert 4 == ending.code
    (told,) = json.loads(weft("replay", str(path), "-o", "json").out)
    assert ([], None) == (told["differences"], told["problem"])
    assert told["error"].startswith("ZeroDivisionError: integer modulo by zero (")
    assert (
        f"{TURNS} records replayed, all decided as recorded; deciding on 1 fails" in weft("replay", str(tmp_path)).out
    )


def test_a_resource_that_was_left_out_and_is_decided_on_now_is_no_difference(tmp_path: Path) -> None:
    """It is left out for a minute, in which what was wrong may have passed."""
    isolating, cluster = Isolating(Telemetry()), two_pools()
    isolating.decide(over_which_deciding_stumbles(cluster), load())
    snapshot = cluster.snapshot()
    Recorder(tmp_path, 10_000_000).record(snapshot, isolating.decide(snapshot, load()), isolating.left_out)
    assert {"uid-chat"} == isolating.left_out.keys()
    ending = weft("replay", str(tmp_path))
    assert (0, []) == (ending.code, ending.complaints)
    assert "1 record replayed, all decided as recorded" in ending.out


def test_a_pass_that_failed_is_recorded_with_its_error_and_replayed(tmp_path: Path) -> None:
    snapshot = over_which_deciding_stumbles(two_pools())
    with pytest.raises(Stumbled) as failed:
        decide(snapshot, load())
    Recorder(tmp_path, 10_000_000).record(snapshot, failed.value)
    (path,) = tmp_path.iterdir()
    assert "ZeroDivisionError" in json.loads(gzip.decompress(path.read_bytes()))["error"]
    ending = weft("replay", str(path))
    assert 4 == ending.code
    assert f"{path}: deciding fails: ZeroDivisionError" in ending.sentence
    assert "all decided as recorded; deciding on 1 fails" in ending.out


def test_a_pass_that_failed_then_or_now_alone_is_a_difference(tmp_path: Path) -> None:
    sound, snapshot = recorded(tmp_path)[0], over_which_deciding_stumbles(two_pools())
    body = json.loads(gzip.decompress(sound.read_bytes()))
    changed(sound, body | {"decisions": None, "error": "Traceback\nKeyError: 'of ours'\n"})
    ending = weft("replay", str(sound))
    assert 1 == ending.code
    assert ["error", '"KeyError:', "'of", "ours'\"", "null"] in [line.split() for line in ending.out.splitlines()]
    changed(sound, record_of(snapshot, decide(two_pools().snapshot(), load())))
    ending = weft("replay", str(sound))
    assert 4 == ending.code
    assert "1 record replayed, 1 decided otherwise; deciding on 1 fails" in ending.out


@pytest.mark.parametrize("left_out", [5, ["uid-chat"], {"uid-chat": "a mistake"}])
def test_a_record_that_left_out_nobody_known_is_none(tmp_path: Path, left_out: object) -> None:
    path = recorded(tmp_path)[0]
    changed(path, json.loads(gzip.decompress(path.read_bytes())) | {"leftOut": left_out})
    ending = weft("replay", str(path))
    assert (2, True) == (ending.code, ending.sentence.endswith("its leftOut names no resources"))


def test_a_folder_without_records_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    assert "holds no record: `weft run --record" in weft("replay", str(tmp_path)).sentence
    assert "No such file" in weft("replay", str(tmp_path / "none")).sentence


def test_a_record_names_the_version_that_wrote_it() -> None:
    snapshot = World.of([board("b-0")]).snapshot()
    assert {"weft", "snapshot", "decisions"} == record_of(snapshot, decide(snapshot, load())).keys()
