# The example project: one image for the web server and the workers.
#
#   docker build .                               for PostgreSQL
#   docker build --build-arg DATABASE=mssql .    for SQL Server
#   docker build --build-arg DATABASE=mysql .    for MariaDB and MySQL
FROM python:3.13-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
ARG DATABASE=postgres

COPY pyproject.toml README.md LICENSE ./
COPY chokaq_django ./chokaq_django
# mssql: unixODBC for pyodbc, and what Microsoft's driver inside mssql-python links to.
# mysql: mysqlclient is compiled here; only the client library stays. Without a compiler: pip install PyMySQL, which the
# example project takes when mysqlclient is not there.
RUN set -eu; \
    case "$DATABASE" in \
      mssql) keep="libodbc2 libltdl7 libgssapi-krb5-2"; build="" ;; \
      mysql) keep="libmariadb3"; build="build-essential pkg-config libmariadb-dev" ;; \
      postgres) keep=""; build="" ;; \
      *) echo "DATABASE is postgres, mssql or mysql, not $DATABASE" >&2; exit 1 ;; \
    esac; \
    if [ -n "$keep$build" ]; then apt-get update; apt-get install -y --no-install-recommends $keep $build; fi; \
    pip install --no-cache-dir ".[demo,redis,$DATABASE]"; \
    if [ -n "$build" ]; then apt-get purge -y --auto-remove $build; fi; \
    rm -rf /var/lib/apt/lists/*
COPY manage.py ./
COPY example_project ./example_project

RUN useradd --system --no-create-home app && mkdir var && chown app var
USER app
EXPOSE 8000
CMD ["daphne", "-b", "0.0.0.0", "-p", "8000", "example_project.asgi:application"]
