//! Hostile experiment files and overrides: an answer or an error, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_plan::plan::Plan;

fuzz_target!(|text: &str| {
    // The first line is an override, the rest the file.
    let (set, file) = text.split_once('\n').unwrap_or(("", text));
    let overrides: Vec<(String, String)> = set
        .split_once('=')
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
    match Plan::from_text_with(file, "f.yaml", &overrides) {
        // 16 million packets without payload, or 1 GiB of whole ones.
        Ok(plan) => assert!(plan.memory_bytes() <= 3 << 30),
        Err(errors) => assert!(!errors.list().is_empty() && !errors.to_string().is_empty()),
    }
});
