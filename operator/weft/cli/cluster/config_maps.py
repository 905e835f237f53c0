"""The config.json in a ConfigMap that a pool's model names: from the file that is planned, or from the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.reading import of_kind
from weft.domain.relaxations import permitting_all

if TYPE_CHECKING:
    from weft.cli.cluster.world import World
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """ConfigMaps of the file by (namespace, name), which come before those of the cluster if there is one."""

    given: dict[tuple[str, str], Json]
    world: World

    @classmethod
    def of(cls, documents: list[Json], world: World) -> ConfigMaps:
        """Collect the ConfigMaps among the documents, in the namespace where `kubectl apply` would put them."""
        given = {}
        for body in of_kind(documents, "ConfigMap"):
            metadata = _mapping(body.get("metadata"))
            given[metadata.get("namespace") or world.namespace, metadata.get("name") or ""] = body
        return cls(given, world)

    def into_pool(self, pool: PoolRecord) -> PoolRecord:
        """Return the pool with the config.json that its model names; raises `CommandFailure` where it is missing."""
        return pool if pool.spec is None else replace(pool, spec=self._filled(pool.key.namespace, pool.spec))

    def into_split(self, split: SplitRecord) -> SplitRecord:
        """Return the split with the config.json filled in on both sides."""
        if split.spec is None:
            return split
        prefill, decode = (self._filled(split.key.namespace, each) for each in (split.spec.prefill, split.spec.decode))
        return replace(split, spec=replace(split.spec, prefill=prefill, decode=decode))

    def _filled(self, namespace: str, spec: PoolSpec) -> PoolSpec:
        spec = permitting_all(spec)
        if spec.model.config_map is None:
            return spec
        name, key = spec.model.config_map
        text = _mapping(self._body(namespace, name).get("data")).get(key)
        if text is not None and not isinstance(text, str):
            where = f"data.{key} of ConfigMap {name} in namespace {namespace}"
            raise CommandFailure(f"{where} must be a string, not {text!r:.60}: write `{key}: |` before it")
        return replace(spec, model=replace(spec.model, config_json=text))

    def _body(self, namespace: str, name: str) -> Json:
        if (namespace, name) in self.given:
            return self.given[namespace, name]
        if self.world.cluster is None:
            raise CommandFailure(
                f"ConfigMap {name} of namespace {namespace}, which holds a model's config.json, is not in the file: "
                "add it, or name the cluster that has it with --context"
            )
        return self.world.cluster.config_map(namespace, name)


def _mapping(value: object) -> Json:
    """Return a part of an unchecked object, or an empty map where it is none."""
    return value if isinstance(value, dict) else {}
