"""Holds the tables of the documents against a run of the gallery: `tables.py NAME RUN [--shape]`.

Tables that are the same on every machine stand between two comments that name the command and the file:

    <!-- table: make gallery EXPERIMENT=tcp-models, figures/tcp-models.md -->
    <!-- end of table -->

RUN is a run of experiments/NAME at its full size, with its figure drawn. A table that differs ends the program
with 1, and says where, how, and what renews it: BLESS=1 writes the run's tables into the pages. With `--shape`
the run is of another size, and only headings are compared, without their numbers; but a table whose first comment
ends with `, at any size` (it comes from a formula, or from the requests alone) must be the same there too.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN = re.compile(r"<!-- table: make gallery EXPERIMENT=([\w-]+), (figures/[\w.-]+\.md)(, at any size)? -->")
END = "<!-- end of table -->"


def pages(root):
    """Every page that may have such a table."""
    return [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("experiments/**/*.md"))]


def tables(page):
    """The tables of a page's text: (experiment, file, whether it is the same at any size, first and last line)."""
    lines, found, open_at = page.splitlines(), [], None
    for number, line in enumerate(lines):
        begin = BEGIN.fullmatch(line.strip())
        if line.strip().startswith("<!-- table:") and not begin:
            raise ValueError(f"line {number + 1}: `{line}` is no command and file")
        if begin and open_at is not None:
            raise ValueError(f"line {number + 1}: the table of line {open_at[3] + 1} has no end")
        if begin:
            open_at = (*begin.groups(), number)
        elif line.strip() == END:
            if open_at is None:
                raise ValueError(f"line {number + 1}: the end of no table")
            found.append((*open_at, number))
            open_at = None
    if open_at is not None:
        raise ValueError(f"line {open_at[3] + 1}: this table has no end")
    return found


def heading(table):
    """The names of a table's columns, without the numbers in them."""
    return re.sub(r"\d+", "", table[0]) if table else ""


def difference(here, there):
    """The first lines that differ, in words."""
    for one, other in zip([*here, ""], [*there, ""]):
        if one != other:
            return f"  here:    {one or '(no line)'}\n  the run: {other or '(no line)'}"
    return "  the number of lines"


def check(root, name, run, shape=False, bless=False):
    """What is wrong with the tables of experiment `name`, as one text each; with `bless` they are renewed."""
    wrong = []
    for path in pages(root):
        text = path.read_text()
        where = path.relative_to(root)
        try:
            found = [table for table in tables(text) if table[0] == name]
        except ValueError as error:
            wrong.append(f"{where}: {error}")
            continue
        lines = text.splitlines()
        # From the last on, so that numbers of lines stay true.
        for _, file, any_size, begin, end in reversed(found):
            source = run / file
            if not source.is_file():
                wrong.append(f"{where}:{begin + 1}: the run has no {file}")
                continue
            here = [line for line in lines[begin + 1 : end] if line.strip()]
            there = source.read_text().splitlines()
            if shape and not any_size and heading(here) == heading(there):
                continue
            if shape and not any_size:
                wrong.append(f"{where}:{begin + 1}: other columns than {source}:\n{difference(here[:1], there[:1])}")
            elif here != there and bless:
                lines[begin + 1 : end] = ["", *there, ""]
                print(f"{where}:{begin + 1}: renewed from {source}")
            elif here != there:
                wrong.append(f"{where}:{begin + 1}: not the table of {source}:\n{difference(here, there)}")
        if bless and found:
            path.write_text("\n".join(lines) + "\n")
    return wrong


def main():
    name, run = sys.argv[1], pathlib.Path(sys.argv[2])
    bless = os.environ.get("BLESS") == "1"
    wrong = check(ROOT, name, run, shape="--shape" in sys.argv[3:], bless=bless)
    if wrong:
        sys.exit("\n".join([*wrong, f"`BLESS=1 make gallery EXPERIMENT={name}` renews tables whose change is meant"]))


if __name__ == "__main__":
    main()
