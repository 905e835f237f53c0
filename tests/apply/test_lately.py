"""However many objects there are, a bounded number is remembered, and those of which something is new."""

from __future__ import annotations

from weft.apply.lately import REMEMBERED, Lately


def with_paths(known: Lately[int], many: int) -> Lately[int]:
    for number in range(many):
        known.put(str(number), number)
    return known


def remembered(known: Lately[int], many: int) -> list[int]:
    return [number for number in range(many) if known.get(str(number)) is not None]


def test_the_latest_are_remembered_and_no_more_than_a_process_has_room_for() -> None:
    """Were all forgotten at once, all that admission rewrites would be applied once more."""
    many = REMEMBERED * 3 // 2
    found = remembered(with_paths(Lately(lambda _: True), many), many)
    assert REMEMBERED // 2 <= len(found) <= REMEMBERED
    assert found == list(range(many - len(found), many))


def test_what_is_old_goes_first() -> None:
    """Of pods that were made in an hour most stay where they are."""
    known = with_paths(Lately(lambda number: number < 5), REMEMBERED)
    known.put("new", 1)
    assert remembered(known, REMEMBERED) == [0, 1, 2, 3, 4]
    assert known.get("new") == 1


def test_what_happens_again_is_as_late_as_its_last_time() -> None:
    known = with_paths(Lately(lambda _: True), REMEMBERED)
    known.put("0", 7)
    known.put("new", 1)
    assert known.get("0") == 7
    assert known.get("1") is None


def test_looking_at_what_is_recent_costs_little_however_many_are() -> None:
    """Each new pod looked at all before it: 4 ms a pod, from the ten thousandth on."""
    looks = []
    with_paths(Lately(lambda number: not looks.append(number)), REMEMBERED * 2)  # type: ignore[func-returns-value]
    assert len(looks) <= 4 * REMEMBERED
