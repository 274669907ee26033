"""Draws the figures of the gallery: panels of points, ranges, lines and columns as one SVG file.

Python's standard library only, so that a fresh machine can draw. The file needs no font and no script; it
follows its reader's light or dark colour scheme, and is light where the viewer knows no style sheets. An axis
is linear, logarithmic or of categories. The key stands above the axes, so it covers no data.

Left out: everything that the gallery's figures do not use.
"""

import math
import pathlib
from xml.sax.saxutils import escape

WIDTH, PLOT_HEIGHT = 520, 262
LEFT, RIGHT, TITLE, BOTTOM = 70, 22, 26, 40
HEAD = 38  # of the whole figure
# Colours of series on light and on dark paper; the fourth is that of theory.
COLOURS = ["#1f5fa8", "#c4570a", "#237a41", "#666666", "#7d3fa8"]
DARK_COLOURS = ["#79b0ff", "#ff9d4d", "#5fcf8a", "#b4b8bf", "#cf9cff"]
KEY_ROW, LABEL_ROW, LETTER = 16, 14, 6.2
X_TICKS, Y_TICKS = 7, 6
LIGHT = {"paper": "#ffffff", "ink": "#222222", "grid": "#dddddd", "axis": "#555555"}
DARK = {"paper": "#15181d", "ink": "#e8e8e8", "grid": "#363b43", "axis": "#9aa0a6"}


def step_of(low, high, wanted):
    """The step between round numbers, 1, 2 or 5 times a power of ten: at most `wanted` from `low` to `high`."""
    span = high - low or 1.0
    decade = 10.0 ** math.floor(math.log10(span / wanted))
    return next((m * decade for m in (1, 2, 5, 10) if m * decade * wanted >= span * (1 - 1e-9)))


def ticks(low, high, wanted=6):
    """Round numbers from `low` to `high`, about `wanted` of them."""
    step = step_of(low, high, wanted)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def labels(values):
    """Equally spaced values as text, with the decimals that their spacing needs."""
    step = abs(values[1] - values[0]) if len(values) > 1 else abs(values[0]) if values else 1
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    group = "," if max(map(abs, values), default=0) >= 1e4 else ""
    text = lambda value: f"{value + 0.0:{group}.{decimals}f}"
    return [text(0.0 if abs(value) < step * 1e-6 else value) for value in values]


def scaled(value, steps, names):
    """A value in the largest of its units that leaves at least 1: `64 KiB`, `1.5 Gbit/s`."""
    power = 0
    while power + 1 < len(names) and abs(value) >= steps:
        value, power = value / steps, power + 1
    return f"{value:.3g} {names[power]}"


def size(count):
    """A number of bytes as a size."""
    return scaled(count, 1024, ["B", "KiB", "MiB", "GiB"])


def rate(bps):
    """Bits per second as a rate."""
    return scaled(bps, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])


def wrap(text, letters):
    """Text in lines of at most so many letters where its spaces allow it; a line break in it stays."""
    lines = []
    for part in text.split("\n"):
        line = ""
        for word in part.split():
            if line and len(line) + 1 + len(word) > letters:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines.append(line)
    return lines


def paint(property, role, more=""):
    """Attributes of a colour: a role of LIGHT, or the number of a series."""
    colour = COLOURS[role] if isinstance(role, int) else LIGHT[role]
    return f'class="{property[0]}-{role}" {property}="{colour}"{more}'


def style():
    """What dark paper changes."""
    roles = [*DARK.items(), *enumerate(DARK_COLOURS)]
    rules = "".join(f".{kind[0]}-{role}{{{kind}:{colour}}}" for role, colour in roles for kind in ("fill", "stroke"))
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"


