//! The bench that every live test works at: a scratch folder, one run at a time, tools.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::skip::skip;
use crate::traces::{self, Machine, Namespaces, Process};

/// The binary under test.
const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");
/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a run's remains may be visible after its end.
pub(crate) const GONE_WITHIN: Duration = Duration::from_secs(1);
/// How often a run that is waited for is searched for its namespaces.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The user and group of nobody, who owns nothing.
const NOBODY: u32 = 65534;

/// Helper programs, written into every scratch folder.
const SCRIPTS: [(&str, &str); 17] = [
    ("arrivals.py", include_str!("py/arrivals.py")),
    ("control.py", include_str!("py/control.py")),
    ("hungry.py", include_str!("py/hungry.py")),
    ("info.py", include_str!("py/info.py")),
    ("isolated.py", include_str!("py/isolated.py")),
    ("jumbo.py", include_str!("py/jumbo.py")),
    ("lan.py", include_str!("py/lan.py")),
    ("names.py", include_str!("py/names.py")),
    ("network.py", include_str!("py/network.py")),
    ("offload.py", include_str!("py/offload.py")),
    ("ping.py", include_str!("py/ping.py")),
    ("pmtu.py", include_str!("py/pmtu.py")),
    ("record.py", include_str!("py/record.py")),
    ("seen.py", include_str!("py/seen.py")),
    ("stop.py", include_str!("py/stop.py")),
    ("stubborn.py", include_str!("py/stubborn.py")),
    ("trace.py", include_str!("py/trace.py")),
];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A scratch folder and the right to run something; the folder goes when this does.
pub(crate) struct Lab {
    dir: PathBuf,
    longhaul: PathBuf,
    nobody: bool,
    runs: AtomicU32,
    before: Machine,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// A lab for runs of the user who runs the tests.
    pub(crate) fn new() -> Self {
        Self::make(false)
    }

    /// A lab for runs of an ordinary user without a home: `nobody` where the tests run as root.
    pub(crate) fn unprivileged() -> Self {
        Self::make(is_root())
    }

    fn make(nobody: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        demand_namespaces();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("longhaul-live-{}-{number}", std::process::id()));
        fs::create_dir(&dir).expect("making the scratch folder");
        let dir = dir.canonicalize().expect("the scratch folder's path");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in SCRIPTS {
            fs::write(dir.join(name), text).expect("writing a helper program");
        }
        let longhaul = if nobody {
            let copy = dir.join("longhaul");
            fs::copy(LONGHAUL, &copy).expect("copying the binary");
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("giving the folder away");
            copy
        } else {
            PathBuf::from(LONGHAUL)
        };
        let before = Machine::now();
        Self {
            dir,
            longhaul,
            nobody,
            runs: AtomicU32::new(0),
            before,
            _turn: turn,
        }
    }

    /// The scratch folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// `longhaul` with these arguments, to be completed.
    pub(crate) fn longhaul(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.longhaul);
        command
            .args(arguments)
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        if self.nobody {
            let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
            command
                .env_clear()
                .env("PATH", path)
                .uid(NOBODY)
                .gid(NOBODY);
        }
        command
    }

    /// A command's exit code and what it said, on standard output and on standard error.
    pub(crate) fn ask(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self
            .longhaul(arguments)
            .output()
            .expect("starting longhaul");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (
            status.code().expect("an exit code"),
            text(stdout),
            text(stderr),
        )
    }

    /// Writes an experiment. `$DIR` stands for the scratch folder and `$BENCH` for the traffic
    /// tool in it, which hosts see although they have a /tmp of their own.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let bench = self.dir.join("bench");
        if text.contains("$BENCH") && !bench.exists() {
            fs::copy(bench_binary(), &bench).expect("copying longhaul-bench");
        }
        let path = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
        let mut text = text
            .replace("$BENCH", &path(&bench))
            .replace("$DIR", &path(&self.dir));
        if !text.contains("duration:") {
            text.push_str("\nduration: 30 s\n");
        }
        let file = self.dir.join(name);
        fs::write(&file, text).expect("writing the experiment");
        file
    }

    /// Starts an experiment with a run folder of its own.
    pub(crate) fn start(&self, text: &str) -> Run<'_> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let file = self.write(&format!("experiment-{number}.yaml"), text);
        self.start_in(&file, &self.dir.join(format!("run-{number}")), &[])
    }

    /// Starts the experiment in `file` with the run folder `out`.
    pub(crate) fn start_in(&self, file: &Path, out: &Path, more: &[&str]) -> Run<'_> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let [file, folder] = [file, out].map(|path| path.to_str().expect("a UTF-8 path"));
        let mut command = self.longhaul(&["run", file, "--out", folder, "--json"]);
        command.args(more);
        Run::spawn(self, command, out.to_owned(), number)
    }

    /// Runs an experiment to its end; nothing of it may be left.
    pub(crate) fn run(&self, text: &str) -> Outcome {
        self.start(text).wait()
    }

    /// Like [`Lab::run`], of a run that must succeed, faithful or not.
    pub(crate) fn succeed(&self, text: &str) -> Outcome {
        self.run(text).succeeded()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A run under way. All its processes carry a mark in their environment; a run whose handle is
/// dropped is killed.
pub(crate) struct Run<'a> {
    lab: &'a Lab,
    child: Child,
    out: PathBuf,
    mark: String,
    output: [PathBuf; 2],
}

