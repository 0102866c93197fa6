# Serves the embedded model on a CPU:
#   docker build -t ruplar . && docker run --rm -p 8000:8000 ruplar
#   curl localhost:8000/v1/models
# With a key: docker run --rm -p 8000:8000 -e RUPLAR_API_KEY=secret ruplar
# Another model: docker run --rm -p 8000:8000 -v $PWD/models:/models ruplar /models/mine --host 0.0.0.0
FROM python:3.12-slim

RUN useradd --create-home ruplar
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu ".[serve]"

USER ruplar
EXPOSE 8000
ENTRYPOINT ["ruplar", "serve"]
CMD ["embedded", "--host", "0.0.0.0", "--port", "8000"]
