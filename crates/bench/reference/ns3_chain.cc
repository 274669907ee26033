// The reference of `longhaul-bench suite virtual`: ns-3 on the topology and flows of our chain.
//
// N hosts send to N others through H links each: N access links into the first router, H - 2
// links of a chain of routers that all flows share, N access links out of the last one. With
// H = 3 that is a dumbbell. Links have the rates, delays and drop-tail queues (in bytes) of the
// example `chain` of crates/proto, and flows its starts: one after the other, without end.
// `ns3_tcp.h` says what is counted, and how TCP is set. The model counts 18 bytes of Ethernet on top
// of the IP packet where a device counts 2: 1 % more packets in the same time, which speed in
// packet-hops per second does not notice.
//
// Prints one JSON object.

#include <vector>

#include "ns3_tcp.h"

using namespace ns3;

namespace {

struct Options {
  uint32_t flows = 16;
  uint32_t hops = 12;
  double seconds = 2.0;
  uint32_t access_us = 500;
  uint32_t delay_us = 900;
  uint32_t rate_mbit = 1000;
  uint32_t queue = 2500000;
  uint32_t stagger_ms = 37;
  uint64_t buffers = 16 << 20;
};

Options Parse(int argc, char** argv) {
  Options o;
  CommandLine line(__FILE__);
  line.AddValue("flows", "TCP connections, each between two hosts of its own", o.flows);
  line.AddValue("hops", "links that each flow crosses, at least 3", o.hops);
  line.AddValue("seconds", "simulated time", o.seconds);
  line.AddValue("access-us", "delay of the links of hosts", o.access_us);
  line.AddValue("delay-us", "delay of the links between routers", o.delay_us);
  line.AddValue("rate-mbit", "rate of each link", o.rate_mbit);
  line.AddValue("queue", "bytes that may wait at each link", o.queue);
  line.AddValue("stagger-ms", "from the start of a flow to that of the next one", o.stagger_ms);
  line.AddValue("buffers", "send and receive buffers in bytes", o.buffers);
  line.Parse(argc, argv);
  if (o.flows < 1 || o.flows > 250 || o.hops < 3 || o.hops > 200 || !(o.seconds > 0)) {
    std::cerr << "ns3_chain: 1 to 250 flows, 3 to 200 hops, a time above 0\n";
    exit(2);
  }
  return o;
}

// Joins two nodes by a link with addresses of its own.
class AddressedLinks {
 public:
  explicit AddressedLinks(const Options& o)
      : links_(o.rate_mbit, QueueSize(QueueSizeUnit::BYTES, o.queue)) {
    addresses_.SetBase("10.0.0.0", "255.255.255.252");
  }

  // The address of the second node.
  Ipv4Address Join(Ptr<Node> from, Ptr<Node> to, uint32_t delay_us) {
    NetDeviceContainer devices = links_.Join(from, to, MicroSeconds(delay_us));
    Ipv4InterfaceContainer interfaces = addresses_.Assign(devices);
    addresses_.NewNetwork();
    TrafficControlHelper::Default().Uninstall(devices);
    return interfaces.GetAddress(1);
  }

 private:
  Links links_;
  Ipv4AddressHelper addresses_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options o = Parse(argc, argv);
  ConfigureTcp(o.buffers);

  NodeContainer routers, senders, receivers;
  routers.Create(o.hops - 1);
  senders.Create(o.flows);
  receivers.Create(o.flows);
  InternetStackHelper stack;
  stack.SetIpv6StackInstall(false);
  stack.InstallAll();

  AddressedLinks links(o);
  for (uint32_t n = 0; n + 1 < routers.GetN(); ++n) {
    links.Join(routers.Get(n), routers.Get(n + 1), o.delay_us);
  }
  std::vector<Ipv4Address> targets;
  for (uint32_t n = 0; n < o.flows; ++n) {
    links.Join(senders.Get(n), routers.Get(0), o.access_us);
    targets.push_back(links.Join(routers.Get(o.hops - 2), receivers.Get(n), o.access_us));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();

  const ApplicationContainer sinks = InstallSinks(receivers);
  for (uint32_t n = 0; n < o.flows; ++n) {
    InstallFlow(senders.Get(n), targets[n], MilliSeconds(n * o.stagger_ms));
  }
  RunAndPrint(o.seconds, sinks);
}
