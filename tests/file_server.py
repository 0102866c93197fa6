"""A local HTTP server of files that stands for GitHub, the Hub and PyPI."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class FileServer:
    """Path → body, also in part by `Range`; a body in `cut` is announced whole and broken off half-way."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                path = unquote(self.path)
                outer.requests.append(f"{self.command} {path}")
                content = outer.files.get(path)
                start = int(self.headers.get("Range", "bytes=0-")[6:-1])
                rest = (content or b"")[start:]
                self.send_response(404 if content is None else 416 if start and not rest else 206 if start else 200)
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(rest[: len(rest) // 2] if path in outer.cut else rest)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
