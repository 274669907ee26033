// What the references of `longhaul-bench suite virtual` share: how TCP is set, links with counters,
// and the JSON object that a program prints.
//
// Every flow is one TCP CUBIC connection, MTU 1500, selective acknowledgements, timestamps, delayed
// acknowledgements and a first window of 10, as the model's are.
//
// What is counted: a packet-hop is an IP packet that has come out of a link, when it reaches the
// device at the link's end. Data and acknowledgements count alike, as they do in the model.
// Wall time is that of the simulator's run alone: building the network, its routes and the end of
// the process do not count. Payload is never written (ns-3's own zero area).
//
// Left out: queueing disciplines above the devices (ns-3 would put FQ-CoDel there by default), so
// that the queue of a device is the only one, as in the model. A device counts 2 bytes of PPP on
// top of the IP packet.

#pragma once

#include <chrono>
#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-helper.h"

constexpr uint16_t PORT = 5000;

inline uint64_t hops = 0;
inline uint64_t drops = 0;

inline void CountHop(ns3::Ptr<const ns3::Packet>) { ++hops; }
inline void CountDrop(ns3::Ptr<const ns3::Packet>) { ++drops; }

inline void ConfigureTcp(uint64_t buffers) {
  using namespace ns3;
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffers));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffers));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
  Config::SetDefault("ns3::BulkSendApplication::SendSize", UintegerValue(64 << 10));
}

// Joins two nodes by links with a drop-tail queue at either end.
class Links {
 public:
  Links(uint32_t rate_mbit, ns3::QueueSize queue) {
    using namespace ns3;
    helper_.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_mbit * 1000000ull)));
    helper_.SetDeviceAttribute("Mtu", UintegerValue(1500));
    helper_.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(queue));
  }

  // The devices at both ends, counted; they have no addresses yet.
  ns3::NetDeviceContainer Join(ns3::Ptr<ns3::Node> from, ns3::Ptr<ns3::Node> to, ns3::Time delay) {
    using namespace ns3;
    helper_.SetChannelAttribute("Delay", TimeValue(delay));
    NetDeviceContainer devices = helper_.Install(from, to);
    for (uint32_t end = 0; end < 2; ++end) {
      Ptr<PointToPointNetDevice> device = DynamicCast<PointToPointNetDevice>(devices.Get(end));
      device->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
      device->GetQueue()->TraceConnectWithoutContext("Drop", MakeCallback(&CountDrop));
    }
    return devices;
  }

 private:
  ns3::PointToPointHelper helper_;
};

// Applications that take all payload, one on each node.
inline ns3::ApplicationContainer InstallSinks(const ns3::NodeContainer& nodes) {
  using namespace ns3;
  PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
  return sink.Install(nodes);
}

// A flow without end.
inline void InstallFlow(ns3::Ptr<ns3::Node> from, ns3::Ipv4Address to, ns3::Time start) {
  using namespace ns3;
  BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, PORT));
  bulk.SetAttribute("MaxBytes", UintegerValue(0));
  bulk.Install(from).Start(start);
}

// Runs the simulation and prints what came of it.
inline void RunAndPrint(double seconds, const ns3::ApplicationContainer& sinks) {
  using namespace ns3;
  Simulator::Stop(Seconds(seconds));
  const auto started = std::chrono::steady_clock::now();
  Simulator::Run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;

  uint64_t bytes = 0;
  for (uint32_t n = 0; n < sinks.GetN(); ++n) {
    bytes += DynamicCast<PacketSink>(sinks.Get(n))->GetTotalRx();
  }
  std::cout << "{\"hops\":" << hops << ",\"wall_s\":" << wall.count()
            << ",\"hops_per_s\":" << hops / wall.count() << ",\"simulated_s\":" << seconds
            << ",\"events\":" << Simulator::GetEventCount() << ",\"drops_queue\":" << drops
            << ",\"goodput_bps\":" << bytes * 8 / seconds << "}\n";
  Simulator::Destroy();
}
