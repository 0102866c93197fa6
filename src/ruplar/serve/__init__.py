"""A model and a port → an OpenAI-compatible server with streaming, batching, limits, metrics and a playground page.

    HTTP –gate→ key, size, type checked –api→ request checked –desk→ tickets in the scheduler's queue
    engine's thread –call→ news in the event loop –sample→ pieces of text and thought –v1 or think→ JSON or events

FastAPI and uvicorn are an extra: `pip install "ruplar[serve]"`.
"""
