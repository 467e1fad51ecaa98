"""Programs written for the published package (azure-ai-agentserver-core); only the import line is another."""
