# One image for every process of Sluice; what runs in it is the command: see docker-compose.yml.
# Handlers of your own: build on this image, copy your apps to /opt/sluice, and name them in
# SLUICE_INTEGRATIONS (docs/install.md).

# --- the console's style sheet and scripts ------------------------------------------------------
FROM node:24.14.0-trixie-slim AS frontend
WORKDIR /build/frontend
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc frontend/build.mjs ./
# Writes to ../console/static/console/vendor.
RUN npm ci && node build.mjs

# --- the Python packages ------------------------------------------------------------------------
FROM python:3.11.13-slim-trixie AS packages
RUN python -m venv /opt/venv
COPY requirements.txt /build/
# 400 MB of Spark without Java would do nothing here: they are in the image `spark` alone.
RUN sed -e '/^pyspark==/,/[^\\]$/d' -e '/^py4j==/,/[^\\]$/d' /build/requirements.txt \
        > /build/image.txt \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        -r /build/image.txt

# --- the same with Spark, and its pinned connectors ----------------------------------------------
FROM packages AS connectors
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        -r /build/requirements.txt
COPY devstack/jars /build/jars
# Ivy comes with PySpark; a jar with another checksum than the locked one ends the build.
RUN java -Divy.cache.dir=/build/ivy -jar /opt/venv/lib/python3.11/site-packages/pyspark/jars/ivy-*.jar \
        -settings /build/jars/ivysettings.xml -ivy /build/jars/ivy.xml -confs spark \
        -retrieve "/opt/[conf]/[artifact]-[revision](-[classifier]).[ext]" \
        -types jar bundle maven-plugin -warn \
    && grep ' spark/' /build/jars/jars.sha256 > /build/spark.sha256 \
    && cd /opt && sha256sum --check --quiet /build/spark.sha256

# --- what all of it shares ----------------------------------------------------------------------
FROM python:3.11.13-slim-trixie AS code
# A number, so that an orchestrator can see that it is not root.
RUN groupadd --gid 10001 sluice \
    && useradd --uid 10001 --gid sluice --no-create-home --home-dir /opt/sluice sluice \
    && install --directory --owner sluice --group sluice \
        /var/lib/sluice/bulk /var/lib/sluice/spark
ENV PATH=/opt/venv/bin:$PATH \
    DJANGO_SETTINGS_MODULE=config.settings \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/sluice
COPY --from=packages /opt/venv /opt/venv
COPY manage.py ./
COPY config ./config
COPY sluice ./sluice
COPY integration ./integration
COPY crontasks ./crontasks
COPY spark_jobs ./spark_jobs
COPY console ./console
COPY sluice_cli ./sluice_cli
COPY templates ./templates
COPY sample ./sample
COPY payments ./payments
COPY --from=frontend /build/console/static/console/vendor ./console/static/console/vendor
# No process can write it down later, and each would compile everything anew.
RUN python -m compileall -q manage.py config sluice integration crontasks spark_jobs console sluice_cli sample payments
# The settings want to be complete; none of these values stays in the image or is ever used again.
RUN SLUICE_DATABASE_URL=postgresql://build@127.0.0.1/build \
    SLUICE_CELERY_BROKER_URL=redis://127.0.0.1/0 \
    SLUICE_SECRET_KEY=while-building-only \
    SLUICE_ENCRYPTION_KEYS=$(python manage.py make_encryption_key) \
    SLUICE_ENVIRONMENT=build \
    python manage.py collectstatic --noinput

# --- the Spark driver ---------------------------------------------------------------------------
FROM code AS spark
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=connectors /opt/venv /opt/venv
COPY --from=connectors /opt/spark /opt/connectors
ENV SLUICE_SPARK_JARS=/opt/connectors \
    SPARK_LOCAL_DIRS=/var/lib/sluice/spark
USER 10001:10001
CMD ["python", "manage.py", "run_spark_driver"]

# --- what is started ----------------------------------------------------------------------------
FROM code AS sluice
USER 10001:10001
EXPOSE 8000
# For the console; docker-compose.yml gives the other processes checks of their own.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=4 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "gunicorn", "config.wsgi", "--preload", \
     "--worker-class", "console.server.worker.BufferedWorker", "--workers", "2", "--threads", "4", \
     "--no-control-socket", "--worker-tmp-dir", "/dev/shm", "--bind", "0.0.0.0:8000"]
