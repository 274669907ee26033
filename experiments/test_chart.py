"""What the gallery's figures are drawn and written by: `python3 -B -m unittest discover -s experiments`."""

import pathlib
import re
import tempfile
import unittest
import xml.etree.ElementTree as tree

import chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels):
    """The parsed figure of these panels in one row."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figures" / "one.svg"
        chart.save(path, "A figure", [panels])
        return tree.parse(path).getroot()


def texts(figure):
    return [text.text for text in figure.iter(f"{SVG}text")]


class Axes(unittest.TestCase):
    def test_ticks_are_round_and_inside(self):
        self.assertEqual(chart.ticks(0, 1600), [0, 500, 1000, 1500])
        self.assertEqual(chart.ticks(-15, 15, 5), [-10, 0, 10])
        for low, high in [(0, 7e-9), (3, 97), (-2.5, 1e12)]:
            found = chart.ticks(low, high)
            self.assertTrue(2 <= len(found) <= 8, found)
            self.assertTrue(low <= min(found) and max(found) <= high, found)

    def test_labels_have_the_decimals_of_their_step(self):
        self.assertEqual(chart.labels([0, 0.5, 1.0]), ["0.0", "0.5", "1.0"])
        self.assertEqual(chart.labels([0.0, 0.05, 0.1]), ["0.00", "0.05", "0.10"])
        self.assertEqual(chart.labels([0, 10000, 20000]), ["0", "10,000", "20,000"])
        self.assertEqual(chart.labels([0, 5000, 10000]), ["0", "5,000", "10,000"])
        self.assertEqual(chart.labels([-0.1, -1e-17, 0.1]), ["-0.1", "0.0", "0.1"])

    def test_sizes_and_rates_are_in_their_units(self):
        self.assertEqual([chart.size(count) for count in (512, 1024, 65536, 1 << 20)], ["512 B", "1 KiB", "64 KiB", "1 MiB"])
        self.assertEqual([chart.rate(bps) for bps in (8e3, 1e7, 1.5e9)], ["8 kbit/s", "10 Mbit/s", "1.5 Gbit/s"])

    def test_the_upper_end_is_round_and_above_all_data(self):
        panel = chart.Panel("t", "x", "y")
        panel.line("", [(0, 0), (3, 941)])
        self.assertEqual(panel.extent(), ((0, 3), (0, 1000)))
        panel.line("", [(0, 1000)])
        self.assertEqual(panel.extent()[1], (0, 1200))

    def test_an_axis_starts_at_zero_where_that_is_near(self):
        for first, start in ((0.5, 0), (5, 5)):
            panel = chart.Panel("t", "x", "y")
            panel.line("", [(first, 1), (10, 2)])
            self.assertEqual(panel.extent()[0], (start, 10))

    def test_a_logarithmic_axis_places_factors_at_equal_distances(self):
        panel = chart.Panel("t", "x", "y", x_log=True, x_ticks=[(1, "one"), (10, "ten"), (100, "hundred")])
        panel.dots("", [(1, 1), (10, 1), (100, 1)])
        figure = drawn(panel)
        at = [float(circle.get("cx")) for circle in figure.iter(f"{SVG}circle")]
        self.assertAlmostEqual(at[1] - at[0], at[2] - at[1], places=1)
        self.assertTrue({"one", "ten", "hundred"} <= set(texts(figure)))


    def test_counts_have_no_fractions(self):
        panel = chart.Panel("t", "x", "y", y_range=(0, 3), counts=True)
        panel.dots("", [(0, 1), (9, 2)])
        self.assertEqual([text for text in texts(drawn(panel)) if text and "." in text], [])


class Panels(unittest.TestCase):
    def test_categories_have_names_and_columns_stand_side_by_side(self):
        panel = chart.Panel("t", "x", "y", categories=["none", "one link", "all links"])
        panel.columns("first", [(0, 1), (1, 2), (2, 3)], 0)
        panel.columns("second", [(0, 3), (1, 2), (2, 1)], 1)
        figure = drawn(panel)
        self.assertTrue({"none", "one link", "all links"} <= set(texts(figure)))
        group = next(figure.iter(f"{SVG}g"))
        spans = [(float(box.get("x")), float(box.get("width"))) for box in group.iter(f"{SVG}rect")]
        spans.sort()
        self.assertEqual(len(spans), 6)
        for (left, wide), (right, _) in zip(spans, spans[1:]):
            self.assertLessEqual(left + wide, right)

    def test_the_key_stands_above_the_axes(self):
        panel = chart.Panel("t", "x", "y")
        for number in range(9):
            panel.line(f"a series with a long name, number {number}", [(0, 0), (1, 1)])
        above, _ = panel.margins()
        ends = [left + 30 + chart.LETTER * len(one[1]) for row in panel.key_rows() for left, one in row]
        self.assertEqual(len(ends), 9)
        self.assertLessEqual(max(ends), chart.WIDTH - chart.LEFT)
        figure = drawn(panel)
        names = [text for text in figure.iter(f"{SVG}text") if text.text.startswith("a series")]
        clip = next(figure.iter(f"{SVG}clipPath")).find(f"{SVG}rect")
        self.assertLess(max(float(text.get("y")) for text in names), float(clip.get("y")) + 4)

    def test_a_line_of_one_point_is_a_dot(self):
        panel = chart.Panel("t", "x", "y")
        panel.line("", [(10, 5)])
        self.assertEqual(len(list(drawn(panel).iter(f"{SVG}circle"))), 1)

    def test_panels_of_a_row_have_their_axes_at_one_height(self):
        short, tall = chart.Panel("a", "x", "y"), chart.Panel("b", "x", "y")
        for panel, names in ((short, 1), (tall, 8)):
            for number in range(names):
                panel.line(f"a series with a long name, number {number}", [(0, 0), (1, 1)])
        cuts = [float(cut.find(f"{SVG}rect").get("y")) for cut in drawn(short, tall).iter(f"{SVG}clipPath")]
        self.assertEqual(cuts[0], cuts[1])

    def test_every_colour_has_one_for_dark_paper(self):
        panel = chart.Panel("t", "x", "y", categories=["a"])
        for colour in range(len(chart.COLOURS)):
            panel.line(f"{colour}", [(0, 1)], colour)
            panel.dots("", [(0, 1)], colour)
            panel.dots("", [(0, 1)], colour, hollow=True)
        figure = drawn(panel)
        dark = next(figure.iter(f"{SVG}style")).text
        for element in figure.iter():
            inked = [kind for kind in ("fill", "stroke") if element.get(kind, "none") != "none"]
            used = (element.get("class") or "").split()
            self.assertEqual(len(used), len(inked), element.attrib)
            for name in used:
                self.assertIn(f".{name}{{", dark)

    def test_text_is_readable_on_its_paper(self):
        def luminance(colour):
            parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        def contrast(one, other):
            low, high = sorted((luminance(one), luminance(other)))
            return (high + 0.05) / (low + 0.05)

        # 4.5 is what WCAG 2 demands of text, 3 of graphics.
        for paper, series in ((chart.LIGHT, chart.COLOURS), (chart.DARK, chart.DARK_COLOURS)):
            self.assertGreater(contrast(paper["ink"], paper["paper"]), 4.5)
            for colour in series:
                self.assertGreater(contrast(colour, paper["paper"]), 3)

    def test_names_cannot_become_markup(self):
        panel = chart.Panel("<b>&", "<i>", "y", categories=["<script>"])
        panel.dots("a<b", [(0, 1)])
        self.assertTrue({"<b>&", "<i>", "a<b"} <= set(texts(drawn(panel))))


class Tables(unittest.TestCase):
    def test_numbers_have_three_digits_or_are_whole(self):
        cells = [chart.number(value) for value in (0.12345, 99.96, 999.7, 12345.6, 7, None, "a")]
        self.assertEqual(cells, ["0.123", "100", "1000", "12346", "7", "", "a"])

    def test_a_table_is_one_of_markdown(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.md"
            chart.save_table(path, ["who", "Mbit/s"], [["reno", 940.4], ["bbr", None]])
            self.assertEqual(path.read_text(), "| who | Mbit/s |\n|---|---|\n| reno | 940 |\n| bbr |  |\n")

    def test_data_are_those_of_the_figure(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new" / "t.csv"
            chart.save_csv(path, ["a", "b"], [[1, 2.0], [None, "x"]])
            self.assertTrue(re.fullmatch(r"a,b\n1,2\.000\n,x\n", path.read_text()))


if __name__ == "__main__":
    unittest.main()
