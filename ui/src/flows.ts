// Modelled flows by entry and one by one; measured flows, connections and hosts with charts of the chosen one.

import { chart, charts, type Line } from "./chart";
import type { Context } from "./context";
import { note, section } from "./context";
import type { Flow, FlowGroup, SeriesName } from "./data";
import { h, replace } from "./dom";
import { count, NONE, ns, of, percent, seconds, si } from "./format";
import { most, overall, sum, things, type Thing } from "./series";
import { Table, type Column } from "./table";

/** A table of things of a series, and charts of the one that is chosen. */
function chosenOf(list: Thing[], label: string, name: (thing: Thing) => string, columns: Column<Thing>[], draw: (thing: Thing) => HTMLElement, sort: string): HTMLElement {
  const view = h("div", null);
  const by = columns.find((column) => column.name === sort)?.value;
  let chosen = [...list].sort((a, b) => Number(by?.(b) ?? 0) - Number(by?.(a) ?? 0))[0];
  const show = (thing: Thing) => {
    chosen = thing;
    replace(view, h("h3", null, h("bdi", null, name(thing))), draw(thing));
    table?.fill();
  };
  let table: Table<Thing> | null = null;
  table = new Table<Thing>({
    label, rows: list, sort: [sort, true], search: name, choose: show, chosen: (thing) => thing === chosen,
    columns: [{ name: label.replace(/s$/, ""), text: name, value: name }, ...columns],
  });
  if (chosen) show(chosen);
  return h("div", null, view, table.element);
}

function leftOut(context: Context, series: SeriesName): HTMLElement | null {
  const tracks = context.run.series[series];
  if (!tracks || tracks.seen <= tracks.shown.length) return null;
  return note(`${count(tracks.shown.length)} of ${count(tracks.seen)} are shown: the most active ones. The series has all.`);
}

const modelled = (groups: FlowGroup[]) => new Table<FlowGroup>({
  label: "traffic", rows: groups, search: (g) => g.name,
  columns: [
    { name: "traffic", text: (g) => g.name, value: (g) => g.name },
    { name: "flows", figure: true, text: (g) => count(g.flows), value: (g) => g.flows },
    { name: "finished", figure: true, text: (g) => count(g.finished), value: (g) => g.finished },
    { name: "gave up", figure: true, text: (g) => count(g.failed), value: (g) => g.failed },
    { name: "payload", figure: true, text: (g) => si(g.bytes, "B"), value: (g) => g.bytes },
    { name: "completion, mean", figure: true, text: (g) => seconds(g.completion_s?.mean), value: (g) => g.completion_s?.mean },
    { name: "p50", figure: true, text: (g) => seconds(g.completion_s?.p50), value: (g) => g.completion_s?.p50 },
    { name: "p99", figure: true, text: (g) => seconds(g.completion_s?.p99), value: (g) => g.completion_s?.p99 },
    { name: "max", figure: true, text: (g) => seconds(g.completion_s?.max), value: (g) => g.completion_s?.max },
    { name: "mean goodput", figure: true, text: (g) => si(g.goodput_bps, "bit/s"), value: (g) => g.goodput_bps },
    { name: "retransmitted", figure: true, text: (g) => count(g.retransmissions), value: (g) => g.retransmissions },
    { name: "Jain's index", figure: true, text: (g) => g.jain?.toFixed(3) ?? NONE, value: (g) => g.jain },
  ],
}).element;

function remarks(flow: Flow): string {
  const parts: string[] = [];
  if (flow.failed) parts.push("gave up");
  if (flow.requests) parts.push(`${of(flow.requests.completed, "request")}, mean ${seconds(flow.requests.mean_s)}`);
  if (flow.datagrams?.lost) parts.push(`${of(flow.datagrams.lost, "datagram")} lost`);
  return parts.join("; ");
}

