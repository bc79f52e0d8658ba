"""A small shop that uses chokaq-django: the demo, and the project that the tests drive."""
