"""How figures read runs: `python3 -B -m unittest discover -s experiments`."""

import unittest

import run_data


def height(points, at):
    """The curve's value at a time, on the straight line between two points."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= at <= x1 and x1 > x0:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    raise AssertionError(f"nothing at {at}")


class Curves(unittest.TestCase):
    # Ten seconds without a change among thousands of changes, as BBR's window has them.
    busy = [(n / 1000, n) for n in range(1000)] + [(11, 4), (11.3, 1500)] + [(11.3 + n / 1000, 1000 + n % 7) for n in range(1, 1000)]

    def test_a_flat_part_stays_flat(self):
        steps = run_data.steps(self.busy, 13)
        thin = run_data.thin(steps, 200)
        self.assertLessEqual(len(thin), 200)
        for at in (1.5, 5, 10.5):
            self.assertEqual(height(thin, at), 999)

    def test_ends_and_extremes_stay(self):
        steps = run_data.steps(self.busy, 13)
        thin = run_data.thin(steps, 200)
        self.assertEqual((thin[0], thin[-1]), (steps[0], steps[-1]))
        for extreme in (min, max):
            self.assertEqual(extreme(y for _, y in thin), extreme(y for _, y in steps))
        self.assertEqual([x for x, _ in thin], sorted(x for x, _ in thin))

    def test_few_points_are_left_alone(self):
        self.assertEqual(run_data.thin(self.busy[:9], 9), self.busy[:9])


class Fairness(unittest.TestCase):
    def test_equal_rates_are_fair_and_one_of_four_is_a_quarter(self):
        self.assertEqual((run_data.jain([3.0, 3.0]), run_data.jain([5.0, 0, 0, 0])), (1, 0.25))


class Quantiles(unittest.TestCase):
    def test_nearest_rank(self):
        self.assertEqual([run_data.quantile([1, 2, 3, 4], part) for part in (0, 0.5, 0.9, 1)], [1, 3, 4, 4])


if __name__ == "__main__":
    unittest.main()
