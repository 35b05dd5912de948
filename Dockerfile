# One image for all services of the lab; the command selects the service. `recovery` is the same one with the packages
# of `wirefault lab serve`.
FROM python:3.11-slim-bookworm AS base

FROM base AS dependencies
COPY requirements.lock .
# copying only a virtual environment leaves pip and setuptools behind
RUN python -m venv /venv \
    && /venv/bin/pip install --quiet --no-cache-dir --no-deps --require-hashes -r requirements.lock \
    && /venv/bin/pip uninstall --quiet --yes setuptools pip

FROM base AS source
COPY agent /app/agent
COPY experiments /app/experiments
COPY flask_tools /app/flask_tools
COPY proxy_manager /app/proxy_manager
COPY wirefault /app/wirefault
COPY charts.py /app/
# compile now, because everything is read-only at run time
RUN python -m compileall -q --invalidation-mode unchecked-hash /app && mkdir /app/state /app/logs

FROM base AS lab
# nothing is installed in this image later, so remove the base's installers
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3.11/ensurepip /usr/local/lib/python3.11/site-packages/*
COPY --from=dependencies /venv /venv
COPY --from=source /app /app
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp MPLCONFIGDIR=/tmp
WORKDIR /app
USER 10001:10001
# the databases and logs are shared with the user: umask 0, in folders that other users cannot enter
ENTRYPOINT ["/bin/sh", "-c", "umask 0 && exec \"$0\" \"$@\""]
CMD ["python", "-m", "agent"]

FROM base AS recovery-dependencies
COPY --from=dependencies /venv /venv
COPY requirements-recovery.lock .
RUN python -m pip --python /venv/bin/python install --quiet --no-cache-dir --no-deps --require-hashes \
    -r requirements-recovery.lock

FROM lab AS recovery
COPY --from=recovery-dependencies /venv /venv

# without a target, the lab is built
FROM lab