impl<'a> Run<'a> {
    /// Starts a command that runs an experiment in the folder `out`.
    pub(crate) fn spawn(lab: &'a Lab, mut command: Command, out: PathBuf, number: u32) -> Self {
        let mark = format!("LIVE_TEST_RUN={}/{number}", lab.dir.display());
        let (name, value) = mark.split_once('=').expect("a variable");
        let output = ["stdout", "stderr"].map(|name| lab.dir.join(format!("{name}-{number}")));
        let [stdout, stderr] = output
            .each_ref()
            .map(|path| File::create(path).expect("making an output file"));
        command.env(name, value).stdout(stdout).stderr(stderr);
        let child = command.spawn().expect("starting longhaul");
        Self {
            lab,
            child,
            out,
            mark,
            output,
        }
    }

    /// The process of `longhaul run` itself.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The run folder.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// All its processes that are alive now.
    pub(crate) fn processes(&self) -> Vec<Process> {
        traces::marked(&self.mark)
    }

    /// Whether `longhaul run` has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("asking for the child's end")
            .is_some()
    }

    /// Waits until a program's log holds `text`.
    pub(crate) fn wait_for(&mut self, log: &str, text: &str) {
        let path = self.out.join("logs").join(log);
        let begun = Instant::now();
        while !fs::read_to_string(&path).unwrap_or_default().contains(text) {
            assert!(
                !self.has_ended(),
                "the run ended before {log} said `{text}`: {}",
                self.said()
            );
            assert!(begun.elapsed() < PATIENCE, "{log} never said `{text}`");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All that it has said so far.
    pub(crate) fn said(&self) -> String {
        self.output
            .iter()
            .map(|path| fs::read_to_string(path).unwrap_or_default())
            .collect()
    }

    /// Waits for the end, and checks that nothing is left.
    pub(crate) fn wait(self) -> Outcome {
        self.wait_watching(|_| {})
    }

    /// The same, with an eye on the process while it runs.
    pub(crate) fn wait_watching(mut self, watch: impl FnMut(u32)) -> Outcome {
        let (status, [stdout, stderr]) = self.end(watch);
        Outcome::new(status, stdout, stderr, self.out.clone())
    }

    /// The same of a run whose exit code means something of its own: that, and standard output.
    pub(crate) fn wait_for_code(mut self) -> (i32, String) {
        let (status, [stdout, _]) = self.end(|_| {});
        (status.code().expect("an exit code"), stdout)
    }

    /// Waits for the end with an eye on the process; what it has said on each stream.
    fn end(&mut self, mut watch: impl FnMut(u32)) -> (ExitStatus, [String; 2]) {
        let begun = Instant::now();
        let (mut namespaces, mut looked) = (Namespaces::default(), None::<Instant>);
        while !self.has_ended() {
            watch(self.pid());
            // Seldom, since the run is not to be disturbed.
            if looked.is_none_or(|at| at.elapsed() > LOOK_EVERY) {
                let processes = self.processes();
                if processes.len() > 1 {
                    namespaces = Namespaces::of(&processes);
                }
                looked = Some(Instant::now());
            }
            assert!(begun.elapsed() < PATIENCE, "the run hangs: {}", self.said());
            std::thread::sleep(Duration::from_millis(3));
        }
        let status = self.child.wait().expect("the child's end");
        self.assert_gone(&namespaces, &format!("a run that ended with {status}"));
        let said = self.output.each_ref();
        let said = said.map(|path| fs::read_to_string(path).expect("UTF-8"));
        (status, said)
    }

    /// Nothing of the run may be there any more, or very soon.
    pub(crate) fn assert_gone(&self, namespaces: &Namespaces, after: &str) {
        let begun = Instant::now();
        loop {
            let left = self.remains(namespaces);
            if left.is_empty() {
                return;
            }
            let list = left.join("\n  ");
            assert!(
                begun.elapsed() < GONE_WITHIN,
                "after {after} this is left:\n  {list}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn remains(&self, namespaces: &Namespaces) -> Vec<String> {
        let mut left: Vec<String> = self.processes().iter().map(ToString::to_string).collect();
        left.extend(namespaces.members());
        left.extend(Machine::now().beyond(&self.lab.before));
        for name in [
            "control.sock",
            "summary.json.partial",
            "report.html.partial",
        ] {
            let file = self.out.join(name);
            if file.symlink_metadata().is_ok() {
                left.push(format!("file {}", file.display()));
            }
        }
        left
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal; a process that is gone is not an error.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .stderr(Stdio::null())
        .status();
    status.expect("starting sh");
}

/// The Debian packages of programs that tests can do without.
const PACKAGES: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("python3", "python3"),
    ("setsid", "util-linux"),
    ("tracepath", "iputils-tracepath"),
    ("traceroute", "traceroute"),
    ("unshare", "util-linux"),
];

/// Whether a program is there; where it is not, what needs it is skipped.
pub(crate) fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        let package = PACKAGES.iter().find(|(name, _)| *name == program);
        let (_, package) = package.expect("the package of every program that may be missing");
        skip(&format!("install {package}"));
    }
    found
}

/// The seed of this process's random choices.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("LONGHAUL_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = || {
        let since = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default();
        u64::from(since.subsec_nanos())
    };
    let seed = given.unwrap_or_else(time);
    eprintln!("seed {seed}: replay with LONGHAUL_SEED={seed}");
    seed
}

