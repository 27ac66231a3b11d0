# The server as a container: `docker build --tag attar .`; compose.yaml runs it. Nothing here needs a GPU.
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build

# torch without CUDA: 0.8 GB instead of 5. Add "fast" to the extras for a compiled search: 0.2 GB.
ARG EXTRAS=documents,server
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=/build/constraints.txt
WORKDIR /build
RUN python -m venv /opt/attar
# Large, and seldom another: a layer of its own.
COPY constraints.txt ./
RUN /opt/attar/bin/pip install --no-compile --no-deps --index-url "${TORCH_INDEX}" torch
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY attar attar
# torch's headers and tests, and pip, are not needed any more.
RUN /opt/attar/bin/pip install --no-compile ".[${EXTRAS}]" \
    && rm -rf /opt/attar/lib/python3*/site-packages/torch/include /opt/attar/lib/python3*/site-packages/torch/test \
    && /opt/attar/bin/pip uninstall --yes pip
# A first question: it must be answered, and leaves the byte code that a server uses, a tenth of all.
WORKDIR /
RUN /opt/attar/bin/python -c "import attar, attar.server.app, attar.server.run; reader = attar.Reader.load(); assert reader.answer(reader.read('Ann lives in Bath.'), 'Where does Ann live?')[0].text == 'Bath'"

FROM ${PYTHON_IMAGE}
RUN useradd --no-log-init --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin attar \
    && install --directory --owner attar --group attar --mode 700 /data
COPY --from=build /opt/attar /opt/attar
# The compiled search is kept in /tmp: all but /data and /tmp may be read-only.
ENV PATH=/opt/attar/bin:$PATH NUMBA_CACHE_DIR=/tmp/numba
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# The server listens when its reader is loaded.
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["attar"]
CMD ["serve", "/data/library", "--host", "0.0.0.0", "--port", "8000", "--token-file", "/run/secrets/attar_token", "--log-format", "json"]