def words(x, y, text, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {paint("fill", "ink", more)}>{escape(text)}</text>'


class Panel:
    """One pair of axes. Points are (x, y); a range is (x, low, high); a bar is (x1, x2, y).

    Without `x_range` and `y_range` the axes take in all data, and zero where that is near; what lies outside them
    is cut off.
    `categories` names the places 0, 1, … of the x axis. `x_log` makes it logarithmic. `x_ticks` are the
    (x, text) to name on it instead of round numbers. With `counts` there are no fractions on the y axis.
    """

    def __init__(self, title, x, y, x_range=None, y_range=None, categories=None, x_log=False, x_ticks=None, counts=False):
        self.title, self.x_name, self.y_name = title, x, y
        self.x_range, self.y_range = x_range, y_range
        self.categories, self.x_log, self.x_ticks, self.counts = categories, x_log, x_ticks, counts
        self.series = []

    def line(self, name, points, colour=3, dashed=False):
        self.series.append(("line", name, list(points), colour, dashed))

    def dots(self, name, points, colour=0, hollow=False):
        self.series.append(("dots", name, list(points), colour, hollow))

    def squares(self, name, points, colour=0):
        self.series.append(("squares", name, list(points), colour, None))

    def ranges(self, name, ranges, colour=0):
        self.series.append(("ranges", name, list(ranges), colour, None))

    def bars(self, name, bars, colour=3):
        self.series.append(("bars", name, list(bars), colour, None))

    def columns(self, name, points, colour=0):
        """Columns from zero up; those of several series stand side by side."""
        self.series.append(("columns", name, list(points), colour, None))

    def extent(self):
        """The ends of both axes: the upper end of y is a round number unless it is given."""
        xs, ys = [], []
        for kind, _, points, _, _ in self.series:
            for point in points:
                xs += point[:2] if kind == "bars" else point[:1]
                ys += point[2:] if kind == "bars" else point[1:]
        xs, ys = xs or [0, 1], ys or [0, 1]
        if self.categories:
            x_range = (-0.5, len(self.categories) - 0.5)
        else:
            begin = 0 if not self.x_log and 0 < min(xs) <= max(xs) / 10 else min(xs)
            x_range = self.x_range or (begin, max(xs) if max(xs) > begin else begin + 1)
        low, high = min(0, *ys), max(ys) if max(ys) > min(0, *ys) else min(0, *ys) + 1
        step = step_of(low, high * 1.02, Y_TICKS)
        return x_range, self.y_range or (low, math.ceil(high * 1.02 / step - 1e-9) * step)

    def names(self, x_range):
        """The (x, lines of text) that are written below the x axis."""
        if self.categories:
            letters = max(4, int((WIDTH - LEFT - RIGHT) / len(self.categories) / LETTER) - 1)
            return [(at, wrap(name, letters)) for at, name in enumerate(self.categories)]
        if self.x_ticks:
            return [(x, wrap(text, 100)) for x, text in self.x_ticks]
        values = ticks(*x_range, X_TICKS)
        return [(x, [text]) for x, text in zip(values, labels(values))]

    def key_rows(self):
        """The series with names in the rows of the key: (left, series)."""
        rows, left = [], WIDTH
        for one in self.series:
            if not one[1]:
                continue
            wide = 30 + LETTER * len(one[1]) + 14
            if left + wide > WIDTH - LEFT - RIGHT + 14:
                rows.append([])
                left = 0
            rows[-1].append((left, one))
            left += wide
        return rows

    def margins(self):
        """The heights above and below the axes."""
        below = max((len(lines) for _, lines in self.names(self.extent()[0])), default=1)
        return TITLE + KEY_ROW * len(self.key_rows()) + 8, BOTTOM + LABEL_ROW * (below - 1)

    def draw(self, left, top, above):
        """The panel's SVG, its upper left corner at (left, top), with axes at `above` below it."""
        (x0, x1), (y0, y1) = self.extent()
        width, height = WIDTH - LEFT - RIGHT, PLOT_HEIGHT
        turned = math.log if self.x_log else float
        place = lambda x, y: (
            left + LEFT + width * (turned(x) - turned(x0)) / ((turned(x1) - turned(x0)) or 1),
            top + above + height * (1 - (y - y0) / ((y1 - y0) or 1)),
        )
        out = [words(left + LEFT, top + 18, self.title, more=' font-weight="bold"')]
        values = ticks(y0, y1, Y_TICKS)
        if self.counts and y1 - y0 <= 12:
            values = list(range(math.ceil(y0), math.floor(y1) + 1))
        for tick, text in zip(values, labels(values)):
            x, y = place(x0, tick)
            out.append(f'<path d="M{x:.1f} {y:.1f}h{width}" {paint("stroke", "grid")}/>')
            out.append(words(x - 6, y + 4, text, "end"))
        for tick, lines in self.names((x0, x1)):
            x, y = place(tick, y0)
            if not self.categories:
                out.append(f'<path d="M{x:.1f} {y:.1f}v4" {paint("stroke", "axis")}/>')
            out += [words(x, y + 17 + LABEL_ROW * n, text, "middle") for n, text in enumerate(lines)]
        x, y = place(x0, y0)
        out.append(f'<path d="M{x:.1f} {y:.1f}h{width}M{x:.1f} {y:.1f}v{-height}" {paint("stroke", "axis")}/>')
        below = self.margins()[1]
        out.append(words(left + LEFT + width / 2, top + above + height + below - 6, self.x_name, "middle"))
        turn = f' transform="translate({left + 15} {top + above + height / 2:.1f}) rotate(-90)"'
        out.append(words(0, 0, self.y_name, "middle", turn))
        # What lies outside the axes is cut off, but for half a mark.
        cut = f'x="{left + LEFT - 4}" y="{top + above - 4}" width="{width + 8}" height="{height + 8}"'
        name = f"cut-{left}-{top}"
        out.append(f'<clipPath id="{name}"><rect {cut}/></clipPath><g clip-path="url(#{name})">')
        count = sum(one[0] == "columns" for one in self.series)
        at = 0
        for one in self.series:
            if one[0] == "columns":
                out += columns(one, place, at, count)
                at += 1
            else:
                out += mark(one, place)
        return [*out, "</g>", *self.key(left, top)]

    def key(self, left, top):
        """The names of the series, between the title and the axes."""
        out = []
        for row, entries in enumerate(self.key_rows()):
            for start, (kind, name, _, colour, extra) in entries:
                x, y = left + LEFT + start + 8, top + TITLE + 8 + row * KEY_ROW
                sample = {"line": [(-8, 0), (10, 0)], "ranges": [(0, -5, 5)], "bars": [(-8, 10, 0)]}
                if kind == "columns":
                    out.append(f'<rect x="{x - 6}" y="{y - 5}" width="12" height="10" {paint("fill", colour)}/>')
                else:
                    out += mark((kind, "", sample.get(kind, [(0, 0)]), colour, extra), lambda a, b: (x + a, y - b))
                out.append(words(x + 16, y + 4, name))
        return out


def columns(series, place, at, count):
    """The SVG of a series of columns, which is number `at` of `count`."""
    wide = 0.76 / count
    out = []
    for x, value in series[2]:
        start, end = (place(x - 0.38 + wide * n, 0) for n in (at, at + 1))
        top = place(x, value)[1]
        y, tall = min(top, start[1]), abs(start[1] - top)
        box = f'x="{start[0]:.1f}" y="{y:.1f}" width="{max(end[0] - start[0] - 1.5, 1):.1f}" height="{tall:.1f}"'
        out.append(f'<rect {box} {paint("fill", series[3])}/>')
    return out


def mark(series, place):
    """The SVG of one series, `place` turning its values into positions."""
    kind, _, points, colour, extra = series
    stroke = paint("stroke", colour)
    if kind == "line" and len(points) == 1:  # which would be no line
        kind, extra = "dots", False
    if kind == "line":
        path = " ".join("%.1f,%.1f" % place(*point) for point in points)
        dash = ' stroke-dasharray="5 4"' if extra else ""
        return [f'<polyline points="{path}" fill="none" stroke-width="1.5" {stroke}{dash}/>']
    if kind == "ranges":
        ends = [(place(x, low), place(x, high)) for x, low, high in points]
        path = "".join("M%.1f %.1fV%.1f" % (*a, b[1]) for a, b in ends)
        return [f'<path d="{path}" stroke-opacity="0.55" stroke-width="2" {stroke}/>']
    if kind == "bars":
        ends = [(place(a, y), place(b, y)) for a, b, y in points]
        path = "".join("M%.1f %.1fH%.1f" % (*a, b[0]) for a, b in ends)
        return [f'<path d="{path}" stroke-opacity="0.6" {stroke}/>']
    where = [place(*point) for point in points]
    if kind == "squares":
        box = lambda x, y: f'x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"'
        return [f'<rect {box(x, y)} {paint("fill", colour)}/>' for x, y in where]
    if extra:
        # A class each for paper and ink: the later attribute of one element would be ignored.
        ring = f'stroke-width="1.4" class="f-paper s-{colour}" fill="{LIGHT["paper"]}" stroke="{COLOURS[colour]}"'
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" {ring}/>' for x, y in where]
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {paint("fill", colour)}/>' for x, y in where]


def save(path, title, rows):
    """Writes `rows` of panels to `path`, and makes its folder. Axes of a row stand at one height."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    margins = [[max(of) for of in zip(*(panel.margins() for panel in panels))] for panels in rows]
    heights = [above + PLOT_HEIGHT + below + 8 for above, below in margins]
    width, height = max(map(len, rows)) * WIDTH, sum(heights) + HEAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>{style()}",
        f'<rect width="{width}" height="{height}" {paint("fill", "paper")}/>',
        words(width / 2, 25, title, "middle", ' font-size="16"'),
    ]
    top = HEAD
    for panels, (above, _), tall in zip(rows, margins, heights):
        for column, panel in enumerate(panels):
            out += panel.draw(column * WIDTH, top, above)
        top += tall
    path.write_text("\n".join([*out, "</svg>\n"]))


def save_csv(path, names, rows):
    """Writes the figure's data: one line of names, then `rows`; None is an empty field."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    field = lambda value: "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
    lines = [",".join(names), *(",".join(map(field, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def number(value):
    """A value as a cell of a table: fractions to three digits, no fraction from 1000 on."""
    if value is None or not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def save_table(path, names, rows):
    """Writes `rows` as a table of Markdown, for a README."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = lambda cells: "| " + " | ".join(map(number, cells)) + " |"
    ruler = "|" + "---|" * len(names)
    path.write_text("\n".join([line(names), ruler, *map(line, rows)]) + "\n")
