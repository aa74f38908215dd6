"""Later."""

SESSIONS = {}
