# One image for all services of the lab; the command selects the service. `recovery` is the same one with the packages
# of `wirefault lab serve`.
FROM python:3.11-slim-bookworm AS base

FROM base AS installed
COPY tools/environment.sh tools/
COPY requirements-uv.lock requirements.lock ./
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1
RUN tools/environment.sh install python /venv requirements.lock

# only its packages reach the image, without the installers
FROM installed AS dependencies
RUN /venv/bin/python -m pip uninstall --quiet --yes setuptools pip && rm -rf /venv/.uv

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

FROM installed AS recovery-dependencies
COPY requirements-recovery.lock .
RUN tools/environment.sh install python /venv requirements-recovery.lock \
    && /venv/bin/python -m pip uninstall --quiet --yes setuptools pip && rm -rf /venv/.uv

FROM lab AS recovery
COPY --from=recovery-dependencies /venv /venv

# without a target, the lab is built
FROM lab
