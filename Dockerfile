# One image for every process of Sluice; what runs in it is the command: see docker-compose.yml.
# Handlers of your own: build on this image, copy your apps to /opt/sluice, and name them in
# SLUICE_INTEGRATIONS (docs/install.md).

# --- the console's style sheet and scripts ------------------------------------------------------
FROM node:24.14.0-trixie-slim AS frontend
WORKDIR /build/frontend
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc frontend/build.mjs ./
# Writes to ../console/static/vendor.
RUN npm ci && node build.mjs

# --- the Python packages ------------------------------------------------------------------------
FROM python:3.11.13-slim-trixie AS packages
RUN python -m venv /opt/venv
COPY requirements.txt /build/
# Bulk jobs are not part of Sluice yet, and 400 MB of Spark without Java would do nothing here.
RUN sed -e '/^pyspark==/,/[^\\]$/d' -e '/^py4j==/,/[^\\]$/d' /build/requirements.txt \
        > /build/image.txt \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        -r /build/image.txt

# --- what is started ----------------------------------------------------------------------------
FROM python:3.11.13-slim-trixie AS sluice
# A number, so that an orchestrator can see that it is not root.
RUN groupadd --gid 10001 sluice \
    && useradd --uid 10001 --gid sluice --no-create-home --home-dir /opt/sluice sluice
ENV PATH=/opt/venv/bin:$PATH \
    DJANGO_SETTINGS_MODULE=config.settings \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/sluice
COPY --from=packages /opt/venv /opt/venv
COPY manage.py ./
COPY config ./config
COPY integration ./integration
COPY crontasks ./crontasks
COPY console ./console
COPY templates ./templates
COPY sample ./sample
COPY --from=frontend /build/console/static/vendor ./console/static/vendor
# The settings want to be complete; none of these values stays in the image or is ever used again.
RUN SLUICE_DATABASE_URL=postgresql://build@127.0.0.1/build \
    SLUICE_CELERY_BROKER_URL=redis://127.0.0.1/0 \
    SLUICE_SECRET_KEY=while-building-only \
    SLUICE_ENCRYPTION_KEYS=$(python manage.py make_encryption_key) \
    SLUICE_ENVIRONMENT=build \
    python manage.py collectstatic --noinput
USER 10001:10001
EXPOSE 8000
# For the console; docker-compose.yml gives the other processes checks of their own.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=4 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "gunicorn", "config.wsgi", "--preload", "--workers", "2", "--threads", "4", \
     "--no-control-socket", "--worker-tmp-dir", "/dev/shm", "--bind", "0.0.0.0:8000"]
