"""Draws the figures of the gallery: panels of points, ranges and lines as one SVG file.

Python's standard library only, so that a fresh machine can draw. Axes are linear and start where
the data do, or at zero; the file needs no style sheet, no font and no script.

Left out: everything that the gallery's figures do not use.
"""

import math
import pathlib
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 520, 340
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 30, 44
COLOURS = ["#1f5fa8", "#d1660a", "#2f8f4e", "#666666"]
KEY_ROW = 15


def ticks(low, high, wanted=6):
    """Round numbers from `low` to `high`, about `wanted` of them."""
    span = high - low or 1.0
    decade = 10.0 ** math.floor(math.log10(span / wanted))
    step = next((m * decade for m in (1, 2, 5, 10) if m * decade * wanted >= span * (1 - 1e-9)))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def label(value):
    return f"{round(value, 6):g}" if abs(value) < 1e6 else f"{value:.0f}"


class Panel:
    """One pair of axes. Points are (x, y); a range is (x, low, high); a bar is (x1, x2, y).

    Without `x_range` and `y_range` the axes take in all data; what lies outside them is cut off.
    """

    def __init__(self, title, x, y, x_range=None, y_range=None):
        self.title, self.x_name, self.y_name = title, x, y
        self.x_range, self.y_range = x_range, y_range
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

    def extent(self):
        xs, ys = [], []
        for kind, _, points, _, _ in self.series:
            for point in points:
                xs += point[:2] if kind == "bars" else point[:1]
                ys += point[2:] if kind == "bars" else point[1:]
        x_range = self.x_range or (min(xs), max(xs))
        inside = self.y_range or (min(0, *ys), max(ys) * 1.05 or 1)
        return x_range, inside

    def draw(self, left, top):
        """The panel's SVG, its upper left corner at (left, top)."""
        (x0, x1), (y0, y1) = self.extent()
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        place = lambda x, y: (
            left + LEFT + width * (x - x0) / ((x1 - x0) or 1),
            top + TOP + height * (1 - (y - y0) / ((y1 - y0) or 1)),
        )
        out = [f'<text x="{left + LEFT}" y="{top + 18}" font-weight="bold">{escape(self.title)}</text>']
        for tick in ticks(y0, y1):
            x, y = place(x0, tick)
            out.append(f'<path d="M{x:.1f} {y:.1f}h{width}" stroke="#ddd"/>')
            out.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>')
        for tick in ticks(x0, x1):
            x, y = place(tick, y0)
            out.append(f'<path d="M{x:.1f} {y:.1f}v4" stroke="#444"/>')
            out.append(f'<text x="{x:.1f}" y="{y + 17:.1f}" text-anchor="middle">{label(tick)}</text>')
        x, y = place(x0, y0)
        out.append(f'<path d="M{x:.1f} {y:.1f}h{width}M{x:.1f} {y:.1f}v{-height}" stroke="#444"/>')
        middle = left + LEFT + width / 2
        out.append(f'<text x="{middle:.1f}" y="{top + HEIGHT - 8}" text-anchor="middle">{escape(self.x_name)}</text>')
        turn = f"translate({left + 14} {top + TOP + height / 2:.1f}) rotate(-90)"
        out.append(f'<text transform="{turn}" text-anchor="middle">{escape(self.y_name)}</text>')
        # What lies outside the axes is cut off, but for half a mark.
        cut = f'x="{left + LEFT - 4}" y="{top + TOP - 4}" width="{width + 8}" height="{height + 8}"'
        name = f"cut-{left}-{top}"
        out.append(f'<clipPath id="{name}"><rect {cut}/></clipPath><g clip-path="url(#{name})">')
        for one in self.series:
            out += mark(one, place)
        return [*out, "</g>", *self.key(left, top)]

    def key(self, left, top):
        """The names of the series, in the upper left corner."""
        names = [name for _, name, _, _, _ in self.series if name]
        wide, tall = 34 + 6 * max(map(len, names), default=0), 8 + KEY_ROW * len(names)
        box = f'x="{left + LEFT + 1}" y="{top + TOP + 1}" width="{wide:.0f}" height="{tall}"'
        out, row = [f'<rect {box} fill="#fff" fill-opacity="0.85"/>'] if names else [], 0
        for kind, name, _, colour, extra in self.series:
            if not name:
                continue
            x, y = left + LEFT + 12, top + TOP + 12 + row * KEY_ROW
            sample = {"line": [(-6, 0), (8, 0)], "ranges": [(0, -5, 5)], "bars": [(-6, 8, 0)]}
            points = sample.get(kind, [(0, 0)])
            out += mark((kind, "", points, colour, extra), lambda a, b: (x + a, y - b))
            out.append(f'<text x="{x + 14}" y="{y + 4}">{escape(name)}</text>')
            row += 1
        return out


def mark(series, place):
    """The SVG of one series, `place` turning its values into positions."""
    kind, _, points, colour, extra = series
    ink = COLOURS[colour]
    if kind == "line":
        path = " ".join("%.1f,%.1f" % place(*point) for point in points)
        dash = ' stroke-dasharray="5 4"' if extra else ""
        return [f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="1.3"{dash}/>']
    if kind == "ranges":
        ends = [(place(x, low), place(x, high)) for x, low, high in points]
        path = "".join("M%.1f %.1fV%.1f" % (*a, b[1]) for a, b in ends)
        return [f'<path d="{path}" stroke="{ink}" stroke-opacity="0.45" stroke-width="2"/>']
    if kind == "bars":
        ends = [(place(a, y), place(b, y)) for a, b, y in points]
        path = "".join("M%.1f %.1fH%.1f" % (*a, b[0]) for a, b in ends)
        return [f'<path d="{path}" stroke="{ink}" stroke-opacity="0.5"/>']
    where = [place(*point) for point in points]
    if kind == "squares":
        return [f'<rect x="{x - 2.5:.1f}" y="{y - 2.5:.1f}" width="5" height="5" fill="{ink}"/>' for x, y in where]
    fill = f'fill="#fff" stroke="{ink}"' if extra else f'fill="{ink}"'
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.8 if extra else 2.2}" {fill}/>' for x, y in where]


def save(path, title, rows):
    """Writes `rows` of panels to `path`, and makes its folder."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = max(map(len, rows)) * WIDTH, len(rows) * HEIGHT + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{width / 2}" y="24" text-anchor="middle" font-size="16">{escape(title)}</text>',
    ]
    for row, panels in enumerate(rows):
        for column, panel in enumerate(panels):
            out += panel.draw(column * WIDTH, 34 + row * HEIGHT)
    path.write_text("\n".join([*out, "</svg>\n"]))


def save_csv(path, names, rows):
    """Writes the figure's data: one line of names, then `rows`; None is an empty field."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    field = lambda value: "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
    lines = [",".join(names), *(",".join(map(field, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def save_table(path, names, rows):
    """Writes `rows` as a table of Markdown, numbers to three digits or whole, for a README."""
    field = lambda value: f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else (
        f"{value:.0f}" if isinstance(value, float) else "" if value is None else str(value)
    )
    line = lambda cells: "| " + " | ".join(map(field, cells)) + " |"
    ruler = "|" + "---|" * len(names)
    pathlib.Path(path).write_text("\n".join([line(names), ruler, *map(line, rows)]) + "\n")
