//! Real data, where it is there.

use std::fs;
use std::path::PathBuf;

use longhaul_plan::topology::import::{self, ImportOptions};
use longhaul_plan::topology::{Kind, Sketch};

use crate::common::{names, trunks, us};
use crate::skip::skip;

/// The folder of real data, or none with a message.
pub(crate) fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("LONGHAUL_DATA").map(PathBuf::from);
    if folder.is_none() {
        skip("set LONGHAUL_DATA to the folder of topology-zoo/");
    }
    folder
}

#[test]
fn published_networks_are_whole() {
    let Some(data) = data() else { return };
    for name in ["Abilene", "Geant2012", "Cogentco"] {
        let path = |ending: &str| data.join(format!("topology-zoo/{name}.{ending}"));
        let import = |ending: &str| {
            import::read(&path(ending), &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"))
        };
        let gml = import("gml");
        let count = |ending: &str, needle: &str| {
            fs::read_to_string(path(ending))
                .unwrap()
                .matches(needle)
                .count()
        };
        let nodes = count("gml", "\n  node [");
        let links = count("gml", "\n  edge [");
        assert_eq!(nodes, count("graphml", "<node "), "{name}");
        assert_eq!(links, count("graphml", "<edge "), "{name}");
        assert_eq!(names(&gml, Kind::Router).len(), nodes, "{name}");
        assert_eq!(names(&gml, Kind::Host).len(), nodes, "{name}");
        assert_eq!(trunks(&gml).len(), links, "{name}");
        let speeds = count("gml", "LinkSpeedRaw") + count("gml", "LinkLabel \"OC");
        let rated = trunks(&gml)
            .iter()
            .filter(|trunk| trunk.3.is_some())
            .count();
        assert_eq!(rated, speeds, "{name}");
        assert_eq!(gml.components().1, 1);
        // The two files list links in orders of their own.
        let sorted = |sketch: &Sketch| {
            let mut trunks = trunks(sketch);
            trunks.sort_by(|a, b| a.partial_cmp(b).unwrap());
            trunks
        };
        let graphml = import("graphml");
        assert_eq!(sorted(&gml), sorted(&graphml), "{name}");
        assert_eq!(gml.nodes, graphml.nodes, "{name}");
        println!("{name}: {nodes} nodes, {links} links, {:#?}", gml.notes);
    }
}

#[test]
fn delays_follow_from_known_distances() {
    let Some(data) = data() else { return };
    let path = data.join("topology-zoo/Abilene.gml");
    let sketch = import::read(&path, &ImportOptions::default()).unwrap();
    // Distances between cities in kilometres, by geodesic calculators.
    let known = [
        ("New-York Washington-DC", 328.0),
        ("New-York Chicago", 1_145.0),
        ("Seattle Sunnyvale", 1_138.0),
        ("Los-Angeles Houston", 2_206.0),
    ];
    for (ends, km) in known {
        let (_, delay, ..) = trunks(&sketch).into_iter().find(|t| t.0 == ends).unwrap();
        let expected = km / 299_792.458 * 1.5 * 1e6;
        assert!(
            (delay / expected - 1.0).abs() < 0.01,
            "{ends}: {delay} us, {expected} us"
        );
    }
}

#[test]
fn measured_times_are_kept() {
    let Some(data) = data() else { return };
    let path = data.join("latency/PlanetLabData_1");
    let text = fs::read_to_string(&path).unwrap();
    let times: Vec<Vec<f64>> = text
        .lines()
        .map(|line| line.split('\t').map(|time| time.parse().unwrap()).collect())
        .collect();
    let sketch = import::read(&path, &ImportOptions::default()).unwrap();
    let hosts = times.len();
    assert_eq!((hosts, sketch.nodes.len()), (490, 490));
    assert_eq!(sketch.links.len(), hosts * (hosts - 1) / 2);
    for link in &sketch.links {
        let [a, b] = link.ends;
        assert_eq!(
            [&*sketch.nodes[a].name, &*sketch.nodes[b].name],
            [format!("h{a}"), format!("h{b}")]
        );
        let both = us(link.forward.delay) + us(link.back.unwrap_or(link.forward).delay);
        assert!((both / 1e3 - times[a][b]).abs() < 1e-5, "h{a} h{b}: {both}");
    }
}
