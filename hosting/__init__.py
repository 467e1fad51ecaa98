"""Durable agent hosting on Azure Functions: see docs/ARCHITECTURE.md for the map of this package."""
