"""The sidecar of a split's halves behind a Gateway: it calls the prefill pod that the endpoint picker chose.

Looked up in llm-d's router 0.7 to 0.9: a picker sends a request to a decode pod, and names the prefill pod in a header,
`x-prefiller-host-port`. The sidecar there has the prompt computed first, and then asks the engine beside it. Requests
that lack the header are only passed on, so that both halves answer at one port, as an InferencePool requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines import adapter_for
from weft.render.container import router_resources
from weft.render.facts import sidecar_image
from weft.render.security import container_security

if TYPE_CHECKING:
    from weft.domain.shape import EngineName
    from weft.domain.spec import RouterSpec
    from weft.render.metadata import Json

SIDECAR_CONTAINER = "pd-sidecar"
SIDECAR_PORT = 8001  # on pods; the engine keeps its own port


def render_sidecar(router: RouterSpec, engine: EngineName) -> Json:
    """A restartable init container: it starts before the engine, and ends after it has finished its streams."""
    flags = {
        "port": SIDECAR_PORT,
        "vllm-port": adapter_for(engine).port,
        "kv-connector": "nixlv2",
        "secure-proxy": "false",  # TLS ends at the Gateway
    }
    return {
        "name": SIDECAR_CONTAINER,
        "image": router.image or sidecar_image(engine),
        "args": [f"--{name}={value}" for name, value in flags.items()],
        "restartPolicy": "Always",
        "ports": [{"name": SIDECAR_CONTAINER, "containerPort": SIDECAR_PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": SIDECAR_PORT}},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **router_resources(router),
    }
