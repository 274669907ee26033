// Where packets ended that did not reach a host: causes, over time, and pipe by pipe.

import { chart, charts } from "./chart";
import type { Context } from "./context";
import { note, pipeButton, section } from "./context";
import { h } from "./dom";
import { count, percent } from "./format";
import { CAUSES } from "./overview";
import { single, type Thing } from "./series";
import { Table } from "./table";

const MEANINGS: Record<string, string> = {
  queue: "the queue was full, or its discipline chose to drop", loss: "a pipe's loss: model, trace, bit errors, element",
  link_down: "the link was down, or went down", hop_limit: "the TTL or hop limit ran out",
  no_route: "no node has the address, or no path leads there", too_big: "larger than the next MTU, and not to be fragmented",
  misdelivered: "reached a host that they were not addressed to", absorbed: "addressed to a router, which took them",
};
const REFUSED: Record<string, string> = {
  malformed: "broken headers", not_ip: "neither IPv4 nor IPv6", multicast: "broadcast and multicast, which only a lan segment carries",
  multicast_data: "of these, the ones that programs had sent", too_long: "longer than any link's MTU",
};

function bars(counts: Record<string, number>, meanings: Record<string, string>, all: number): HTMLElement {
  const known = Object.entries(counts).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const most = known[0]?.[1] ?? 1;
  return h("div", { class: "scroll" }, h("table", { class: "bars" }, h("thead", null, h("tr", null, ["cause", "packets", "share", "", "meaning"].map((name, place) => h("th", { scope: "col", class: place === 1 || place === 2 ? "n" : "" }, name)))),
    h("tbody", null, known.map(([cause, n]) => h("tr", null,
      h("td", null, CAUSES[cause] ?? cause.replaceAll("_", " ")), h("td", { class: "n" }, count(n)), h("td", { class: "n" }, percent(n / Math.max(1, all), 3)),
      h("td", { class: "bar" }, h("span", { style: { width: `${(100 * n) / most}%` } })), h("td", { class: "note" }, meanings[cause] ?? ""))))));
}

/** All pipes' drops in one series, column by column. */
function together(context: Context): Thing | null {
  const tracks = context.run.series.pipes ?? context.run.series.pipe_seconds;
  if (!tracks) return null;
  const metrics = ["drops_queue", "drops_loss", "drops_down"] as const;
  const sums = new Map(metrics.map((metric) => [metric, new Array<number>(tracks.grid.columns).fill(0)]));
  let any = false;
  for (const track of tracks.shown) {
    for (const metric of metrics) {
      const sum = sums.get(metric)!;
      track.lines[metric]?.mean.forEach((value, place) => {
        const column = track.columns ? track.columns[place]! : place;
        if (value) any = true;
        sum[column] = (sum[column] ?? 0) + (value ?? 0);
      });
    }
  }
  if (!any) return null;
  const lines = Object.fromEntries(metrics.filter((metric) => sums.get(metric)!.some(Boolean)).map((metric) => [metric, { mean: sums.get(metric)! }]));
  return { series: "pipes", tracks: { ...tracks, windows: [] }, track: { key: [], columns: null, lines }, number: -1 };
}

export function drops(context: Context): HTMLElement {
  const { run } = context;
  const packets = run.summary?.packets;
  const verdict = run.summary?.verdict;
  const all = packets ? packets.entered + packets.created : 0;
  const sum = together(context);
  const labels: [string, string][] = [["drops_queue", "queue full"], ["drops_loss", "loss"], ["drops_down", "link down"]];
  const dropping = run.pipes.filter((pipe) => pipe.counts?.drops);
  const places = Object.fromEntries(Object.entries(verdict?.physical_drops_by_place ?? {}).filter(([, n]) => n > 0));
  const core = single(run, "core");
  return section("drops", "Drops by cause",
    packets ? h("p", { class: "sum" }, h("span", null, h("b", null, count(packets.entered)), " entered"), " + ", h("span", null, h("b", null, count(packets.created)), " created"), " = ",
      h("span", null, h("b", null, count(packets.delivered)), " delivered"), " + ", h("span", null, h("b", null, count(Object.values(packets.dropped).reduce((a, b) => a + b, 0))), " dropped"), " + ",
      h("span", null, h("b", null, count(packets.inside)), " inside")) : null,
    packets && Object.values(packets.dropped).some(Boolean) ? h("div", null, h("h3", null, "Dropped inside the network"), bars(packets.dropped, MEANINGS, all)) : packets ? note("The network dropped nothing.") : null,
    packets && Object.values(packets.refused).some(Boolean) ? h("div", null, h("h3", null, "Refused at ingress: these never entered"), bars(packets.refused, REFUSED, all)) : null,
    Object.keys(places).length ? h("div", null, h("h3", null, "Lost by this machine"), bars(places, {
      ring: "the core's receive ring was full", shed: "read so late that the core shed them", pool: "no free slot in the packet pool",
      send: "the kernel refused to send them", to_core: "on cables to the core", from_core: "on cables to hosts",
    }, all)) : null,
    charts(
      sum && chart({ title: "Packets dropped in pipes, per step", end_s: context.end_s, events: context.events, lines: labels.filter(([metric]) => sum.track.lines[metric]).map(([metric, label]) => ({ label, thing: sum, metric })), show: (v) => count(Number(v.toFixed(2))), least_top: 4 }),
      core && chart({ title: "Packets inside the network", end_s: context.end_s, events: context.events, lines: [{ label: "inside", thing: core, metric: "inside" }], show: (v) => count(Math.round(v)) }),
    ),
    dropping.length > 0 && new Table({
      label: "pipes that dropped", rows: dropping, sort: ["dropped", true], search: (p) => p.name,
      columns: [
        { name: "pipe", text: (p) => pipeButton(context, p.name), value: (p) => p.name },
        { name: "dropped", figure: true, text: (p) => count(p.counts!.drops), value: (p) => p.counts!.drops },
        { name: "share", figure: true, text: (p) => percent(p.counts!.drops / Math.max(1, p.counts!.drops + p.counts!.packets), 2), value: (p) => p.counts!.drops / Math.max(1, p.counts!.drops + p.counts!.packets) },
        { name: "queue full", figure: true, text: (p) => count(p.counts!.drops_queue), value: (p) => p.counts!.drops_queue },
        { name: "of these early", figure: true, title: "dropped by the discipline although there was room", text: (p) => count(p.counts!.drops_early), value: (p) => p.counts!.drops_early },
        { name: "loss", figure: true, text: (p) => count(p.counts!.drops_loss), value: (p) => p.counts!.drops_loss },
        { name: "link down", figure: true, text: (p) => count(p.counts!.drops_down), value: (p) => p.counts!.drops_down },
        { name: "marked", figure: true, text: (p) => count(p.counts!.marked), value: (p) => p.counts!.marked },
      ],
    }).element);
}
