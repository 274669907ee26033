// The verdict: what holds, and lateness, late episodes and stalls of the machine on the time axis.

import { chart, charts, type ChartOptions } from "./chart";
import type { Context } from "./context";
import { note, section } from "./context";
import type { Quantiles, Tracks } from "./data";
import { h } from "./dom";
import { at, count, NONE, ns, of, percent, sentence, si } from "./format";
import { single, type Thing } from "./series";
import { zoom } from "./chart";
import { facts, Table } from "./table";

function quantiles(rows: [string, Quantiles | null | undefined, string][]): HTMLElement {
  const heads = ["", "p50", "p90", "p99", "p99.9", "max", ""];
  const figures = (q: Quantiles | null | undefined) => [q?.p50, q?.p90, q?.p99, q?.p999, q?.max].map((value) => h("td", { class: "n" }, ns(value)));
  return h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col", class: name ? "n" : "" }, name)))),
    h("tbody", null, rows.map(([name, q, meaning]) => h("tr", null, h("td", null, name), figures(q), h("td", { class: "note" }, meaning))))));
}

interface Late {
  from_s: number;
  to_s: number;
  packets: number;
  late: number;
  episodes: number;
  worst: number | null;
  stalls: number;
  drops: number;
}

/** Seconds with late packets or physical drops. */
function lateSeconds(thing: Thing | null): Late[] {
  if (!thing) return [];
  const tracks: Tracks = thing.tracks;
  const { columns, lines } = thing.track;
  const n = columns?.length ?? tracks.grid.columns;
  const value = (metric: string, place: number) => lines[metric]?.mean[place] ?? 0;
  const late: Late[] = [];
  for (let place = 0; place < n; place++) {
    const column = columns?.[place] ?? place;
    const from_s = (column * tracks.grid.width_ns) / 1e9;
    const to_s = Math.min((column + 1) * tracks.grid.width_ns, tracks.grid.end_ns) / 1e9;
    if (!value("late", place) && !value("physical_drops", place)) continue;
    late.push({
      from_s, to_s, packets: value("packets", place) * (to_s - from_s), late: value("late", place), episodes: value("episodes", place),
      worst: value("lateness_max", place) || null, stalls: value("stalls", place), drops: value("physical_drops", place),
    });
  }
  return late;
}

