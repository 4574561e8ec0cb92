"""Parsing the lines of a file, and the problems of invalid ones, without a database."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from events.imports.files import MAX_LINE_LENGTH, Columns, FileRefused, Record, opened, records
from tests.events.imports.importing import pipe

COLUMNS = Columns(required=("event", "userId"), optional=("id",), rest="properties", texts=("code",), ignored=("seen",))


def read(file: Path, form: str | None = None) -> list[Record]:
    with opened(str(file), form) as file_to_read:
        return list(records(file_to_read, COLUMNS, lambda _: None))


def made(folder: Path, content: bytes, name: str = "file.csv") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_records__row_of_a_table__is_put_together_by_its_columns(tmp_path: Path) -> None:
    for table, document in [
        (b"event,userId\nbuy,u\n", b'{"event":"buy","userId":"u"}'),
        (b"\xef\xbb\xbfevent,userId\r\nbuy,u\r\n", b'{"event":"buy","userId":"u"}'),
        (b'userId,event\n"u, ""v""",buy\n', b'{"event":"buy","userId":"u, \\"v\\""}'),
        (b"event,userId,id\nbuy,u,\n", b'{"event":"buy","userId":"u"}'),
        (b"event,userId,id\nbuy,,7\n", b'{"event":"buy","userId":"","id":"7"}'),
        (b"event,userId,seen\nbuy,u,now\n", b'{"event":"buy","userId":"u"}'),
        (b'event,userId,properties\nbuy,u,"{""a"":[1]}"\n', b'{"event":"buy","userId":"u","properties":{"a":[1]}}'),
        (
            b"event,userId,properties.a,properties.b,properties.c.d,properties.code,properties.none\n"
            b"buy,u,1.50,true,00123,42,\n",
            b'{"event":"buy","userId":"u","properties":{"a":1.5,"b":true,"c.d":"00123","code":"42"}}',
        ),
        (
            b"event,userId,properties.n\nbuy,u,99999999999999999999\n",
            b'{"event":"buy","userId":"u","properties":{"n":"99999999999999999999"}}',
        ),
        (
            b"event,userId,properties,properties.a\nbuy,u,{},x\n",
            b'{"event":"buy","userId":"u","properties":{"a":"x"}}',
        ),
    ]:
        assert read(made(tmp_path, table)) == [Record(2, document)], (table, document)


def test_records__cell_of_a_number_beyond_all_bounds__is_a_problem(tmp_path: Path) -> None:
    [bad] = read(made(tmp_path, b"event,userId,properties.n\nbuy,u,1e400\n"))
    assert (bad.line, bad.problem) == (2, "properties.n: Must be a finite number.")


def test_records__row_that_cannot_be_read__is_a_problem_and_the_next_one_is_read(tmp_path: Path) -> None:
    for row, problem in [
        (b"buy\n", "The row has 1 cells, but the first line names 3 columns."),
        (b"buy,u,[]\n", "properties: Must be a JSON object."),
        (b"buy,u,{\n", "properties: It is not valid JSON (line 1, column 2: "),
        (b'buy,u,"{""a"":1,""a"":2}"\n', "a: Must appear only once."),
        (b"buy,\xff,\n", "It is not valid UTF-8."),
        (b"buy,u,\xff\n", "It is not valid UTF-8."),
        (b'buy,"u"x,\n', "',' expected after '\"'."),
    ]:
        bad, good = read(made(tmp_path, b"event,userId,properties\n" + row + b"buy,u,\n"))
        assert (bad.line, bad.as_json) == (2, b""), (row, problem)
        assert problem in bad.problem, (row, problem)
        assert good == Record(3, b'{"event":"buy","userId":"u"}'), (row, problem)


def test_records__cell_with_ends_of_lines__counts_lines_as_an_editor_does(tmp_path: Path) -> None:
    table = b'event,userId\n"a\nb",u\n\nbuy,v\n'
    assert [record.line for record in read(made(tmp_path, table))] == [2, 5]


def test_records__row_of_several_lines_that_cannot_be_read__tells_them_all(tmp_path: Path) -> None:
    [bad, good] = read(made(tmp_path, b'event,userId\nbuy,"u\nbuy,v\nbuy,",x\nbuy,w\n'))
    assert (bad.line, bad.until, bad.problem) == (2, 4, "The row has 3 cells, but the first line names 2 columns.")
    assert (good.line, good.until) == (5, 0)


LOST = b"buy,v\n" * 3


