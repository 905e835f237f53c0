"""The benchmark of the twin: the traffic is what it says, and a day is told whole."""

from __future__ import annotations

from random import Random

from bench import twin


def test_the_day_has_its_requests_and_their_lengths() -> None:
    made = list(twin.requests(20_000, Random(1), prefixes=False))
    assert abs(len(made) - 20_000) < 24
    assert [each.arrived for each in made] == sorted(each.arrived for each in made)
    assert 900 < sum(each.input_tokens for each in made) / len(made) < 1100
    assert 750 < sum(each.output_tokens for each in made) / len(made) < 850


def test_every_request_of_a_day_is_answered_and_the_floors_have_figures() -> None:
    results = twin.measure(count=600, engines=2)
    assert ["twin-million-requests", "twin-peak-resident", "twin-prefixes-million-requests"] == [
        result.name for result in results[:3]
    ]
    assert "twin-served-million-requests" == results[-1].name
    for result in (results[0], results[-1]):
        assert abs(float(result.details["answered"]) - 600) < 24
    assert all(result.value for result in results)