export function fidelity(context: Context): HTMLElement {
  const { run } = context;
  const verdict = run.summary?.verdict;
  const seconds = single(run, "seconds");
  const core = single(run, "core");
  const late = lateSeconds(seconds);
  const isLate = (l: Late) => l.late > 0.01 * Math.max(1, l.packets) || l.drops > 0;
  const shades = late.map((l) => ({ from_s: l.from_s, to_s: l.to_s, level: isLate(l) ? ("bad" as const) : ("doubtful" as const) }));
  const base: Pick<ChartOptions, "end_s" | "events" | "shades"> = { end_s: context.end_s, events: context.events, shades };
  const tolerance = verdict?.tolerance_ns;
  const mark = tolerance ? { value: tolerance, label: `tolerance ${ns(tolerance)}` } : undefined;
  const isReal = verdict?.lateness_ns != null || (verdict == null && seconds?.track.lines["lateness_max"] != null);
  const lines = (thing: Thing, list: [string, string][]) => list.filter(([metric]) => thing.track.lines[metric]).map(([metric, label]) => ({ label, thing, metric }));
  const worst = verdict?.worst_pair;
  const reasons = verdict?.reasons ?? [];
  const tcp = verdict?.tcp;
  return section("fidelity", "What the verdict is based on",
    !verdict && note("There is no verdict: the run has no summary."),
    verdict && !isReal && note("In virtual time no packet is late, and every figure holds."),
    verdict?.holds ? h("p", { class: "lead" }, sentence(verdict.holds)) : null,
    reasons.length > 0 && h("ul", null, reasons.slice(0, 50).map((reason) => h("li", null, reason))),
    isReal && verdict && facts([
      ["late packets", `${percent(verdict.late_share, 3)} in ${of(verdict.episodes ?? 0, "episode")}`],
      ["late by cause", Object.entries(verdict.by_cause ?? {}).filter(([, n]) => n > 0).map(([cause, n]) => `${cause} ${count(n)}`).join(", ") || "none"],
      ["percentiles off by at most", percent(verdict.percentile_shift, 3)],
      ["mean rates kept to at least", percent(verdict.rate_share, 2)],
      ["worst pair", worst ? `${worst.from ?? "all"} to ${worst.to}: ${percent(worst.late_share, 3)} of ${of(worst.packets, "packet")} late, at most ${percent(worst.lost_share, 3)} lost` : "none was late"],
      ["this machine lost", of(verdict.physical_drops ?? 0, "packet")],
      ["stalls of this machine", verdict.stalls ? `${of(verdict.stalls.count, "time")}, ${ns(verdict.stalls.total_ns)} in all, for up to ${ns(verdict.stalls.longest_ns)}` : NONE],
      ["CPU time taken by the hypervisor", verdict.stolen_ns ? ns(verdict.stolen_ns) : null],
      ["clock steps", verdict.clock_steps ? count(verdict.clock_steps) : null],
      ["seconds with more than 1 % late", verdict.seconds ? `${count(verdict.late_seconds)} of ${count(verdict.seconds)}` : null],
      ["hosts' TCP", tcp ? `${count(tcp["retransmissions"])} retransmissions (${count(tcp["spurious_retransmissions"])} spurious), ${count(tcp["timeouts"])} time-outs (${count(tcp["spurious_timeouts"])} spurious)` : null],
    ]),
    isReal && verdict && quantiles([
      ["lateness", verdict.lateness_ns, "when the kernel put packets on their hosts' cables, minus when they were due"],
      ["after the call", verdict.after_call_ns, "the same by the clock after the send call, which includes receiving stacks"],
      ["staleness", verdict.staleness_ns, "age of arrivals when they were read; not an error by itself"],
    ]),
    charts(
      isReal && seconds && chart({ ...base, title: "Lateness in each second", lines: lines(seconds, [["lateness_p50", "p50"], ["lateness_p99", "p99"], ["lateness_max", "max"]]), show: ns, log_from: 100, mark, note: "Shaded: seconds with late packets." }),
      isReal && core && chart({ ...base, title: "Largest lateness in each bin", lines: lines(core, [["lateness_max", "max"], ["lateness", "mean"]]), show: ns, log_from: 100, mark }),
      isReal && core && core.track.lines["late"] && chart({ ...base, title: "Late packets", lines: lines(core, [["late", "late"]]), show: (v) => count(Number(v.toFixed(1))), least_top: 4 }),
      isReal && seconds && seconds.track.lines["late"] && !core?.track.lines["late"] && chart({ ...base, title: "Late packets by cause, in each second", lines: lines(seconds, [["late_stall", "stalls"], ["late_overload", "overload"], ["late_other", "other"]]), show: (v) => count(v), least_top: 4 }),
      isReal && seconds && seconds.track.lines["stalled"] && chart({ ...base, title: "Stalls of this machine, in each second", lines: lines(seconds, [["stalled", "total"], ["stall_max", "longest"], ["stolen", "taken by the hypervisor"]]), show: ns }),
      isReal && seconds && chart({ ...base, title: "Time of the core", lines: lines(seconds, [["busy", "busy"], ["wait", "waited for its CPU"]]), show: (v) => percent(v, 0), least_top: 1 }),
      (core ?? seconds) && chart({ ...base, title: core ? "Packets per second" : "Packets to hosts per second", lines: core ? lines(core, [["entered", "entered"], ["delivered", "delivered"]]) : lines(seconds!, [["packets", "packets"]]), show: (v) => si(v) }),
    ),
    isReal && late.length > 0 && h("div", null, h("h3", null, "Seconds with late packets"), new Table<Late>({
      label: "late seconds", rows: late, choose: (l) => zoom(l.from_s - 0.5, l.to_s + 0.5, context.end_s),
      columns: [
        { name: "second", text: (l) => at(l.from_s, 1), value: (l) => l.from_s },
        { name: "packets", figure: true, text: (l) => count(Math.round(l.packets)), value: (l) => l.packets },
        { name: "late", figure: true, text: (l) => count(l.late), value: (l) => l.late },
        { name: "share", figure: true, text: (l) => percent(l.late / Math.max(1, l.packets), 2), value: (l) => l.late / Math.max(1, l.packets) },
        { name: "episodes", figure: true, text: (l) => count(l.episodes), value: (l) => l.episodes },
        { name: "largest lateness", figure: true, text: (l) => ns(l.worst), value: (l) => l.worst },
        { name: "stalls", figure: true, text: (l) => count(l.stalls), value: (l) => l.stalls },
        { name: "lost by the machine", figure: true, text: (l) => count(l.drops), value: (l) => l.drops },
      ],
    }).element));
}
