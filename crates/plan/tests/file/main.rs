//! The experiment file, from text to plan: what is right, what is wrong, and what is hostile.

use std::path::{Path, PathBuf};

use longhaul_plan::plan::Plan;

mod bad;
mod events;
mod example;
mod fields;
mod hostile;
mod links;
mod measure;
mod overrides;
mod recorded;
mod reference;
mod resources;
mod schema;
mod sets;
mod shapes;
mod table;

const EXAMPLE: &str = include_str!("../two-clusters.yaml");

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn example() -> Plan {
    Plan::from_text(EXAMPLE, "two-clusters.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(text: &str) -> String {
    Plan::from_text(text, "f.yaml")
        .expect_err("the file is wrong")
        .to_string()
}
