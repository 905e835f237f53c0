"""What a start takes, in the words of the status, of `weft explain` and of `weft plan`."""

from __future__ import annotations

from weft.domain.start_up import StartUp

ESTIMATED = StartUp(image=100, weights=1200, engine=148)


def test_an_estimate_says_what_it_is_made_of() -> None:
    assert str(ESTIMATED) == "24.1 min estimated: image 100 s, weights 20 min, engine 148 s"


def test_what_was_measured_stands_before_the_estimate() -> None:
    told = str(StartUp(100, 68, 148, measured=140))
    assert told == "140 s measured; 316 s estimated: image 100 s, weights 68 s, engine 148 s"


def test_a_part_that_takes_no_time_is_no_fraction_of_a_second() -> None:
    assert StartUp(100, 0, 98).parts == "image 100 s, weights 0 s, engine 98 s"
