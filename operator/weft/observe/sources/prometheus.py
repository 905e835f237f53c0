"""Metrics from a Prometheus server: the raw samples of the window, so that the same arithmetic applies."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from weft.domain.errors import Bug
from weft.domain.reasons import Reason
from weft.domain.snapshot import STALE_SECONDS
from weft.observe.samples.history import History, Origin, series_key
from weft.observe.sources.bounded import bounded_session
from weft.observe.sources.exposition import HISTOGRAM_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor
    from datetime import datetime

    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.history import SeriesKey
    from weft.observe.samples.scrape_target import Target

    Lines = dict[SeriesKey, tuple[Sample, ...]]
    Scraper = tuple[str, ...]

WINDOW_SECONDS = 120
QUERY_TIMEOUT_SECONDS = 10
# For all queries of a collection, which come one after the other, for fifty pods of a namespace each: until the last is
# answered nobody's metrics are known, not even those that were scraped. Later they would be too old to decide by.
COLLECTION_SECONDS = 30.0
# Fifty pods of 300 series take 9 MB. Parsed, an answer takes twenty times its size, and the operator may have 1 GiB.
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
LONGEST_MESSAGE = 300  # characters: the client quotes the whole page of an error
PODS_PER_QUERY = 50  # keeps a query far below the usual 8 KiB of a URL

# Labels that distinguish the jobs, addresses and servers that scraped a pod: the last two are of server pairs.
SCRAPER_LABELS = ("job", "instance", "prometheus", "prometheus_replica", "replica")

# What Prometheus clients expose for any process, such as one beside an engine in its pod.
_OF_ANY_PROCESS = "process_"
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_REPLICA = "[0-9a-f]{5}-[0-9]+-[0-9]+"  # the part of a pod name after the pool's
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


# RecursionError: lists in lists, a hundred thousand deep.
NO_ANSWER = (requests.RequestException, PrometheusApiClientException, ValueError, KeyError, TypeError, RecursionError)


class PrometheusAway(Exception):  # noqa: N818 - says what happened
    """Prometheus did not answer, or not as asked."""


class PrometheusSource:
    """A `MetricsSource` over PromQL. Expects the usual `namespace` and `pod` labels on every series.

    Colons in names may be stored as underscores: Python's client (0.23 and later) writes them so for a server that asks
    for OpenMetrics without UTF-8 names, as Prometheus 2 does, and vLLM and SGLang use that client.

    A server whose clock was set back answers with old samples, and stores no new ones until its clock has caught up:
    while its samples end before those that it returned earlier, it counts as away.
    """

    def __init__(self, url: str, executor: Executor, window_seconds: int = WINDOW_SECONDS) -> None:
        """Nothing is asked yet. The executor's threads run the blocking client."""
        session = bounded_session(LARGEST_ANSWER_BYTES, QUERY_TIMEOUT_SECONDS)
        self._client = PrometheusConnect(url=url, retry=Retry(total=0), timeout=QUERY_TIMEOUT_SECONDS, session=session)
        self._executor = executor
        self._window_seconds = window_seconds
        self._newest = -math.inf  # time of the newest sample that it ever returned, on its own clock

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        """The windows of all targets that Prometheus knows, by pod UID. Raises `PrometheusAway`."""
        known = [target for target in targets if not target.shares_pod]
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._collect, known)

    def rates(
        self, namespace: str, pool: str, counters: tuple[str, ...], span: tuple[datetime, datetime], step_seconds: float
    ) -> list[tuple[float, float]]:
        """(epoch seconds, count per second in the step before) over all pods that a pool ever had, in order.

        Blocks. Raises `PrometheusAway`, and `Bug` for an invalid name.
        """
        query = rate_of_all(namespace, pool, counters, step_seconds)
        try:
            found = self._client.custom_query_range(query, span[0], span[1], f"{step_seconds:.0f}")
            return sorted(sample for result in found for sample in _samples(result["values"]))
        except NO_ANSWER as error:
            raise _away(error) from error

    async def close(self) -> None:
        """Nothing stays open between queries."""

    def _collect(self, targets: list[Target]) -> dict[str, History]:
        until, now = time.monotonic() + COLLECTION_SECONDS, self._server_time()
        uids = {(target.namespace, target.pod): target.uid for target in targets}
        names = _by_stored_name(targets)
        told: dict[str, dict[Scraper, Lines]] = defaultdict(lambda: defaultdict(dict))
        for query in queries(targets, self._window_seconds):
            if time.monotonic() > until:
                raise PrometheusAway("its answers come too slowly for so many pods")
            for tags, samples in _matrix(self._ask(query)):
                uid = uids.get((tags.get("namespace", ""), tags.get("pod", "")))
                if uid is not None:
                    stored = tags.pop("__name__", "")
                    scraper = tuple(tags.get(label, "") for label in SCRAPER_LABELS)
                    lines, key = told[uid][scraper], series_key(names.get(stored, stored), tags)
                    lines[key] = _in_order(lines.get(key, ()), samples)
        engines = {uid: _of_engines(found) for uid, found in told.items()}
        known = {uid: _of_one_scraper(found) for uid, found in engines.items() if found}
        self._check_order(now, (at for lines in known.values() for samples in lines.values() for at, _ in samples[-1:]))
        return {uid: History(now, series, Origin.Prometheus) for uid, series in known.items()}

    def _check_order(self, now: float, times: Iterable[float]) -> None:
        """Note the newest time; raises `PrometheusAway` if it went back by over a window; replicas differ by less.

        A range ends when it is asked for. A time far beyond that is none, and would make all later answers old ones.
        """
        newest = max(times, default=self._newest)
        if newest > now + self._window_seconds:
            raise PrometheusAway("its samples are of a time that is yet to come")
        if newest < self._newest - self._window_seconds:
            raise PrometheusAway("its samples end before those that it gave earlier: its clock was set back")
        self._newest = max(newest, self._newest)

    def _server_time(self) -> float:
        """Prometheus' own clock, which its samples are stamped with."""
        try:
            now = float(self._ask("time()")[1])
        except (IndexError, TypeError, ValueError) as error:
            raise _away(error) from error
        if not math.isfinite(now):
            raise PrometheusAway(f"its time is {now}")
        return now

    def _ask(self, query: str) -> Any:  # noqa: ANN401 - the JSON of the answer
        try:
            return self._client.custom_query(query=query)
        except NO_ANSWER as error:
            raise _away(error) from error