/// Random numbers enough for choosing moments (an LCG, upper bits).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Where no user namespace can be made there is nothing to test, and that is a failure.
fn demand_namespaces() {
    static MACHINE: OnceLock<Result<(), String>> = OnceLock::new();
    let check = || {
        let output = Command::new(LONGHAUL)
            .args(["doctor", "--noise", "0 s"])
            .output()
            .expect("starting longhaul");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(())
        } else {
            Err(text)
        }
    };
    if let Err(text) = MACHINE.get_or_init(check) {
        panic!("this machine cannot run live tests; `longhaul doctor` says:\n{text}");
    }
}

/// `longhaul-bench`: what `LONGHAUL_BENCH` names, or else built beside the binary under test.
fn bench_binary() -> &'static Path {
    static BENCH: OnceLock<PathBuf> = OnceLock::new();
    BENCH.get_or_init(|| {
        if let Some(built) = std::env::var_os("LONGHAUL_BENCH") {
            return built.into();
        }
        let profile = Path::new(LONGHAUL)
            .parent()
            .expect("the folder of the binary");
        let target = profile.parent().expect("the target folder");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "-p", "longhaul-bench"]);
        cargo
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.status().expect("starting cargo");
        assert!(status.success(), "building longhaul-bench failed");
        profile.join("longhaul-bench")
    })
}
