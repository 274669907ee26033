//! Distances on the Earth, and what light in a fibre needs for them.
//!
//! The haversine formula on a sphere of the Earth's mean radius (IUGG, 6371.0088 km) is within
//! 0.6 % of the distance on the ellipsoid. Fibres do not follow great circles, so delays are
//! lower bounds; [`Speed`](super::Speed) can make up for that.

use longhaul_core::Span;

/// The Earth's mean radius in metres (IUGG).
const RADIUS_M: f64 = 6_371_008.8;
/// The speed of light in vacuum in metres per second.
const LIGHT_M_PER_S: f64 = 299_792_458.0;

/// Longitude and latitude in degrees.
pub(super) type Position = (f64, f64);

/// Whether these are a longitude and a latitude.
pub(super) fn is_on_earth((longitude, latitude): Position) -> bool {
    (-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude)
}

/// The great-circle distance in metres.
pub(super) fn distance_m(a: Position, b: Position) -> f64 {
    let half = |x: f64, y: f64| {
        let sine = libm::sin((y - x).to_radians() / 2.0);
        sine * sine
    };
    let cosines = libm::cos(a.1.to_radians()) * libm::cos(b.1.to_radians());
    let chord = half(a.1, b.1) + cosines * half(a.0, b.0);
    2.0 * RADIUS_M * libm::asin(chord.clamp(0.0, 1.0).sqrt())
}

/// How long a signal of `fraction` of the speed of light travels; whole microseconds.
pub(super) fn delay(distance_m: f64, fraction: f64) -> Span {
    let us = distance_m / (LIGHT_M_PER_S * fraction) * 1e6;
    Span::from_us(us.round() as u64)
}

/// The point in the middle of others; none where they have no middle, as opposite poles.
pub(super) fn middle(positions: &[Position]) -> Option<Position> {
    let mut sum = [0.0; 3];
    for (longitude, latitude) in positions {
        let (lambda, phi) = (longitude.to_radians(), latitude.to_radians());
        sum[0] += libm::cos(phi) * libm::cos(lambda);
        sum[1] += libm::cos(phi) * libm::sin(lambda);
        sum[2] += libm::sin(phi);
    }
    let level = libm::hypot(sum[0], sum[1]);
    if libm::hypot(level, sum[2]) < 1e-9 {
        return None;
    }
    let longitude = libm::atan2(sum[1], sum[0]).to_degrees();
    Some((longitude, libm::atan2(sum[2], level).to_degrees()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_sphere() {
        let quarter = RADIUS_M * std::f64::consts::FRAC_PI_2;
        let cases = [
            ((0.0, 0.0), (90.0, 0.0), quarter),
            ((10.0, 90.0), (-70.0, 0.0), quarter),
            ((0.0, 0.0), (180.0, 0.0), 2.0 * quarter),
            ((179.0, 0.0), (-179.0, 0.0), quarter / 45.0),
            ((7.0, 50.0), (7.0, 50.0), 0.0),
        ];
        for (a, b, expected) in cases {
            let distance = distance_m(a, b);
            assert!(
                (distance - expected).abs() < 1e-3,
                "{a:?} {b:?}: {distance}"
            );
        }
    }

    #[test]
    fn light_in_a_fibre_needs_five_milliseconds_for_a_thousand_kilometres() {
        // 10^6 m / (2/3 · 299 792 458 m/s) = 5.0035 ms.
        assert_eq!(delay(1e6, 2.0 / 3.0), Span::from_us(5003));
    }

    #[test]
    fn the_middle_lies_between() {
        let (longitude, latitude) = middle(&[(170.0, 0.0), (-170.0, 0.0)]).unwrap();
        assert!((longitude.abs() - 180.0).abs() < 1e-9 && latitude.abs() < 1e-9);
        assert_eq!(middle(&[(0.0, 90.0), (0.0, -90.0)]), None);
        assert_eq!(middle(&[]), None);
    }
}
