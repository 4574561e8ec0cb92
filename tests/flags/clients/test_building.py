"""The packages of the clients: their content, and the page that serves them."""

from __future__ import annotations

import hashlib
import re
import zipfile
from base64 import urlsafe_b64encode
from io import BytesIO
from pathlib import Path

import pytest
from django.test import Client

from flags.clients import building, wheel
from flags.clients.wheel import PACKAGE, PROJECT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(building, "FOLDER", tmp_path / "clients")
    return tmp_path / "clients"


@pytest.fixture
def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(BytesIO(wheel.wheel()[1]))


def test_wheel__built_twice__is_the_same() -> None:
    assert wheel.wheel() == wheel.wheel()


def test_wheel__name__has_the_version_of_the_service_and_a_hash() -> None:
    name, _ = wheel.wheel()

    assert re.fullmatch(rf"{PACKAGE}-{re.escape(wheel.project_version())}\+h[0-9a-f]{{8}}-py3-none-any\.whl", name)


def test_wheel__changed_module__has_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = wheel.wheel()
    modules = wheel._modules()
    monkeypatch.setattr(wheel, "_modules", lambda: {**modules, f"{PACKAGE}/more.py": b""})

    assert wheel.wheel()[0] != before


def test_wheel__modules__are_those_of_the_client_and_of_the_engine(archive: zipfile.ZipFile) -> None:
    for name in ("__init__.py", "provider.py", "py.typed"):
        source = PROJECT / "flags" / "clients" / "python" / PACKAGE / name
        assert archive.read(f"{PACKAGE}/{name}") == source.read_bytes()
    engine = PROJECT / "flags" / "engine"
    held = {Path(name).name: archive.read(name) for name in archive.namelist() if name.startswith(f"{PACKAGE}/engine/")}
    assert held == {path.name: path.read_bytes() for path in engine.glob("*.py")}


def test_wheel__record__has_the_hash_of_every_other_file(archive: zipfile.ZipFile) -> None:
    [record] = [name for name in archive.namelist() if name.endswith("/RECORD")]
    rows = [line.split(",") for line in archive.read(record).decode().splitlines()]

    assert [name for name, *_ in rows] == archive.namelist()
    assert rows[-1] == [record, "", ""]
    for name, digest, size in rows[:-1]:
        content = archive.read(name)
        encoded = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={encoded}", str(len(content)))


def test_build__again__keeps_older_packages_and_names_the_newest(folder: Path) -> None:
    folder.mkdir()
    (folder / "halyard_openfeature-0.0.9+h00000000-py3-none-any.whl").write_bytes(b"older")

    built = building.build(folder)

    assert building.current_names(folder) == built == building.build(folder)
    assert {path.name for path in folder.glob("*.whl")} > {name for name in built if name.endswith(".whl")}
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*") if path.name in built} == {0o644}


def test_page__not_built__names_the_command(folder: Path, client: Client) -> None:
    page = client.get("/clients/")

    assert page.status_code == 200
    assert "make clients" in page.content.decode()


def test_page__built__says_how_to_install_each_from_this_host(folder: Path, client: Client) -> None:
    names = building.build(folder)

    page = client.get("/clients/", headers={"host": "testserver"}).content.decode()

    assert "make clients" not in page
    for name in names:
        assert f"http://testserver/clients/{name}" in page
    assert f"pip install http://testserver/clients/{next(name for name in names if name.endswith('.whl'))}" in page


def test_package__built__is_served_for_good(folder: Path, client: Client) -> None:
    [name] = [name for name in building.build(folder) if name.endswith(".whl")]

    answer = client.get(f"/clients/{name}")

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/zip")
    assert "immutable" in answer["Cache-Control"]
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert answer.content == (folder / name).read_bytes()


def test_package__that_does_not_exist__is_not_found(subtests: pytest.Subtests, folder: Path, client: Client) -> None:
    building.build(folder)
    (folder.parent / "secret.whl").write_bytes(b"secret")
    for name in ["current.json", "no-such.whl", "..%2F..%2Fsecret.whl", ".hidden.whl", "a b.whl"]:
        with subtests.test(name=name):
            assert client.get(f"/clients/{name}").status_code == 404


def test_page__with_another_method__is_refused(folder: Path, client: Client) -> None:
    assert client.post("/clients/").status_code == 405
