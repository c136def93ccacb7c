# One image for every type of process: `docker run IMAGE web`, or worker, webhooks, beat, release, `manage COMMAND`.
# It needs no writable file system but /tmp. docs/operate/running.md says how to run it.

# A tag without a digest: each build takes the security updates of Debian and Python. Pin one to repeat a build.
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS packages
COPY requirements-telemetry.txt /
# Whoever changes what an index serves changes a hash. Nothing is compiled: each package has a wheel.
RUN python -m venv --without-pip /opt/venv \
    && python -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --no-deps --require-hashes \
        --only-binary :all: --requirement /requirements-telemetry.txt \
    && /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib

FROM ${PYTHON}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Allowance" \
    org.opencontainers.image.description="Pre-funded, policy-gated budgets for software agents, settled on chain" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
# Everything belongs to root, and this user changes nothing of it.
RUN groupadd --gid 10001 allowance \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin allowance
COPY --from=packages /opt/venv /opt/venv
COPY . /srv/allowance
WORKDIR /srv/allowance
RUN /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash .
ENV PATH=/opt/venv/bin:$PATH \
    PORT=8000 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "allowance.run"]
CMD ["web"]
# Of web. Whoever starts another type checks that one, as compose.yaml does.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "allowance.healthy", "web"]