const each = (flows: Flow[]) => new Table<Flow>({
  label: "modelled flows", rows: flows, search: (f) => `${f.name} ${f.from} ${f.to}`,
  columns: [
    { name: "flow", text: (f) => f.name, value: (f) => f.name },
    { name: "from", text: (f) => f.from, value: (f) => f.from },
    { name: "to", text: (f) => f.to, value: (f) => f.to },
    { name: "payload", figure: true, text: (f) => si(f.bytes, "B"), value: (f) => f.bytes },
    { name: "start", figure: true, text: (f) => seconds(f.start_s), value: (f) => f.start_s },
    { name: "completion", figure: true, text: (f) => seconds(f.completion_s), value: (f) => f.completion_s },
    { name: "goodput", figure: true, text: (f) => si(f.goodput_bps, "bit/s"), value: (f) => f.goodput_bps },
    { name: "retransmitted", figure: true, text: (f) => count(f.retransmissions), value: (f) => f.retransmissions },
    { name: "mean round trip", figure: true, text: (f) => ns(f.rtt_ns?.mean), value: (f) => f.rtt_ns?.mean },
    { name: "remarks", text: remarks },
  ],
}).element;

export function flows(context: Context): HTMLElement | null {
  const summary = context.run.summary;
  const groups = summary?.flow_groups ?? [];
  const list = summary?.flows ?? [];
  const measured = things(context.run, "flows");
  if (!groups.length && !measured.length) return null;
  const base = { end_s: context.end_s, events: context.events };
  const name = (thing: Thing) => {
    const [from, to, protocol, a, b] = thing.track.key;
    const ports = a === "0" && b === "0" ? "" : ` ${a} > ${b}`;
    return `${from} > ${to} ${protocol}${ports}`;
  };
  const bytes = (thing: Thing, metric: string) => ((overall(thing, metric) ?? 0) * thing.tracks.grid.end_ns) / 8e9;
  const draw = (thing: Thing) => charts(
    chart({ ...base, title: "Sent and received", lines: [{ label: "received", thing, metric: "rate" }, { label: "sent", thing, metric: "sent", dashed: true }], show: (v) => si(v, "bit/s") }),
    chart({ ...base, title: "Delay from entry to delivery", lines: [{ label: "mean", thing, metric: "delay" }, { label: "max", thing, metric: "delay_max", dashed: true }].filter((line) => thing.track.lines[line.metric]) as Line[], show: ns }),
    thing.track.lines["dropped"] && chart({ ...base, title: "Dropped by the network, packets", lines: [{ label: "dropped", thing, metric: "dropped" }], show: (v) => count(Number(v.toFixed(2))), least_top: 4 }),
  );
  const seen = summary?.flows_seen ?? 0;
  return section("flows", "Flows",
    groups.length > 0 && h("div", null, h("h3", null, "Modelled traffic"), modelled(groups)),
    list.length > 0 && h("details", null, h("summary", null, `Each modelled flow${seen > list.length ? `: the first ${count(list.length)} of ${count(seen)}; flows.csv has all` : ""}`), each(list)),
    measured.length > 0 && h("div", null, h("h3", null, "Measured, by five-tuple"), leftOut(context, "flows"),
      chosenOf(measured, "flows", name, [
        { name: "sent", figure: true, text: (t) => si(bytes(t, "sent"), "B"), value: (t) => bytes(t, "sent") },
        { name: "received", figure: true, text: (t) => si(bytes(t, "rate"), "B"), value: (t) => bytes(t, "rate") },
        { name: "peak", figure: true, text: (t) => si(most(t, "rate")?.[0], "bit/s"), value: (t) => most(t, "rate")?.[0] },
        { name: "longest delay", figure: true, text: (t) => ns(most(t, "delay_max")?.[0]), value: (t) => most(t, "delay_max")?.[0] },
        { name: "dropped", figure: true, text: (t) => count(Math.round(sum(t, "dropped"))), value: (t) => sum(t, "dropped") },
      ], draw, "received")));
}

