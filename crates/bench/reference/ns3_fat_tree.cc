// The reference of `longhaul-bench suite virtual` for a data centre: ns-3 on the fat tree of switches
// with K ports and the flows of our experiment, one from each host to one other.
//
// Packets take the first of equal paths, as they do in the experiment: up to switch 0 of a pod's
// aggregation switches and to core switch 0. Routes are static and by prefix, as Al-Fares,
// Loukissas and Vahdat number their hosts (10.POD.EDGE.HOST), which is what ns-3 looks up
// fastest: at most K + 1 routes at a switch. Switches and links that carry nothing are there too.
// Queues are counted in packets. The model counts the bytes of the IP packet, a device 2 more.
// `ns3_tcp.h` says what else is counted, and how TCP is set.
//
// Prints one JSON object.

#include <sstream>
#include <vector>

#include "ns3_tcp.h"

using namespace ns3;

namespace {

struct Options {
  uint32_t k = 8;
  double seconds = 0.02;
  uint32_t delay_us = 3;
  uint32_t rate_mbit = 10000;
  uint32_t queue = 1000;
  uint64_t buffers = 4 << 20;
  std::string to;
  std::vector<uint32_t> targets;
};

// Whole numbers with commas between them, one for each host, each below `hosts`.
std::vector<uint32_t> ParseTargets(const std::string& text, uint32_t hosts) {
  std::vector<uint32_t> targets;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    const bool is_number = item.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || item.empty() || item.size() > 6) return {};
    targets.push_back(std::stoul(item));
    if (targets.back() >= hosts) return {};
  }
  return targets.size() == hosts ? targets : std::vector<uint32_t>();
}

Options Parse(int argc, char** argv) {
  Options o;
  CommandLine line(__FILE__);
  line.AddValue("k", "ports of a switch, an even number", o.k);
  line.AddValue("seconds", "simulated time", o.seconds);
  line.AddValue("delay-us", "delay of each link", o.delay_us);
  line.AddValue("rate-mbit", "rate of each link", o.rate_mbit);
  line.AddValue("queue", "packets that may wait at each link", o.queue);
  line.AddValue("buffers", "send and receive buffers in bytes", o.buffers);
  line.AddValue("to", "the host that each host sends to, by number, with commas", o.to);
  line.Parse(argc, argv);
  if (o.k < 2 || o.k > 16 || o.k % 2 != 0 || !(o.seconds > 0)) {
    std::cerr << "ns3_fat_tree: an even k from 2 to 16, a time above 0\n";
    exit(2);
  }
  o.targets = ParseTargets(o.to, o.k * o.k * o.k / 4);
  if (o.targets.empty()) {
    std::cerr << "ns3_fat_tree: --to takes a host's number for each of the hosts\n";
    exit(2);
  }
  return o;
}

Ipv4Address Address(uint32_t pod, uint32_t edge, uint32_t host) {
  return Ipv4Address(10u << 24 | pod << 16 | edge << 8 | host);
}

// The network, its addresses and its routes.
class FatTree {
 public:
  explicit FatTree(const Options& o)
      : o_(o),
        half_(o.k / 2),
        links_(o.rate_mbit, QueueSize(QueueSizeUnit::PACKETS, o.queue)) {
    core_.Create(half_ * half_);
    aggregation_.Create(o.k * half_);
    edge_.Create(o.k * half_);
    hosts_.Create(o.k * half_ * half_);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    Ipv4StaticRoutingHelper routing;
    stack.SetRoutingHelper(routing);
    stack.InstallAll();
    for (uint32_t pod = 0; pod < o.k; ++pod) {
      JoinPod(pod);
    }
  }

  const NodeContainer& hosts() const { return hosts_; }

  Ipv4Address AddressOf(uint32_t host) const {
    return Address(host / (half_ * half_), host / half_ % half_, host % half_ + 2);
  }

 private:
  void JoinPod(uint32_t pod) {
    for (uint32_t n = 0; n < half_; ++n) {
      Ptr<Node> aggregation = aggregation_.Get(pod * half_ + n);
      for (uint32_t m = 0; m < half_; ++m) {
        Ptr<Node> core = core_.Get(n * half_ + m);
        const auto [at_core, at_switch] = Join(core, aggregation);
        if (n == 0 && m == 0) {
          Route(core, Address(pod, 0, 0), "255.255.0.0", at_core);
          Route(aggregation, Ipv4Address("0.0.0.0"), "0.0.0.0", at_switch);
        }
      }
    }
    for (uint32_t n = 0; n < half_; ++n) {
      Ptr<Node> edge = edge_.Get(pod * half_ + n);
      for (uint32_t m = 0; m < half_; ++m) {
        Ptr<Node> aggregation = aggregation_.Get(pod * half_ + m);
        const auto [at_aggregation, at_edge] = Join(aggregation, edge);
        if (m == 0) {
          Route(aggregation, Address(pod, n, 0), "255.255.255.0", at_aggregation);
          Route(edge, Ipv4Address("0.0.0.0"), "0.0.0.0", at_edge);
        }
      }
      for (uint32_t m = 0; m < half_; ++m) {
        const uint32_t number = (pod * half_ + n) * half_ + m;
        Ptr<Node> host = hosts_.Get(number);
        const auto [at_edge, at_host] = Join(edge, host, AddressOf(number));
        Route(edge, AddressOf(number), "255.255.255.255", at_edge);
        Route(host, Ipv4Address("0.0.0.0"), "0.0.0.0", at_host);
      }
    }
  }

  // A link; the numbers of its interfaces at both ends. Switches send nothing of their own, so
  // their interfaces all have one address that nobody asks for.
  std::pair<uint32_t, uint32_t> Join(Ptr<Node> upper, Ptr<Node> lower,
                                     Ipv4Address lower_address = Ipv4Address("192.168.0.1")) {
    NetDeviceContainer devices = links_.Join(upper, lower, MicroSeconds(o_.delay_us));
    return {AddInterface(upper, devices.Get(0), Ipv4Address("192.168.0.1")),
            AddInterface(lower, devices.Get(1), lower_address)};
  }

  uint32_t AddInterface(Ptr<Node> node, Ptr<NetDevice> device, Ipv4Address address) {
    Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
    const uint32_t number = ipv4->AddInterface(device);
    ipv4->AddAddress(number, Ipv4InterfaceAddress(address, Ipv4Mask("255.255.255.255")));
    ipv4->SetUp(number);
    return number;
  }

  void Route(Ptr<Node> node, Ipv4Address to, const char* mask, uint32_t interface) {
    Ipv4StaticRoutingHelper helper;
    Ptr<Ipv4StaticRouting> routing = helper.GetStaticRouting(node->GetObject<Ipv4>());
    routing->AddNetworkRouteTo(to, Ipv4Mask(mask), interface);
  }

  const Options& o_;
  const uint32_t half_;
  Links links_;
  NodeContainer core_, aggregation_, edge_, hosts_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options o = Parse(argc, argv);
  ConfigureTcp(o.buffers);
  // As in the experiment; ns-3's own is a second.
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

  FatTree tree(o);
  const ApplicationContainer sinks = InstallSinks(tree.hosts());
  for (uint32_t n = 0; n < o.targets.size(); ++n) {
    InstallFlow(tree.hosts().Get(n), tree.AddressOf(o.targets[n]), Seconds(0));
  }
  RunAndPrint(o.seconds, sinks);
}
