"""What a job is: definition, registry, payload codec, context, failures, backoff. No database, no threads."""
