//! The answers of hosts' services, in the process that serves them: names, and the run's hosts.

use std::sync::Arc;

use longhaul_core::topology::NodeKind;
use longhaul_linux::sandbox::{Answers, Inquiry};
use longhaul_plan::plan::Plan;
use longhaul_proto::names::Names;

use super::http::{self, Request, Target};
use super::{HostNow, HostsNow};
use crate::http::Status;

/// The answers of a run's services.
pub(crate) struct Services {
    names: Names,
    state: Option<HostsNow>,
    /// The whole reply about all hosts, shared by all clients that get it.
    all: Arc<[u8]>,
}

impl Services {
    /// The services of a plan's hosts: all nodes that have addresses have names.
    pub(crate) fn new(plan: &Plan) -> Self {
        let nodes = plan.topology.nodes().iter();
        let addressed = nodes.filter(|node| node.kind != NodeKind::Lan);
        let named = addressed.map(|node| (&*node.name, node.ipv4, node.ipv6));
        Self {
            names: Names::new(named),
            state: None,
            all: Arc::default(),
        }
    }

    /// The reply about one host, if there is such a one.
    fn one(&self, find: impl FnOnce(&[HostNow]) -> Option<&HostNow>) -> Vec<u8> {
        let hosts = self.state.as_ref().map_or(&[][..], |state| &state.hosts);
        let host = find(hosts).and_then(|host| serde_json::to_string(host).ok());
        host.map_or_else(
            || http::refusal(Status::NotFound),
            |json| http::reply(Status::Ok, &json),
        )
    }
}

impl Answers for Services {
    type State = HostsNow;

    fn name(&self, query: &[u8]) -> Option<Vec<u8>> {
        self.names.answer(query)
    }

    fn inquiry(&self, host: usize, request: &[u8], fresh: bool) -> Inquiry {
        let target = match http::parse(request) {
            Request::Part => return Inquiry::More,
            Request::Bad(status) => return Inquiry::Reply(http::refusal(status).into()),
            Request::Get(target) => target,
        };
        if !fresh {
            return Inquiry::Ask;
        }
        let reply = match target {
            Target::Hosts => return Inquiry::Reply(Arc::clone(&self.all)),
            Target::Own => self.one(|hosts| hosts.get(host)),
            Target::Host(name) => self.one(|hosts| hosts.iter().find(|host| host.name == name)),
        };
        Inquiry::Reply(reply.into())
    }

    fn learn(&mut self, state: HostsNow) {
        let json = serde_json::to_string(&state).unwrap_or_default();
        self.all = http::reply(Status::Ok, &json).into();
        self.state = Some(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Load;

    const EXPERIMENT: &str = "
topology:
  nodes: { a: {}, b: { cpu: 50 %, memory: 64 MiB, disk: { read: 1 MB/s } }, r: { kind: router } }
  links: [ { ends: [a, r] }, { ends: [b, r] } ]
";

    fn services() -> Services {
        let plan = Plan::from_text(EXPERIMENT, "test.yaml").unwrap();
        let mut services = Services::new(&plan);
        let load = Load {
            busy: true,
            programs: vec!["client".to_owned()],
            ..Load::default()
        };
        services.learn(HostsNow::new(&plan, 1.5, |_| (None, Some(load.clone()))));
        services
    }

    fn get(path: &str, fresh: bool) -> Option<(String, serde_json::Value)> {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        match services().inquiry(1, request.as_bytes(), fresh) {
            Inquiry::Reply(reply) => {
                let text = std::str::from_utf8(&reply).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                let status = head.lines().next().unwrap().to_owned();
                Some((status, serde_json::from_str(body).unwrap()))
            }
            Inquiry::Ask => None,
            Inquiry::More => panic!("a whole request"),
        }
    }

    #[test]
    fn all_hosts_or_one_or_the_own() {
        let (status, all) = get("/hosts", true).unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK");
        let names: Vec<_> = all["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| &h["name"])
            .collect();
        assert_eq!(names, ["a", "b"], "no router");
        assert_eq!(
            (&all["time_s"], &all["hosts"][0]["ipv4"]),
            (&1.5.into(), &"10.0.0.1".into())
        );
        assert_eq!(get("/self", true).unwrap().1, all["hosts"][1]);
        assert_eq!(get("/hosts/a", true).unwrap().1, all["hosts"][0]);
        assert_eq!(all["hosts"][0]["load"]["programs"][0], "client");
        for missing in ["/hosts/r", "/hosts/a/b"] {
            let (status, body) = get(missing, true).unwrap();
            assert_eq!(status, "HTTP/1.1 404 Not Found", "{missing}");
            assert!(body["error"].is_string());
        }
    }

    #[test]
    fn hosts_show_what_the_file_gives_them() {
        let own = get("/self", true).unwrap().1;
        let resources = &own["resources"];
        assert_eq!(
            (&resources["cpu"]["cpus"], &resources["cpu"]["text"]),
            (&0.5.into(), &"50 %".into())
        );
        assert_eq!(resources["memory_bytes"], 64 << 20);
        let disk = &resources["disk"];
        assert!(
            disk["read_bytes_per_s"] == 1_000_000 && disk["iops"].is_null(),
            "{disk}"
        );
        let other = get("/hosts/a", true).unwrap().1;
        assert!(other["resources"]["cpu"].is_null());
    }

    #[test]
    fn only_what_needs_the_runs_state_waits_for_it() {
        assert_eq!(get("/hosts", false), None);
        assert_eq!(get("/self", false), None);
        assert!(get("/", false).is_some());
    }

    #[test]
    fn routers_have_names_too() {
        let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01r\0\0\x01\0\x01";
        let answer = services().name(query).unwrap();
        assert_eq!((answer[3] & 0xf, answer[7]), (0, 1));
    }
}