def queries(targets: Iterable[Target], window_seconds: int) -> list[str]:
    """Range selectors for the families of the targets, some fifty pods in each."""
    asked: list[str] = []
    ordered = sorted(targets, key=_family)
    for (namespace, names), group in groupby(ordered, key=_family):
        asked.extend(
            selector(namespace, [target.pod for target in chunk], names, window_seconds) for chunk in in_groups(group)
        )
    return asked


def selector(namespace: str, pods: Iterable[str], names: Iterable[str], window_seconds: int) -> str:
    """PromQL for the raw samples of a window. Raises `Bug` for an invalid name, so that nothing else gets in."""
    families = [_checked(_METRIC_NAME, name).replace(":", "[:_]") for name in names]
    wanted = f"({'|'.join(families)})({'|'.join(HISTOGRAM_PARTS)})"
    chosen = "|".join(_checked(_DNS_NAME, pod).replace(".", "[.]") for pod in pods)
    place = _checked(_DNS_NAME, namespace)
    return f'{{__name__=~"{wanted}",namespace="{place}",pod=~"{chosen}"}}[{int(window_seconds)}s]'


def rate_of_all(namespace: str, pool: str, counters: tuple[str, ...], span_seconds: float) -> str:
    """PromQL for the count per second over all pods of a pool, past ones included. Raises `Bug` as `selector`.

    A pod has one of the counters: its engine's.

    Of several jobs or servers that scrape a pod, the one with the most counts. Its instances add up: ranks may serve
    ports of their own.
    """
    name, place = _checked(_DNS_NAME, pool).replace(".", "[.]"), _checked(_DNS_NAME, namespace)
    chosen = f'namespace="{place}",pod=~"{name}-{_REPLICA}"'
    names = [_checked(_METRIC_NAME, counter) for counter in counters]
    stored = dict.fromkeys(each for name in names for each in (name, _stored_name(name)))
    rates = " or ".join(f"rate({each}{{{chosen}}}[{span_seconds:.0f}s])" for each in stored)
    scraper = ",".join(label for label in SCRAPER_LABELS if label != "instance")
    return f"sum(max by (pod) (sum by (pod,{scraper}) ({rates})))"


def in_groups(targets: Iterable[Target]) -> list[list[Target]]:
    """Targets in groups that fit one query."""
    every = list(targets)
    return [every[start : start + PODS_PER_QUERY] for start in range(0, len(every), PODS_PER_QUERY)]


def _family(target: Target) -> tuple[str, tuple[str, ...]]:
    return target.namespace, target.names


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise Bug(Reason.MetricsMissing, f"{text!r} cannot be part of a query")
    return text


def _of_engines(found: Mapping[Scraper, Lines]) -> dict[Scraper, Lines]:
    """The scrapers that found more than the metrics of any process."""
    return {
        scraper: lines
        for scraper, lines in found.items()
        if not all(name.startswith(_OF_ANY_PROCESS) for name, _ in lines)
    }


def _of_one_scraper(found: Mapping[Scraper, Lines]) -> Lines:
    """The series of a pod from one job of one server: of those still scraping, the one with the most series.

    Jobs add labels of their own, so that series from two of them would count twice. Another instance is an earlier
    pod of this name.
    """
    newest = {
        scraper: max((at for samples in lines.values() for at, _ in samples[-1:]), default=-math.inf)
        for scraper, lines in found.items()
    }
    fresh = max(newest.values()) - STALE_SECONDS
    return found[max(sorted(found), key=lambda scraper: (newest[scraper] >= fresh, len(found[scraper])))]


def _in_order(known: tuple[Sample, ...], more: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Samples of one series in order of time; an upgraded server stored the earlier ones under another name."""
    return tuple(sorted((*known, *more), key=lambda sample: sample[0])) if known else more


def _stored_name(name: str) -> str:
    return name.replace(":", "_")


def _by_stored_name(targets: Iterable[Target]) -> dict[str, str]:
    """Stored name (underscores for colons) to the engine's name, for samples of the wanted families."""
    families = {name for target in targets for name in target.names if ":" in name}
    return {_stored_name(f"{name}{part}"): f"{name}{part}" for name in families for part in HISTOGRAM_PARTS}


def _matrix(answer: Any) -> list[tuple[dict[str, str], tuple[Sample, ...]]]:  # noqa: ANN401 - JSON
    """Labels and samples of each series of an answer. Raises `PrometheusAway` if it is no matrix."""
    try:
        return [(_tags(each.get("metric") or {}), _samples(each.get("values") or ())) for each in answer]
    except (AttributeError, TypeError) as error:
        raise PrometheusAway(f"its answer is not a matrix: {error}") from error


def _tags(told: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in told.items()}


def _samples(values: Iterable[Any]) -> tuple[Sample, ...]:
    kept = []
    for pair in values:
        try:
            at, value = float(pair[0]), float(pair[1])
        except (TypeError, ValueError, IndexError):
            continue
        if math.isfinite(at):
            kept.append((at, value))
    return tuple(kept)


def _away(error: Exception) -> PrometheusAway:
    return PrometheusAway(f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE])
