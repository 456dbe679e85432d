"""A plain nginx that serves the same bytes as the edge: from a file, from its cache, as a constant refusal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.load.engines import free_port
from holdfast.lab.load.nginx import running_nginx

_CONFIG = """
worker_processes auto;
pid {state}/plain.pid;
error_log {state}/plain.log;
events {{ worker_connections 8192; multi_accept on; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 10000;
    default_type application/json;
    open_file_cache max=10;
    client_body_temp_path {state}/plain-body;
    proxy_temp_path {state}/plain-proxy;
    fastcgi_temp_path {state}/plain-fastcgi;
    uwsgi_temp_path {state}/plain-uwsgi;
    scgi_temp_path {state}/plain-scgi;
    proxy_cache_path {state}/plain-cache levels=1:2 keys_zone=plain:1m use_temp_path=off;
    server {{
        listen 127.0.0.1:{port} backlog=16384;
        root {files};
        location = /health {{ return 200 ok; }}
        location = /refused {{ default_type application/problem+json; return 429 '{refusal}'; }}
        location /v1/ {{
            proxy_cache plain;
            proxy_cache_valid 200 1s;
            proxy_ignore_headers Cache-Control;
            proxy_cache_lock on;
            proxy_cache_use_stale updating;
            proxy_pass http://127.0.0.1:{origin};
        }}
    }}
}}
"""


@contextmanager
def plain_nginx(state: Path, origin: int, now: bytes, refusal: bytes) -> Iterator[int]:
    """Yields its port. It serves `/now.json` from a file, `/v1/…` from its cache, and `/refused`."""
    files, port = state / "files", free_port()
    files.mkdir()
    (files / "now.json").write_bytes(now)
    text = refusal.decode().replace("'", "\\'")
    config = _CONFIG.format(state=state, files=files, port=port, origin=origin, refusal=text)
    with running_nginx("plain-nginx", state, config, f"http://127.0.0.1:{port}/health"):
        yield port
