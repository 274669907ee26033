// The reference of `longhaul-bench suite virtual`: ns-3 on the topology and flows of our chain.
//
// N hosts send to N others through H links each: N access links into the first router, H - 2
// links of a chain of routers that all flows share, N access links out of the last one. With
// H = 3 that is a dumbbell. Links have the rates, delays and drop-tail queues (in bytes) of the
// example `chain` of crates/proto, and flows its starts: one after the other, without end. Every
// flow is one TCP CUBIC connection, MTU 1500, selective acknowledgements, timestamps, delayed
// acknowledgements and a first window of 10, as the model's are.
//
// What is counted: a packet-hop is an IP packet that has come out of a link, when it reaches the
// device at the link's end. Data and acknowledgements count alike, as they do in the model.
// Wall time is that of the simulator's run alone: building the network, its routes and the end of
// the process do not count. Payload is never written (ns-3's own zero area).
//
// Left out: queueing disciplines above the devices (ns-3 would put FQ-CoDel there by default), so
// that the queue of a device is the only one, as in the model. A device counts 2 bytes of PPP on
// top of the IP packet where the model counts 18 of Ethernet: 1 % more packets in the same time,
// which speed in packet-hops per second does not notice.
//
// Prints one JSON object.

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-helper.h"

using namespace ns3;

namespace {

constexpr uint16_t PORT = 5000;

uint64_t hops = 0;
uint64_t drops = 0;

void CountHop(Ptr<const Packet>) { ++hops; }
void CountDrop(Ptr<const Packet>) { ++drops; }

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

void Configure(const Options& o) {
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(o.buffers));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.buffers));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
  Config::SetDefault("ns3::BulkSendApplication::SendSize", UintegerValue(64 << 10));
}

// Joins two nodes by a link with addresses of its own.
class Links {
 public:
  explicit Links(const Options& o) {
    helper_.SetDeviceAttribute("DataRate", DataRateValue(DataRate(o.rate_mbit * 1000000ull)));
    helper_.SetDeviceAttribute("Mtu", UintegerValue(1500));
    helper_.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                     QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, o.queue)));
    addresses_.SetBase("10.0.0.0", "255.255.255.252");
  }

  // The address of the second node.
  Ipv4Address Join(Ptr<Node> from, Ptr<Node> to, uint32_t delay_us) {
    helper_.SetChannelAttribute("Delay", TimeValue(MicroSeconds(delay_us)));
    NetDeviceContainer devices = helper_.Install(from, to);
    Ipv4InterfaceContainer interfaces = addresses_.Assign(devices);
    addresses_.NewNetwork();
    TrafficControlHelper::Default().Uninstall(devices);
    for (uint32_t end = 0; end < 2; ++end) {
      Ptr<PointToPointNetDevice> device = DynamicCast<PointToPointNetDevice>(devices.Get(end));
      device->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
      device->GetQueue()->TraceConnectWithoutContext("Drop", MakeCallback(&CountDrop));
    }
    return interfaces.GetAddress(1);
  }

 private:
  PointToPointHelper helper_;
  Ipv4AddressHelper addresses_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options o = Parse(argc, argv);
  Configure(o);

  NodeContainer routers, senders, receivers;
  routers.Create(o.hops - 1);
  senders.Create(o.flows);
  receivers.Create(o.flows);
  InternetStackHelper stack;
  stack.SetIpv6StackInstall(false);
  stack.InstallAll();

  Links links(o);
  for (uint32_t n = 0; n + 1 < routers.GetN(); ++n) {
    links.Join(routers.Get(n), routers.Get(n + 1), o.delay_us);
  }
  std::vector<Ipv4Address> targets;
  for (uint32_t n = 0; n < o.flows; ++n) {
    links.Join(senders.Get(n), routers.Get(0), o.access_us);
    targets.push_back(links.Join(routers.Get(o.hops - 2), receivers.Get(n), o.access_us));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();

  PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
  ApplicationContainer sinks = sink.Install(receivers);
  for (uint32_t n = 0; n < o.flows; ++n) {
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(targets[n], PORT));
    bulk.SetAttribute("MaxBytes", UintegerValue(0));
    bulk.Install(senders.Get(n)).Start(MilliSeconds(n * o.stagger_ms));
  }

  Simulator::Stop(Seconds(o.seconds));
  const auto started = std::chrono::steady_clock::now();
  Simulator::Run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;

  uint64_t bytes = 0;
  for (uint32_t n = 0; n < o.flows; ++n) bytes += DynamicCast<PacketSink>(sinks.Get(n))->GetTotalRx();
  std::cout << "{\"hops\":" << hops << ",\"wall_s\":" << wall.count()
            << ",\"hops_per_s\":" << hops / wall.count() << ",\"simulated_s\":" << o.seconds
            << ",\"events\":" << Simulator::GetEventCount() << ",\"drops_queue\":" << drops
            << ",\"goodput_bps\":" << bytes * 8 / o.seconds << "}\n";
  Simulator::Destroy();
}
