# Three cities of which two share a name, as the Internet Topology Zoo writes them.
Creator "by hand"
graph [
  label "Tiny"
  Note "Semi [colons], ] and # are text here;
and so are line breaks"
  node [
    id 0
    label "Z&uuml;rich"
    Longitude 8.55
    Latitude 47.36667
    Internal 1
    graphics [ x 1 y [ deeper [ ] ] ]
  ]
  node [ id 1 label "New York" Longitude -74.00597 Latitude 40.71427 Internal 1 ]
  node [ id 2 label "New York" Longitude -74.00597 Latitude 40.71427 Internal 0 ]
  node [ id 7 label "None" hyperedge 1 Internal 1 ]
  edge [ source 0 target 1 LinkLabel "10 Gbps" LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 0 target 1 LinkLabel "OC-192c" LinkType "OC-192" ]
  edge [ source 1 target 2 LinkLabel "Lit Fibre" ]
  edge [ source 7 target 0 LinkSpeed "155" LinkSpeedUnits "M" ]
  edge [ source 1 target 7 ]
  edge [ source 1 target 1 ]
]
