graph [
  directed 1
  node [
    id 0
    label "node at 1.2.3.4"
    host_bandwidth_up "1 Mbit"
    host_bandwidth_down "10 megabit"
  ]
  node [
    id 1
    label "node at 2.3.4.5"
    host_bandwidth_up "100 Kibit"
    host_bandwidth_down "100 Kibit"
  ]
  edge [
    source 0
    target 1
    latency "10 ms"
    jitter "1 ms"
    packet_loss 0.01
  ]
  edge [
    source 1
    target 0
    latency "20000 us"
    packet_loss 0.0
  ]
  edge [
    source 0
    target 0
    latency "1 ms"
    packet_loss 0.0
  ]
]
