"""Published figures that no fit has seen: all are answered, and most are near."""

from __future__ import annotations

from bench.unseen import GROSS, facts, page, ratios


def test_every_fact_has_a_source_and_an_answer_that_is_mostly_near() -> None:
    rows = facts()
    found = [ratios(row) for row in rows]
    assert all(row["source"] and answer for row, answer in zip(rows, found, strict=True))
    for name, least in (("TPOT", 0.8), ("tokens/s", 0.8), ("TTFT", 0.5)):
        values = [each[name] for each in found if name in each]
        assert sum(1 / GROSS < value < GROSS for value in values) >= least * len(values)


def test_the_page_names_what_is_far_off_and_no_fact_twice() -> None:
    rows = facts()
    assert len({tuple(row.items()) for row in rows}) == len(rows)
    text = page(rows[:1])
    assert "1 rows, all answered" in text
    assert f"| {rows[0]['source']} | 1 |" in text
