//! A manager that answers as systemd does, on a bus of its own.

use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use zbus::ObjectPath;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);
/// Name, mode, process ids and whether it is to be delegated, as the manager was asked.
type Asked = (String, String, Vec<u32>, bool);

#[derive(Clone, Default)]
struct Manager {
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    UnitExists(String),
    NoSuchUnit(String),
    #[zbus(error)]
    ZBus(zbus::Error),
}

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    fn start_transient_unit(
        &self,
        name: String,
        mode: String,
        properties: Vec<(String, OwnedVariant)>,
        _auxiliary: Vec<(String, Vec<(String, OwnedVariant)>)>,
    ) -> Result<OwnedObjectPath, Refusal> {
        match name.as_str() {
            "taken.scope" => return Err(Refusal::UnitExists(format!("Unit {name} was already"))),
            "slow.scope" => thread::sleep(Duration::from_secs(2)),
            "odd.scope" => return Err(zbus::fdo::Error::AccessDenied("not you".into()).into()),
            _ => {}
        }
        let get = |key| {
            properties
                .iter()
                .find(|(name, _)| name == key)
                .unwrap()
                .1
                .clone()
        };
        let pids = Vec::<u32>::try_from(get("PIDs")).unwrap();
        let delegate = bool::try_from(get("Delegate")).unwrap();
        self.asked
            .lock()
            .unwrap()
            .push((name, mode, pids, delegate));
        Ok(ObjectPath::try_from("/org/freedesktop/systemd1/job/1")
            .unwrap()
            .into())
    }

    fn get_unit(&self, name: String) -> Result<OwnedObjectPath, Refusal> {
        if !self
            .asked
            .lock()
            .unwrap()
            .iter()
            .any(|(asked, ..)| *asked == name)
        {
            return Err(Refusal::NoSuchUnit(name));
        }
        Ok(ObjectPath::try_from("/org/freedesktop/systemd1/unit/hosts")
            .unwrap()
            .into())
    }
}

impl From<zbus::fdo::Error> for Refusal {
    fn from(error: zbus::fdo::Error) -> Self {
        Self::ZBus(error.into())
    }
}

/// Has its group only when it is asked for the third time.
#[derive(Default)]
struct Unit(AtomicU32);

#[zbus::interface(name = "org.freedesktop.systemd1.Scope")]
impl Unit {
    #[zbus(property)]
    fn control_group(&self) -> String {
        if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
            String::new()
        } else {
            "/user.slice/hosts.scope".to_owned()
        }
    }
}

struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    fn start() -> Option<Self> {
        let mut command = Command::new("dbus-daemon");
        command.args(["--session", "--nofork", "--print-address"]);
        let Ok(mut daemon) = command.stdout(Stdio::piped()).spawn() else {
            crate::resources::testing::skipped("dbus-daemon is missing: install dbus");
            return None;
        };
        let mut address = String::new();
        let out = daemon.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut address).unwrap();
        let address = address.trim().to_owned();
        Some(Self { daemon, address })
    }

    /// Serves as systemd until the end of the test.
    fn serve(&self, manager: &Manager) {
        let (ready, is_ready) = mpsc::channel();
        let (address, manager) = (self.address.clone(), manager.clone());
        thread::spawn(move || {
            zbus::block_on(async {
                let builder = Builder::address(address.as_str()).name(SYSTEMD);
                let builder = builder.serve_at("/org/freedesktop/systemd1", manager);
                let builder =
                    builder.serve_at("/org/freedesktop/systemd1/unit/hosts", Unit::default());
                let connection = builder.build().await.unwrap();
                ready.send(()).unwrap();
                connection.closed().await;
            });
        });
        is_ready.recv().unwrap();
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A folder that looks like a mount of version 2 with one group.
fn mount(name: &str, group: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
    let folder = root.join(group);
    fs::create_dir_all(&folder).unwrap();
    for file in ["cgroup.procs", "cgroup.subtree_control"] {
        fs::write(folder.join(file), "").unwrap();
    }
    fs::write(folder.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    root
}

#[test]
fn a_scope_is_asked_for_and_its_group_awaited() {
    let Some(bus) = Bus::start() else { return };
    let root = mount("scope", "user.slice/hosts.scope");
    let start = |unit, patience| start(Some(&bus.address), unit, &[7, 8], &root, patience);
    let error = start("hosts.scope", PATIENCE).unwrap_err();
    assert!(matches!(error, ScopeError::NoManager(_)), "{error}");
    let manager = Manager::default();
    bus.serve(&manager);
    let group = start("hosts.scope", PATIENCE).unwrap();
    assert_eq!(group.path, root.join("user.slice/hosts.scope"));
    assert_eq!(group.controllers, ["cpu", "memory", "pids"]);
    let asked = manager.asked.lock().unwrap().clone();
    assert_eq!(
        asked,
        [(
            "hosts.scope".to_owned(),
            "fail".to_owned(),
            vec![7, 8],
            true
        )]
    );
    let error = start("taken.scope", PATIENCE).unwrap_err();
    assert!(
        matches!(&error, ScopeError::Exists(unit) if unit == "taken.scope"),
        "{error}"
    );
    let error = start("odd.scope", PATIENCE).unwrap_err().to_string();
    assert!(
        error.contains("odd.scope") && error.contains("not you"),
        "{error}"
    );
    let began = Instant::now();
    let error = start("slow.scope", Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, ScopeError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_millis(1500));
    fs::remove_dir_all(root.join("user.slice")).unwrap();
    let error = start("hosts.scope", PATIENCE).unwrap_err();
    assert!(matches!(error, ScopeError::NotDelegated { .. }), "{error}");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_bus_that_is_not_there_or_says_nothing_is_named() {
    let root = std::env::temp_dir().join(format!("longhaul-bus-{}", std::process::id()));
    let address = format!("unix:path={}", root.display());
    let start = |patience| start(Some(&address), "a.scope", &[1], Path::new("/"), patience);
    let error = start(PATIENCE).unwrap_err();
    assert!(matches!(error, ScopeError::NoBus(_)), "{error}");
    let _silent = UnixListener::bind(&root).unwrap();
    let began = Instant::now();
    let error = start(Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, ScopeError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
    fs::remove_file(&root).unwrap();
}

/// Not a test of its own: the next one runs it in a process without other tests.
#[test]
fn asking_process() {
    let Ok(address) = std::env::var("LONGHAUL_TEST_BUS") else {
        return;
    };
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    start(
        Some(&address),
        "taken.scope",
        &[1],
        Path::new("/"),
        PATIENCE,
    )
    .unwrap_err();
    start(
        Some("unix:path=/nowhere"),
        "a.scope",
        &[1],
        Path::new("/"),
        PATIENCE,
    )
    .unwrap_err();
    // A thread that has ended may be listed for a moment.
    let one = || threads() == before;
    assert!(crate::resources::testing::until(
        Duration::from_secs(2),
        one
    ));
}

#[test]
fn no_thread_stays_behind() {
    let Some(bus) = Bus::start() else { return };
    bus.serve(&Manager::default());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resources::scope::tests::asking_process"])
        .env("LONGHAUL_TEST_BUS", &bus.address)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_group_of_the_user_is_delegated() {
    let root = mount("delegated", "user.slice/a.scope");
    let (uid, _) = crate::sys::user_and_group();
    let group = |text: &str, uid| delegated(text, &root, uid);
    let own = "4:memory:/x\n0::/user.slice/a.scope\n";
    let found = group(own, uid).unwrap();
    assert_eq!(found.path, root.join("user.slice/a.scope"));
    assert_eq!(found.controllers, ["cpu", "memory", "pids"]);
    assert_eq!(group(own, uid + 1), None, "another's");
    assert_eq!(
        group("4:memory:/user.slice/a.scope\n", uid),
        None,
        "version 1"
    );
    assert_eq!(
        group("0::/user.slice\n", uid),
        None,
        "no files to arrange it by"
    );
    assert_eq!(group("0::/gone.scope\n", uid), None);
    assert_eq!(group("0::/../a.scope\n", uid), None);
    fs::remove_dir_all(&root).unwrap();
    let text = "25 1 0:22 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw\n\
                36 25 0:30 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
    let mount = mount_of_version_2(text);
    assert_eq!(mount.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
    assert_eq!(
        mount_of_version_2("25 1 0:22 / /a rw - cgroup cgroup rw\n"),
        None
    );
}
