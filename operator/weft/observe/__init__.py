"""Observing: caches of the cluster and of our resources, metrics sources, and the snapshot built from them."""

from __future__ import annotations

from weft.observe.cluster_cache import ClusterCache
from weft.observe.collector import MetricsCollector
from weft.observe.direct import DirectSource
from weft.observe.lookups import ConfigFiles, Priorities
from weft.observe.pod_logs import PodLogs
from weft.observe.prometheus import PrometheusSource
from weft.observe.reading import Reader, resource_path
from weft.observe.resource_cache import PLURALS, ResourceCache, list_resources, version_of
from weft.observe.snapshot_builder import SnapshotBuilder, Sources
from weft.observe.sources import MetricsSource, PreferredSource

__all__ = [
    "PLURALS",
    "ClusterCache",
    "ConfigFiles",
    "DirectSource",
    "MetricsCollector",
    "MetricsSource",
    "PodLogs",
    "PreferredSource",
    "Priorities",
    "PrometheusSource",
    "Reader",
    "ResourceCache",
    "SnapshotBuilder",
    "Sources",
    "list_resources",
    "resource_path",
    "version_of",
]
