"""Runs an Azure Functions app on a laptop without Core Tools. A development tool: never deployed."""