export function connections(context: Context): HTMLElement | null {
  const list = things(context.run, "connections");
  if (!list.length) return null;
  const base = { end_s: context.end_s, events: context.events };
  const last = (thing: Thing, metric: string) => thing.track.lines[metric]?.mean.findLast((value) => value != null) ?? null;
  const name = (thing: Thing) => {
    const [host, port, peer, peerPort, flow] = thing.track.key;
    return `${host}:${port} > ${peer}:${peerPort}${flow ? ` (${flow})` : ""}`;
  };
  const draw = (thing: Thing) => {
    const lines = (...metrics: [string, string][]): Line[] =>
      metrics.filter(([metric]) => thing.track.lines[metric]).map(([metric, label], place) => ({ label, thing, metric, dashed: place > 0 }));
    const [windows, trips, rates, flight] = [lines(["cwnd", "cwnd"], ["ssthresh", "ssthresh"]), lines(["srtt", "smoothed"], ["min_rtt", "minimum"]), lines(["delivery", "delivery rate"]), lines(["in_flight", "in flight"], ["lost", "considered lost"], ["retransmitted", "retransmitted so far"])];
    return charts(
      windows.length > 0 && chart({ ...base, title: "Congestion window and slow start threshold", lines: windows, show: (v) => si(v, "B") }),
      trips.length > 0 && chart({ ...base, title: "Round trip", lines: trips, show: ns }),
      flight.length > 0 && chart({ ...base, title: "Segments", lines: flight, show: (v) => count(Math.round(v)) }),
      rates.length > 0 && chart({ ...base, title: "Delivery rate", lines: rates, show: (v) => si(v, "bit/s") }),
    );
  };
  return section("connections", "TCP connections", leftOut(context, "connections"),
    chosenOf(list, "connections", name, [
      { name: "congestion", text: (t) => t.track.key[6] ?? "", value: (t) => t.track.key[6] },
      { name: "largest cwnd", figure: true, text: (t) => si(most(t, "cwnd")?.[0], "B"), value: (t) => most(t, "cwnd")?.[0] },
      { name: "longest round trip", figure: true, text: (t) => ns(most(t, "srtt")?.[0]), value: (t) => most(t, "srtt")?.[0] },
      { name: "minimum round trip", figure: true, text: (t) => ns(last(t, "min_rtt")), value: (t) => last(t, "min_rtt") },
      { name: "retransmitted", figure: true, text: (t) => count(last(t, "retransmitted") ?? 0), value: (t) => last(t, "retransmitted") ?? 0 },
    ], draw, "largest cwnd"));
}

export function hosts(context: Context): HTMLElement | null {
  const list = things(context.run, "hosts");
  if (!list.length) return null;
  const base = { end_s: context.end_s, events: context.events };
  const draw = (thing: Thing) => charts(
    chart({ ...base, title: "CPUs: used, and waited for", lines: [{ label: "used", thing, metric: "cpu" }, { label: "waited for", thing, metric: "wait", dashed: true }], show: (v) => percent(v, 0), least_top: 0.1 }),
    chart({ ...base, title: "Memory", lines: [{ label: "memory", thing, metric: "memory" }], show: (v) => si(v, "B") }),
  );
  return section("hosts", "Hosts", leftOut(context, "hosts"),
    chosenOf(list, "hosts", (t) => t.track.key[0] ?? "", [
      { name: "CPU, mean", figure: true, text: (t) => percent(overall(t, "cpu")), value: (t) => overall(t, "cpu") },
      { name: "CPU, max", figure: true, text: (t) => percent(most(t, "cpu")?.[0]), value: (t) => most(t, "cpu")?.[0] },
      { name: "waited, max", figure: true, text: (t) => percent(most(t, "wait")?.[0]), value: (t) => most(t, "wait")?.[0] },
      { name: "memory, max", figure: true, text: (t) => si(most(t, "memory")?.[0], "B"), value: (t) => most(t, "memory")?.[0] },
    ], draw, "CPU, mean"));
}