def test_records__quote_that_does_not_close__refuses_the_file(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for rows, message in [
        (
            b'buy,u\nbuy,"u\n' + LOST,
            "The row in line 3 runs on to line 6 and cannot be read (unexpected end",
        ),
        (
            b'buy,"u\n' + LOST + b'buy,"u"\n' + LOST,
            "The row in line 2 runs on to line 6 and cannot be read (",
        ),
        (
            b'buy,"u\n' + LOST * 34,
            "The row in line 2 runs over more than 100 lines: a quote in it is not closed",
        ),
        (
            b'buy,"u\n' + b"x" * 100_000 + b"\n" + b"x" * 100_000 + b"\n" + LOST,
            "The row in line 2 runs on to line ",
        ),
    ]:
        with subtests.test(rows=rows):
            with pytest.raises(FileRefused) as refusal:
                read(made(tmp_path, b"event,userId\n" + rows))
            assert str(refusal.value).startswith(message)


def test_records__row_of_a_hundred_lines__is_read(tmp_path: Path) -> None:
    cell = b'"' + b"a\n" * 99 + b'a"'
    [long, after] = read(made(tmp_path, b"event,userId\nbuy," + cell + b"\nbuy,v\n"))
    assert (long.line, long.until, long.problem, long.as_json.count(b"\\n")) == (2, 101, "", 99)
    assert after.line == 102


def test_records__last_line_that_breaks_off_within_quotes__is_a_problem(tmp_path: Path) -> None:
    good, bad = read(made(tmp_path, b'event,userId\nbuy,u\nbuy,"v'))
    assert (good.problem, bad.line, bad.problem) == ("", 3, "unexpected end of data.")


def test_records__header_that_makes_no_sense__refuses_the_file(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for header, message in [
        (b"", "It is empty; its first line must name the columns."),
        (b"event\n", "Its first line must name these columns too: userId."),
        (b"event,userId,event\n", "Its first line names columns twice: event."),
        (b"event,userId,color\n", "Its first line names unknown columns: 'color'; it may name event, userId, id, "),
        (b"event,userId,properties.\n", "Its first line names unknown columns: 'properties.'"),
        (b'event,"userId\n', "Its first line, which must name the columns, cannot be read (unexpected end of data)."),
        (
            b'event,"userId\nbuy,u\n',
            "The row in line 1 runs on to line 2 and cannot be read (unexpected end",
        ),
        (b'event,"userId\n' + b"buy,u\n" * 200, "The row in line 1 runs over more than 100 lines"),
        (b"event,userId\rbuy,u\r", "Its first line, which must name the columns, cannot be read (new-line character"),
        (b"event," + b"x" * 200_000, "Its first line, which must name the columns, cannot be read (field larger than"),
    ]:
        with subtests.test(header=header):
            with pytest.raises(FileRefused) as refusal:
                read(made(tmp_path, header))
            assert str(refusal.value).startswith(message)


def test_records__lines_of_ndjson__are_taken_as_they_stand(tmp_path: Path) -> None:
    lines = b'\xef\xbb\xbf{"a":1}\n\n  {"a":2}\r\n{' + b"x" * MAX_LINE_LENGTH + b"}\n{}"
    assert read(made(tmp_path, lines, "file.ndjson")) == [
        Record(1, b'{"a":1}'),
        Record(3, b'{"a":2}'),
        Record(4, problem=f"Must be at most {MAX_LINE_LENGTH:,} bytes long."),
        Record(5, b"{}"),
    ]


def test_opened__gzip__is_read_from_the_beginning_every_time(tmp_path: Path) -> None:
    file = made(tmp_path, gzip.compress(b'{"a":1}\n' * 100_000, mtime=0), "file.ndjson.gz")
    with opened(str(file)) as imported:
        for _ in range(2):
            heard: list[int] = []
            assert sum(1 for _ in records(imported, COLUMNS, heard.append)) == 100_000
            assert sum(heard) == imported.size == file.stat().st_size


BROKEN_OFF = gzip.compress(b"{}\n" * 1000)[:-10]


@pytest.mark.parametrize("content", [b"{}\n", BROKEN_OFF], ids=["none", "broken off"])
def test_opened__what_is_no_gzip__is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(FileRefused, match=r"^It is not valid gzip \("):
        read(made(tmp_path, content, "file.ndjson.gz"))


def test_opened__stdin__is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "{}\n{}\n")
    with opened("-") as imported:
        assert (imported.format, imported.size) == ("ndjson", 6)
        for _ in range(2):
            assert len(list(records(imported, COLUMNS, lambda _: None))) == 2


@pytest.mark.parametrize("is_piped", [True, False])
def test_opened__gzip_whose_name_does_not_say_so__is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_piped: bool
) -> None:
    content = gzip.compress(b"event,userId\nbuy,u\n", mtime=0)
    pipe(monkeypatch, content)
    name = "-" if is_piped else str(made(tmp_path, content))
    with opened(name, "csv") as imported:
        for _ in range(2):
            assert [record.line for record in records(imported, COLUMNS, lambda _: None)] == [2]


def test_opened__form__is_that_of_the_name_unless_one_is_given(tmp_path: Path) -> None:
    table = b"event,userId\nbuy,u\n"
    assert len(read(made(tmp_path, table, "file.txt"), "csv")) == 1
    with pytest.raises(FileRefused, match=r"add --format\.$"):
        read(made(tmp_path, table, "file.txt"))
    with pytest.raises(FileRefused, match=r"^It cannot be read: No such file or directory\.$"):
        read(tmp_path / "none.csv")
