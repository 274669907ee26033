// Packets one by one: how many had come, begun service and come out by when (Newell's curves). The way
// across between two curves is a packet's time, the way up the packets that wait or are under way.

import uPlot from "uplot";
import { timeKeys, verticals } from "./chart";
import type { Context } from "./context";
import { note, section } from "./context";
import type { Timeline } from "./data";
import { h, lazily, replace } from "./dom";
import { at, count, ns } from "./format";
import { lowerBound } from "./series";
import { colour, line, theme } from "./state";
import { Table } from "./table";

const FATES: Record<string, string> = { out: "left the pipe", queue: "queue full", loss: "lost", link_down: "link down" };

function curves(timeline: Timeline, events: Context["events"], element: HTMLElement): void {
  const order = timeline.arrival_ns.map((_, place) => place).sort((a, b) => timeline.arrival_ns[a]! - timeline.arrival_ns[b]!);
  const out = order.filter((place) => timeline.fate[place] === "out");
  const sorted = (times: number[]) => times.slice().sort((a, b) => a - b);
  const curve = (times: number[]): uPlot.AlignedData => [sorted(times).map((t) => t / 1e9), times.map((_, n) => n + 1)];
  const all = [
    curve(out.map((place) => timeline.arrival_ns[place]!)),
    curve(out.map((place) => timeline.service_ns[place]!)),
    curve(out.map((place) => timeline.departure_ns[place]!)),
  ];
  // Packets that were dropped, at how many had come by then.
  const arrivals = sorted(out.map((place) => timeline.arrival_ns[place]!));
  const lost = sorted(order.filter((place) => timeline.fate[place] !== "out").map((place) => timeline.departure_ns[place]!));
  all.push([lost.map((t) => t / 1e9), lost.map((t) => lowerBound(arrivals, t + 1))]);
  const data = uPlot.join(all.filter((table) => table[0].length > 0)) as uPlot.AlignedData;
  const names = ["arrived", "left the queue", "left the pipe", "dropped"].filter((_, n) => all[n]![0].length > 0);
  const legend = h("div", { class: "legend" });
  const holder = h("div", { class: "plot", tabindex: 0, role: "application", "aria-label": "Packets by number and time: chart. Arrow keys move, plus and minus zoom, 0 shows all; the table has the packets." });
  const times = data[0] as number[];
  const whole: [number, number] = [times[0] ?? 0, times[times.length - 1] ?? 1];
  let plot: uPlot | null = null;
  const draw = () => {
    plot?.destroy();
    const grid = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("quiet"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
    const steps = uPlot.paths.stepped!({ align: 1 });
    plot = new uPlot({
      width: Math.max(220, holder.clientWidth), height: 260, legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 30 } },
      scales: { x: { time: false } },
      axes: [{ ...axis, size: 28, values: (_, ticks) => ticks.map((t) => at(t, Math.max(1e-9, (ticks[1] ?? 1) - (ticks[0] ?? 0)))) }, { ...axis, size: 64 }],
      series: [{}, ...names.map((name, n) => name === "dropped"
        ? { stroke: colour("bad"), width: 0, paths: () => null, points: { show: true, size: 6, stroke: colour("bad"), fill: colour("bad") } }
        : { stroke: line(n), width: 1.5, paths: steps, spanGaps: true, points: { show: false } })],
      hooks: { draw: [(plot) => verticals(plot, events.map((event) => event.at_s), "event")] },
    }, data, holder);
    replace(legend, names.map((name, n) => h("span", { class: "item" }, h("span", { class: "swatch", style: { "--swatch": name === "dropped" ? colour("bad") : line(n) } }), name)));
  };
  replace(element, legend, holder, h("p", { class: "width" }, "Every packet, counted over time. Between two curves, the horizontal distance is how long a packet took, the vertical distance how many packets were in between. Drag to zoom, double-click to show all."));
  draw();
  const view = (): [number, number] => [plot?.scales["x"]?.min ?? whole[0], plot?.scales["x"]?.max ?? whole[1]];
  holder.addEventListener("keydown", timeKeys(whole, view, (stretch) => {
    const [min, max] = stretch ?? whole;
    plot?.setScale("x", { min, max });
  }));
  theme.follow(draw);
  new ResizeObserver(() => plot?.setSize({ width: Math.max(220, holder.clientWidth), height: 260 })).observe(holder);
}

interface Row {
  number: number;
  place: number;
}

function table(timeline: Timeline): HTMLElement {
  const rows: Row[] = timeline.arrival_ns.map((_, place) => ({ number: place + 1, place }));
  const wait = (r: Row) => timeline.service_ns[r.place]! - timeline.arrival_ns[r.place]!;
  const total = (r: Row) => timeline.departure_ns[r.place]! - timeline.arrival_ns[r.place]!;
  return new Table<Row>({
    label: "packets", rows, search: (r) => `${timeline.flows[timeline.flow[r.place]!]} ${timeline.fate[r.place]}`,
    columns: [
      { name: "arrival", text: (r) => at(timeline.arrival_ns[r.place]! / 1e9, 1e-6), value: (r) => timeline.arrival_ns[r.place] },
      { name: "flow", text: (r) => timeline.flows[timeline.flow[r.place]!] ?? "", value: (r) => timeline.flows[timeline.flow[r.place]!] },
      { name: "bytes", figure: true, text: (r) => count(timeline.bytes[r.place]), value: (r) => timeline.bytes[r.place] },
      { name: "waited", figure: true, text: (r) => ns(Math.max(0, wait(r))), value: wait },
      { name: "in the pipe", figure: true, text: (r) => ns(Math.max(0, total(r))), value: total },
      { name: "fate", text: (r) => FATES[timeline.fate[r.place]!] ?? timeline.fate[r.place]!, value: (r) => timeline.fate[r.place] },
    ],
  }).element;
}

export function packets(context: Context): HTMLElement | null {
  const list = context.run.timelines.filter((timeline) => timeline.arrival_ns.length > 0);
  if (!list.length) return null;
  const drawn = list.map((timeline) => {
    const element = h("figure", { class: "chart wide" });
    lazily(element, () => curves(timeline, context.events, element));
    const shown = timeline.arrival_ns.length;
    return h("div", null, h("h3", null, h("bdi", null, timeline.pipe)),
      timeline.seen > shown ? note(`The first ${count(shown)} of ${count(timeline.seen)} packets; series/packets has all.`) : null,
      element, h("details", { class: "as-table" }, h("summary", null, "As a table"), table(timeline)));
  });
  return section("packets", "Packets one by one", ...drawn);
}
