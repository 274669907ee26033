//! The reference of virtual time: ns-3, where it is installed, compiled and run on the spot.
//!
//! `crates/bench/reference/` has a program for each kind of network, compiled by one call each;
//! headers and libraries are those of Debian's `libns3-dev` (`libns3-internet.so`), of another package or
//! of an own installation (`libns3.41-internet-optimized.so`), found by the library's name. Where there are
//! several builds, the optimised one is taken; the setup's name says which it is.
//!
//! Left out: building ns-3 itself.

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Setup;
use super::figures::{Figure, Outcome};
use super::lab::Lab;

/// Where libraries lie; headers are in the `include` of the same tree.
const TREES: [&str; 2] = ["/usr/local", "/usr"];
/// What to say where there is none.
const MISSING: &str = "not installed (package libns3-dev)";
/// The parts of ns-3 that the program needs.
const PARTS: [&str; 6] = [
    "point-to-point",
    "applications",
    "internet",
    "traffic-control",
    "network",
    "core",
];

/// An installation of ns-3.
#[derive(Debug, PartialEq)]
struct Installed {
    include: PathBuf,
    libraries: PathBuf,
    /// What stands before and after a part's name in that of its library.
    before: String,
    after: String,
}

impl Installed {
    /// How its libraries say they were built.
    fn build(&self) -> &str {
        match self.after.trim_start_matches('-') {
            "" => "the package's",
            profile => profile,
        }
    }
}

/// ns-3 as far as this machine has it, and one program that uses it.
pub(crate) struct Ns3 {
    installed: Option<Installed>,
    /// The program's name; its source is `NAME.cc`.
    name: &'static str,
    /// The compiled program, or why there is none.
    program: OnceCell<Result<PathBuf, String>>,
}

impl Ns3 {
    /// Looks for ns-3, to run the program `name`.
    pub(crate) fn find(name: &'static str) -> Self {
        Self {
            installed: TREES.iter().find_map(|tree| installed(Path::new(tree))),
            name,
            program: OnceCell::new(),
        }
    }

    /// Runs the program, compiling it first where this has not been done.
    fn run(&self, lab: &Lab, arguments: &[String]) -> io::Result<Outcome> {
        let program = self
            .program
            .get_or_init(|| self.compile(lab).map_err(|error| error.to_string()));
        let program = program
            .as_ref()
            .map_err(|error| io::Error::other(error.clone()))?;
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()?;
        let data: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            let text = format!(
                "ns-3 gave no figure ({}): {error}; {}",
                output.status,
                said.trim()
            );
            io::Error::other(text)
        })?;
        Ok(Outcome { data, health: None })
    }

    /// The reference of a group: one run of the program with these arguments.
    pub(crate) fn setup(self, arguments: Vec<String>, figures: Vec<Figure>) -> Setup {
        let name = match &self.installed {
            Some(installed) => format!("ns-3, {} libraries", installed.build()),
            None => format!("ns-3: {MISSING}"),
        };
        let command = format!("{} {}", self.name, arguments.join(" "));
        Setup::new(name, command, figures, move |lab| match self.installed {
            None => Ok(Outcome {
                data: json!({ "missing": MISSING }),
                health: None,
            }),
            Some(_) => self.run(lab, &arguments),
        })
    }

    fn compile(&self, lab: &Lab) -> io::Result<PathBuf> {
        let Some(installed) = &self.installed else {
            return Err(io::Error::other("ns-3 is not installed"));
        };
        let program = lab.folder()?.join(self.name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("reference")
            .join(format!("{}.cc", self.name));
        let output = Command::new("g++")
            .args(["-std=c++17", "-O3", "-DNDEBUG", "-I"])
            .arg(&installed.include)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&installed.libraries)
            .arg(format!("-Wl,-rpath,{}", installed.libraries.display()))
            .args(PARTS.map(|part| format!("-l{}{part}{}", installed.before, installed.after)))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| io::Error::new(error.kind(), format!("g++: {error}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let first: String = said.lines().take(3).collect::<Vec<_>>().join(" ");
            return Err(io::Error::other(format!("{}: {first}", source.display())));
        }
        Ok(program)
    }
}

/// The installation in a tree such as `/usr`: one that has headers and the library of a part.
fn installed(tree: &Path) -> Option<Installed> {
    let include = tree.join("include");
    let headers = fs::read_dir(&include)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    // Debian has include/ns3; others include/ns3.41/ns3.
    let include = std::iter::once(include.clone())
        .chain(headers.filter(|path| path.file_name().is_some_and(|name| starts(name, "ns3"))))
        .find(|path| path.join("ns3/core-module.h").is_file())?;
    let libraries = tree.join("lib");
    let deeper = fs::read_dir(&libraries)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    std::iter::once(libraries.clone())
        .chain(deeper.filter(|path| path.is_dir()))
        .chain([tree.join("lib64")])
        .find_map(|libraries| {
            let entries = fs::read_dir(&libraries).ok()?.flatten();
            let (before, after) = entries
                .filter_map(|entry| affixes(entry.file_name().to_str()?))
                .min_by_key(|(before, after)| (!after.contains("optimized"), before.clone()))?;
            Some(Installed {
                include: include.clone(),
                libraries,
                before,
                after,
            })
        })
}

fn starts(name: &std::ffi::OsStr, with: &str) -> bool {
    name.to_string_lossy().starts_with(with)
}

/// What stands around `internet` in the name of its library; `None` for any other file.
fn affixes(name: &str) -> Option<(String, String)> {
    let name = name.strip_prefix("lib")?.strip_suffix(".so")?;
    let (before, after) = name.split_once("-internet")?;
    let ours = before.starts_with("ns3") && !after.starts_with("-apps");
    ours.then(|| (format!("{before}-"), after.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        let some = |before: &str, after: &str| Some((before.to_owned(), after.to_owned()));
        assert_eq!(affixes("libns3-internet.so"), some("ns3-", ""));
        assert_eq!(
            affixes("libns3.41-internet-optimized.so"),
            some("ns3.41-", "-optimized")
        );
        for other in [
            "libns3-internet.so.37",
            "libns3-internet-apps.so",
            "libns3-core.so",
        ] {
            assert_eq!(affixes(other), None, "{other}");
        }
    }

    #[test]
    fn a_machine_without_it_says_so() {
        let nowhere = Ns3 {
            installed: installed(Path::new("/nonexistent")),
            name: "ns3_chain",
            program: OnceCell::new(),
        };
        let setup = nowhere.setup(vec!["--k=4".to_owned()], Vec::new());
        assert!(setup.name.contains("libns3-dev"), "{}", setup.name);
        assert_eq!(setup.command, "ns3_chain --k=4");
    }
}
