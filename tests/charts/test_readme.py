"""What the README has a reader type installs the image that the reader built."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.charts.conftest import REPOSITORY, keyed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.conftest import Tools

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
DEPLOYMENT = ("Deployment", "weft-system", "weft-controller")


@pytest.mark.timeout(300)
def test_the_kustomization_takes_the_image_of_the_registry(tools: Tools, tmp_path: Path) -> None:
    for folder in ("manifests", "crds"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    written = re.search(r"cat >(build/install)/kustomization.yaml <<EOF\n(.*?)^EOF$", README, re.DOTALL | re.MULTILINE)
    assert written is not None
    install = tmp_path / written[1]
    install.mkdir(parents=True)
    (install / "kustomization.yaml").write_text(written[2])

    (container,) = keyed(tools.run(tools.kubectl, "kustomize", install))[DEPLOYMENT]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] in README
    assert container["image"].startswith("REGISTRY/")


@pytest.mark.timeout(300)
def test_helm_takes_the_image_of_the_registry(tools: Tools) -> None:
    setting = re.search(r"helm install weft .* --set (image\S+=\S+)`", README)
    assert setting is not None
    (container,) = tools.render_chart(setting[1])[DEPLOYMENT]["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("REGISTRY/weft:")
    assert container["image"] in README


def test_the_secret_of_the_example_is_made_first() -> None:
    example = next(yaml.safe_load_all((REPOSITORY / "examples" / "chat-8b.yaml").read_text()))
    reference = example["spec"]["model"]["source"]["huggingFace"]["tokenSecretRef"]
    made = f"kubectl create secret generic {reference['name']} --from-literal={reference['key']}="
    assert 0 < README.index(made) < README.index("kubectl apply -f examples/chat-8b.yaml")
    assert f"tokenSecretRef: {{name: {reference['name']}, key: {reference['key']}}}" in README
