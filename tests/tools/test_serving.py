"""`tg serve`: gives a folder's files, and nothing else, to this machine alone."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorgrad.tools.exporting import HEADERS, server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Serves a folder with links out of it, and circles, next to a secret."""
    folder, secret = tmp_path / "page", tmp_path / "secret"
    for path in (folder / "empty", folder / "inner", folder / "linked", secret):
        path.mkdir(parents=True)
    for path in (folder / "index.html", folder / "a.js", folder / "inner" / "index.html", folder / "b.tg"):
        path.write_text("served", encoding="utf-8")
    (folder / "empty" / "file").write_text("served", encoding="utf-8")
    for path in (secret / "index.html", secret / "key", tmp_path / "page-secret"):
        path.write_text("secret", encoding="utf-8")
    (folder / "out").symlink_to(secret / "key")
    (folder / "folder").symlink_to(secret)
    (folder / "linked" / "index.html").symlink_to(secret / "index.html")
    (folder / "within").symlink_to(folder / "a.js")
    (folder / "circle").symlink_to(folder / "circle")
    with server(str(folder)) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True).start()
        yield serving.server_port
        serving.shutdown()


def asked(
    port: int, path: str, hosts: list[str] | None = None, method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    for host in [f"127.0.0.1:{port}"] if hosts is None else hosts:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/a.js?x=1", "/inner/", "/within", "/empty/file", "/empty/../a.js"]
)
def test_files_are_served(path: str, port: int) -> None:
    assert asked(port, path)[:2] == (200, "served")


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/out",
            "/folder/",
            "/folder/key",
            "/folder/index.html",
            "/linked/",
            "/linked/index.html",
            "/circle",
            "/empty/",
        ),
        *("/../secret/key", "/%2e%2e/secret/key", "/..%2fsecret/key", "/inner/../../secret/key", "/../page-secret"),
        *("/empty/", "/a.js%00", "/%00", "/" + "x" * 5000, "//etc/passwd", "/none"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nothing_else_is_served(path: str, method: str, port: int) -> None:
    status, text, headers = asked(port, path, method=method)
    assert status == 404 and "secret" not in text and "file" not in text.replace("File not found", "")
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_this_machine_is_served(host: str, port: int) -> None:
    assert asked(port, "/", [host.format(port=port)])[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [
        *(["evil.example"], ["evil.example:{port}"], ["localhost.evil.example"], ["127.0.0.1.evil.example"], [""], []),
        *(["localhost@evil.example"], ["[::1"], ["192.168.0.1"], ["127.0.0.1:{port}", "evil.example"]),
    ],
)
def test_strangers_that_resolve_to_this_machine_are_refused(hosts: list[str], port: int) -> None:
    status, text, _ = asked(port, "/", [host.format(port=port) for host in hosts])
    assert status == 421 and "served" not in text


def test_headers(port: int) -> None:
    for path in ("/", "/none"):
        headers = asked(port, path)[2]
        assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = asked(port, "/")[2]["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "http" not in policy and "*" not in policy
    assert asked(port, "/a.js")[2]["Content-Type"] == "text/javascript"
    assert asked(port, "/b.tg")[2]["Content-Type"] == "application/octet-stream"
