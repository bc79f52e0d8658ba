# The example project: one image for the web server and the workers.
FROM python:3.13-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app

COPY pyproject.toml README.md LICENSE ./
COPY chokaq_django ./chokaq_django
RUN pip install --no-cache-dir '.[demo,redis]'
COPY manage.py ./
COPY example_project ./example_project

RUN useradd --system --no-create-home app && mkdir var && chown app var
USER app
EXPOSE 8000
CMD ["daphne", "-b", "0.0.0.0", "-p", "8000", "example_project.asgi:application"]
