# The operator's image: Debian's Python with neither shell nor package manager, and what requirements/runtime.txt pins.
#   docker build -t REGISTRY/weft:0.1.0 . && docker push REGISTRY/weft:0.1.0
# `make e2e` runs an image made of the same parts, from the Deployment in manifests/ (e2e/cluster/operator_image.py).
FROM debian:12-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip
COPY requirements/runtime.txt /requirements.txt
RUN python3 -m pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: --requirement /requirements.txt --target /app
COPY operator/weft /app/weft
RUN python3 -m compileall -q /app/weft

FROM gcr.io/distroless/python3-debian12:nonroot
COPY --from=build /app /app
ENV PYTHONPATH=/app HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/usr/bin/python3.11", "-m", "weft.cli"]
