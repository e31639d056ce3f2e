"""A data set is known by its rows: every form of them is read alike, and a wrong file is told what differs."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dcpflow.errors import UsageError
from dcpflow.tasks import data_sets
from dcpflow.tasks.data_sets import DATA_SETS

Lines = list[str]
SMALL = ("yacht", "ionosphere")


@pytest.fixture(scope="module")
def lines(data_file: Callable[[str], Path]) -> Callable[[str], Lines]:
    """The rows of a real file, as text, without its headings."""

    def read(name: str) -> Lines:
        data = data_file(name).read_bytes()
        return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode().splitlines()[1:]

    return read


def parsed(name: str, rows: Sequence[str]) -> list[data_sets.Row]:
    return data_sets.parse(name, "\n".join(rows).encode(), "the file")


def refusal(name: str, data: bytes | Sequence[str]) -> str:
    """What is said of a wrong file."""
    data = data if isinstance(data, bytes) else "\n".join(data).encode()
    with pytest.raises(UsageError) as refused:
        data_sets.parse(name, data, "the file")
    told = str(refused.value)
    assert told.startswith(f"the file is not the data set {DATA_SETS[name].title}: ")
    assert DATA_SETS[name].url in refused.value.remedy
    assert len(told) < 500
    assert "\n" not in told
    return refused.value.problem.partition(": ")[2]


def zipped(members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


# --- the right rows ----------------------------------------------------------------------------------------


def test_the_real_yacht_file_is_recognised(data_file: Callable[[str], Path]) -> None:
    rows = data_sets.read("yacht", data_file("yacht"))
    labels = [float(row.label) for row in rows]
    assert len(rows) == 308
    assert {len(row.inputs) for row in rows} == {6}
    assert (min(labels), max(labels)) == (0.01, 62.42)
    assert set(Counter(row.inputs[:5] for row in rows).values()) == {14}
    assert set(Counter(row.inputs[5] for row in rows).values()) == {22}


def test_the_real_ionosphere_file_is_recognised(data_file: Callable[[str], Path]) -> None:
    rows = data_sets.read("ionosphere", data_file("ionosphere"))
    assert Counter(row.label for row in rows) == {"g": 225, "b": 126}
    assert {len(row.inputs) for row in rows} == {34}
    assert {row.inputs[1] for row in rows} == {0.0}


def test_the_real_dry_bean_file_is_recognised(data_file: Callable[[str], Path]) -> None:
    rows = data_sets.read("dry-bean", data_file("dry-bean"))
    assert len(rows) == 13_611
    assert {len(row.inputs) for row in rows} == {16}
    assert Counter(row.label for row in rows) == {
        **{"dermason": 3546, "sira": 2636, "seker": 2027, "horoz": 1928, "cali": 1630, "barbunya": 1322},
        "bombay": 522,
    }


def arff(rows: Lines) -> str:
    head = ["% remark, with commas, of several, words", "@RELATION rows", "@ATTRIBUTE one REAL", "", "@DATA"]
    return "\n".join([*head, *rows])


FORMS: dict[str, Callable[[Lines], bytes]] = {
    "without headings": lambda rows: "\n".join(rows).encode(),
    "with headings": lambda rows: "\n".join([",".join(["name"] * len(rows[0].split(","))), *rows]).encode(),
    "blanks": lambda rows: "\n".join(f" {row.replace(',', '  ')} " for row in rows).encode() + b"\n\n",
    "tabs": lambda rows: "\n".join(row.replace(",", "\t") for row in rows).encode(),
    "a blank behind each comma": lambda rows: "\n".join(row.replace(",", ", ") for row in rows).encode(),
    "other ends of lines": lambda rows: "\r\n".join(rows).encode(),
    "a mark at the start": lambda rows: b"\xef\xbb\xbf" + "\n".join(rows).encode(),
    "other order": lambda rows: "\n".join(random.Random(1).sample(rows, len(rows))).encode(),
    "upper case": lambda rows: "\n".join(rows).upper().encode(),
    "arff": lambda rows: arff(rows).encode(),
    "gzip": lambda rows: gzip.compress("\n".join(rows).encode()),
    "zip": lambda rows: zipped({"a/readme.txt": b"no table", "a/DATA.ARFF": arff(rows).encode(), "z.xlsx": b"PK"}),
    "zip, not deflated": lambda rows: zipped({"x.data": "\n".join(rows).encode()}, zipfile.ZIP_STORED),
    "other zeros": lambda rows: "\n".join(
        ",".join(f"{value}000" if "." in value else value for value in row.split(",")) for row in rows
    ).encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SMALL)
def test_every_form_of_the_same_rows_is_the_same_data_set(
    lines: Callable[[str], Lines], data_file: Callable[[str], Path], name: str, form: str
) -> None:
    expected = data_sets.read(name, data_file(name))
    found = data_sets.parse(name, FORMS[form](lines(name)), "the file")
    assert found == expected
    assert data_sets.digest(found) == data_sets.digest(expected)


def test_the_digest_tells_rows_apart_that_the_checks_do_not(lines: Callable[[str], Lines]) -> None:
    rows = lines("ionosphere")
    first = rows[0].split(",")
    altered = [",".join([*first[:5], "0.5", *first[6:]]), *rows[1:]]
    assert data_sets.digest(parsed("ionosphere", altered)) != data_sets.digest(parsed("ionosphere", rows))


# --- wrong files -------------------------------------------------------------------------------------------


def changed(row: str, place: int, value: str) -> str:
    values = row.split(",")
    values[place] = value
    return ",".join(values)


@pytest.mark.parametrize(("name", "rows"), [("yacht", 308), ("ionosphere", 351)])
def test_a_missing_and_a_doubled_row_are_counted(lines: Callable[[str], Lines], name: str, rows: int) -> None:
    real = lines(name)
    assert refusal(name, real[1:]) == f"{rows - 1} rows (expected {rows})"
    assert refusal(name, [*real, real[0]]) == f"{rows + 1} rows (expected {rows})"
    assert refusal(name, real * 3) == f"more than {2 * rows} rows (expected {rows})"


def test_another_data_set_is_told_its_columns(lines: Callable[[str], Lines]) -> None:
    assert refusal("yacht", lines("ionosphere")) == "line 1 has 35 values (expected 7)"
    assert refusal("dry-bean", lines("yacht")) == "line 1 has 7 values (expected 17)"


def test_changed_class_counts_are_told_by_class(lines: Callable[[str], Lines]) -> None:
    rows = lines("ionosphere")
    good = next(place for place, row in enumerate(rows) if row.endswith("g"))
    rows[good] = changed(rows[good], -1, "b")
    told = refusal("ionosphere", rows)
    assert "127 rows of class 'b' (expected 126)" in told
    assert "224 rows of class 'g' (expected 225)" in told
    rows[good] = changed(rows[good], -1, "q" * 500)
    told = refusal("ionosphere", rows)
    assert "1 rows of class 'qqq" in told
    assert "(expected 0)" in told


def test_what_else_is_known_of_each_data_set_is_checked(lines: Callable[[str], Lines]) -> None:
    rows = lines("ionosphere")
    rows[7] = changed(rows[7], 1, "0.001")
    assert refusal("ionosphere", rows) == "values other than 0 in the second column (expected none)"
    rows = lines("yacht")
    assert refusal("yacht", [changed(rows[0], 5, "0.126"), *rows[1:]]) == "15 different Froude numbers (expected 14)"
    assert refusal("yacht", [changed(rows[0], 0, "-9"), *rows[1:]]) == "23 different hulls (expected 22)"
    highest = next(place for place, row in enumerate(rows) if row.endswith(",62.42"))
    rows[highest] = changed(rows[highest], 6, "62.43")
    assert refusal("yacht", rows) == "labels from 0.01 to 62.43 (expected 0.01 to 62.42)"
    beans = lines("dry-bean")
    largest = max(range(len(beans)), key=lambda place: float(beans[place].split(",")[0]))
    beans[largest] = changed(beans[largest], 0, "254617")
    assert refusal("dry-bean", beans) == "areas from 20420 to 254617 (expected 20420 to 254616)"


def test_of_many_differences_some_are_told_and_the_others_counted(lines: Callable[[str], Lines]) -> None:
    rows = [changed(row, -1, f"c{number}") for number, row in enumerate(lines("ionosphere"))]
    assert refusal("ionosphere", rows).endswith("and 350 more")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "Infinity", "1e999", "-NaN"])
def test_numbers_must_be_finite(lines: Callable[[str], Lines], value: str) -> None:
    for place in (3, 6):
        rows = lines("yacht")
        rows[4] = changed(rows[4], place, value)
        assert refusal("yacht", rows) == "line 5 has a value that is not finite"


@pytest.mark.parametrize("value", ["", "x", "0x10", "1,5", "1 2", "--1", "\0"])
def test_what_is_no_number_is_told_with_its_line(lines: Callable[[str], Lines], value: str) -> None:
    rows = lines("yacht")
    rows[4] = changed(rows[4], 3, value)
    assert refusal("yacht", rows).startswith("line 5 has ")


def test_headings_are_expected_in_the_first_line_alone(lines: Callable[[str], Lines]) -> None:
    rows, heading = lines("yacht"), "a,b,c,d,e,f,g"
    assert len(parsed("yacht", [heading, *rows])) == 308
    assert refusal("yacht", [heading, heading, *rows]) == "line 2 has a value that is no number"
    assert refusal("yacht", [*rows, heading]) == "line 309 has a value that is no number"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "0 rows"),
        (b"The yacht data set.\n", "line 1 has 4 values"),
        (b"<!DOCTYPE html>\n<html></html>\n", "line 1 has 2 values"),
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "it is no text (byte 9 is not UTF-8)"),
        ("1,2\n".encode("utf-16"), "it is no text (byte 1 is not UTF-8)"),
        (b"PK\x03\x04 and no archive", "it cannot be unpacked"),
        (b"\x1f\x8b and no gzip", "it cannot be unpacked"),
        (zipped({"readme.txt": b"x"}), "the archive holds no file that ends with .csv, .data, .arff"),
        (zipped({}), "the archive holds no file"),
    ],
    ids=["empty", "prose", "web page", "binary", "utf-16", "no zip", "no gzip", "no table inside", "empty zip"],
)
def test_what_is_no_table_is_told_so(data: bytes, told: str) -> None:
    assert refusal("yacht", data).startswith(told)


def test_whatever_is_broken_in_a_packed_file_is_no_traceback(lines: Callable[[str], Lines]) -> None:
    text = "\n".join(lines("yacht")).encode()
    expected, luck = data_sets.parse("yacht", text, "the file"), random.Random(2)
    packed = [gzip.compress(text)]
    packed += [zipped({"y.data": text}, kind) for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)]
    refused = 0
    for whole in packed:
        assert data_sets.parse("yacht", whole, "the file") == expected
        assert refusal("yacht", whole[: len(whole) // 2])
        for _ in range(150):
            broken = bytearray(whole)
            broken[luck.randrange(2, len(broken))] = luck.randrange(256)
            try:
                assert data_sets.parse("yacht", bytes(broken), "the file") == expected
            except UsageError:
                refused += 1
    assert refused > 300


def test_an_encrypted_archive_and_an_unknown_packing_are_no_traceback(lines: Callable[[str], Lines]) -> None:
    plain = zipped({"y.data": "\n".join(lines("yacht")).encode()})
    entry = plain.index(b"PK\x01\x02")
    encrypted, unknown = bytearray(plain), bytearray(plain)
    encrypted[entry + 8] |= 1
    unknown[entry + 10] = 99
    assert "encrypted" in refusal("yacht", bytes(encrypted))
    assert "compression method" in refusal("yacht", bytes(unknown))


@pytest.mark.parametrize("packing", ["gzip", "zip", "plain"])
def test_what_unpacks_to_too_much_is_not_unpacked_whole(monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    monkeypatch.setattr(data_sets, "MAX_BYTES", 10_000)
    for size, told in ((10_001, "it has more than 10000 bytes"), (100_000, "it has more than 10000 bytes")):
        data = b"\n" * size
        packed = {"gzip": gzip.compress, "zip": lambda data: zipped({"y.csv": data}), "plain": bytes}[packing](data)
        assert refusal("yacht", packed) == told
    assert refusal("yacht", gzip.compress(b"\n" * 10_000)) == "0 rows (expected 308)"


def test_a_zip_bomb_costs_no_more_than_the_limit() -> None:
    # 256 MB of zeros in 256 KB: were it unpacked whole, the limit on memory would end it with a traceback

    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("y.csv", "w") as file:
        for _ in range(256):
            file.write(bytes(1 << 20))
    code = (
        "import resource, sys\nfrom dcpflow.tasks import data_sets\nfrom dcpflow.errors import UsageError\n"
        "data = sys.stdin.buffer.read()\nheld = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (held + (200 << 20),) * 2)\n"
        "try:\n    data_sets.parse('yacht', data, 'the file')\nexcept UsageError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=bomb.getvalue(), capture_output=True, check=True)
    assert b"it has more than 67108864 bytes" in done.stdout


# --- files that are not there ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_missing_file_is_told_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expected = tmp_path / "dcpflow" / f"{name}.csv"
    assert data_sets.cache_file(name) == expected
    for given, path in ((None, expected), (tmp_path / "mine.csv", tmp_path / "mine.csv"), (tmp_path, tmp_path)):
        with pytest.raises(UsageError) as refused:
            data_sets.read(name, given)
        assert str(path) in refused.value.problem
        assert f"dcpflow data fetch {name};" in refused.value.remedy
        assert "task.data_file" in refused.value.remedy


def test_the_download_cache_is_read_where_no_file_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_file: Callable[[str], Path]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data_sets.cache_file("yacht").parent.mkdir()
    data_sets.cache_file("yacht").write_bytes(data_file("yacht").read_bytes())
    assert data_sets.read("yacht") == data_sets.read("yacht", data_file("yacht"))


@pytest.mark.parametrize("value", ["", "relative/cache"])
def test_a_cache_folder_that_is_not_absolute_is_not_used(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", "/home/of/nobody")
    assert data_sets.cache_file("yacht") == Path("/home/of/nobody/.cache/dcpflow/yacht.csv")
