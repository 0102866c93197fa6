"""A model and a port → an OpenAI-compatible server with streaming, batching, limits, metrics and a playground page.

    HTTP → auth (key, size, content type) → requests (validation) → registry (scheduler queue of a model)
    engine thread → streaming (updates in the event loop) → outputs (increments) → routes (JSON or server-sent events)

FastAPI and uvicorn are in the extra `serve`.
"""
