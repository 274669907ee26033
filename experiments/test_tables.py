"""Tables of documents against runs: `python3 -B -m unittest discover -s experiments`."""

import pathlib
import tempfile
import unittest

import findings
import tables

BEGIN = "<!-- table: make gallery EXPERIMENT=one, figures/one.md -->"
TABLE = "| who | Mbit/s |\n|---|---|\n| reno | 940 |"


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.page = self.root / "README.md"
        self.write(TABLE)
        (self.root / "run/figures").mkdir(parents=True)
        self.made = self.root / "run/figures/one.md"
        self.made.write_text(TABLE + "\n")

    def write(self, table):
        self.page.write_text(f"Before.\n\n{BEGIN}\n\n{table}\n\n{tables.END}\n\nAfter.\n")

    def check(self, **how):
        return tables.check(self.root, "one", self.root / "run", **how)

    def test_the_same_table_is_right_and_one_digit_makes_it_wrong(self):
        self.assertEqual(self.check(), [])
        self.write(TABLE.replace("940", "941"))
        (wrong,) = self.check()
        for part in ("README.md:3", "| reno | 941 |", "| reno | 940 |"):
            self.assertIn(part, wrong)

    def test_a_line_more_or_less_is_wrong(self):
        self.write(TABLE + "\n| bic | 947 |")
        self.assertIn("| bic | 947 |", self.check()[0])
        self.write(TABLE.rpartition("\n")[0])
        self.assertIn("(no line)", self.check()[0])

    def test_bless_renews_the_table_and_nothing_else(self):
        self.write(TABLE.replace("940", "941"))
        self.assertEqual(self.check(bless=True), [])
        self.assertEqual(self.check(), [])
        text = self.page.read_text()
        self.write(TABLE)
        self.assertEqual(self.page.read_text(), text)

    def test_another_size_has_the_same_columns(self):
        self.made.write_text(TABLE.replace("940", "1") + "\n| bic | 2 |\n")
        self.assertEqual(self.check(shape=True), [])
        self.made.write_text(TABLE.replace("Mbit/s", "MB/s"))
        self.assertIn("| who | MB/s |", self.check(shape=True)[0])

    def test_what_is_the_same_at_any_size_is_compared(self):
        self.page.write_text(self.page.read_text().replace(".md -->", ".md, at any size -->"))
        self.assertEqual(self.check(shape=True), [])
        self.made.write_text(TABLE.replace("940", "1") + "\n")
        self.assertIn("| reno | 940 |", self.check(shape=True)[0])

    def test_other_experiments_are_left_alone(self):
        self.assertEqual(tables.check(self.root, "two", self.root / "run"), [])

    def test_markers_that_mean_nothing_are_errors(self):
        for page in (f"{BEGIN}\n", f"{tables.END}\n", f"{BEGIN}\n{BEGIN}\n{tables.END}\n", "<!-- table: make it -->\n"):
            self.page.write_text(page)
            self.assertIn("line", self.check()[0], page)

    def test_a_run_without_the_file_is_an_error(self):
        self.made.unlink()
        self.assertIn("figures/one.md", self.check()[0])

    def test_every_page_of_the_repository_can_be_read(self):
        for page in tables.pages(tables.ROOT):
            for name, *_ in tables.tables(page.read_text()):
                self.assertTrue((tables.ROOT / "experiments" / name / "figure.py").is_file(), f"{page}: {name}")


class Findings(unittest.TestCase):
    def settle(self, lines, **how):
        """What a finding of 2 in 1 to 3, and one of 5, come to in a run with these lines."""
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            (run / "experiment.yaml").write_text("name: a\n" + lines)
            held = findings.Findings(run)
            held.expect("good", "2", 2.0, 1, 3)
            held.expect("bad", "2", 5.0, 1, 3, **how)
            try:
                held.settle(run / "findings.md")
            except SystemExit as error:
                return (run / "findings.md").read_text(), str(error)
            return (run / "findings.md").read_text(), None

    def test_what_does_not_hold_says_expected_measured_and_where(self):
        table, said = self.settle("")
        self.assertEqual(table.splitlines()[2:], ["| good | 2 | 1 to 3 | 2 |", "| bad | 2 | 1 to 3 | 5 |"])
        for part in ("bad: expected 1 to 3", "the paper: 2", "measured 5", "findings.md"):
            self.assertIn(part, said)
        self.assertNotIn("good", said)

    def test_a_changed_run_is_another_experiment(self):
        self.assertIsNone(self.settle("# run with --set duration=1 s\n")[1])
        self.assertIn("bad", self.settle("# run with --set duration=1 s\n", always=True)[1])

    def test_an_order_falls_and_nothing_measured_is_no_order(self):
        held = findings.Findings("run", full=True)
        held.order("who wins", "bbr", [("bbr", 3.0), ("cubic", 2.0), ("reno", 2.0)])
        self.assertEqual(held.failures, [])
        held.order("who wins", "bbr", [("bbr", 1.0), ("reno", 2.0)])
        held.order("who wins", "bbr", [("bbr", None), ("reno", 2.0)])
        self.assertEqual(len(held.failures), 2)
        self.assertIn("measured nothing", held.failures[1])


if __name__ == "__main__":
    unittest.main()
