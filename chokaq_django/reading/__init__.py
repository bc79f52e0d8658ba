"""Reads of the job tables for people: figures of queues, of the fleet and of outcomes, lists by filter.

Nothing here writes, locks, or counts without a limit: a look costs the same whatever the tables hold.
"""
