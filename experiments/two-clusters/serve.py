"""Serves one file of SIZE megabytes over HTTP on port 80, from memory."""

import http.server
import sys

BLOCK = bytes(range(256)) * 4096  # 1 MiB


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    blocks = int(sys.argv[1])

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(self.blocks * len(BLOCK)))
        self.end_headers()
        for _ in range(self.blocks):
            self.wfile.write(BLOCK)

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("", 80), Handler).serve_forever()
