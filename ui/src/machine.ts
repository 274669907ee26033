// Events, the run and the machine, and where everything is.

import type { Context } from "./context";
import { note, section } from "./context";
import type { Document } from "./data";
import { fileLink, h } from "./dom";
import { at, count, NONE, ns, percent, seconds, si } from "./format";
import { zoom } from "./chart";
import { facts, Table } from "./table";

export function events(context: Context): HTMLElement | null {
  const list = context.events;
  if (!list.length) return null;
  const seen = context.run.summary?.events_seen ?? list.length;
  const around = Math.max(context.end_s / 50, 1e-3);
  return section("events", "Events", seen > list.length ? note(`The first ${count(list.length)} of ${count(seen)}.`) : null,
    new Table({
      label: "events", rows: list, search: (e) => e.event, choose: (e) => zoom(e.at_s - around, e.at_s + 2 * around, context.end_s),
      columns: [
        { name: "when", text: (e) => at(e.at_s), value: (e) => e.at_s },
        { name: "what", text: (e) => e.event, value: (e) => e.event },
      ],
    }).element);
}

const words = (value: unknown): string | null => {
  if (value == null || value === "") return null;
  if (Array.isArray(value)) return value.length ? value.map(String).join(", ") : "shared with the core";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
};

export function machine(context: Context, document: Document): HTMLElement {
  const { run } = context;
  const { summary } = run;
  const own = summary?.machine ?? {};
  const partition = summary?.partition;
  const cores = summary?.cores ?? [];
  const bytes = own["memory_bytes"];
  return section("machine", "Run and machine",
    h("div", { class: "columns" },
      h("div", null, h("h3", null, "Run"), facts([
        ["experiment", run.name], ["clock", summary?.clock], ["seed", summary?.seed == null ? null : String(summary.seed)],
        ["Longhaul", summary?.version], ["experiment time", summary?.simulated_s == null ? null : seconds(summary.simulated_s)],
        ["real time", summary?.wall_s == null ? null : seconds(summary.wall_s)],
        ["of which set-up", summary?.setup_s == null ? null : seconds(summary.setup_s)], ["of which tear-down", summary?.teardown_s == null ? null : seconds(summary.teardown_s)],
        ["CPU time of Longhaul", summary?.cpu_s == null ? null : seconds(summary.cpu_s)],
        ["speed", summary?.hops_per_s ? `${si(summary.hops_per_s)} packet-hops/s of the drive loop` : null],
        ["trace hash", summary?.trace_hash], ["run folder", summary?.run],
        ["attempts", (summary?.attempts ?? []).map((attempt, n) => `${n + 1} ${attempt.state}`).join(", ")],
      ])),
      h("div", null, h("h3", null, "Machine"), facts([
        ["processor", words(own["processor"])], ["CPUs", words(own["cpus"])], ["CPU of the core", own["core_cpu"] === null ? "shared with programs" : words(own["core_cpu"])],
        ["CPUs of programs", words(own["program_cpus"])], ["scheduling of the core", words(own["core_scheduling"])],
        ["memory", typeof bytes === "number" ? si(bytes, "B") : null], ["kernel", words(own["kernel"])], ["clock source", words(own["clock_source"])],
        ["virtual machine", words(own["virtual_machine"])], ["hyper-threads", words(own["hyper_threads"])], ["frequency governor", words(own["frequency_governor"])],
        ["load before the run", words(own["load_before"])],
      ]))),
    cores.length > 0 && new Table({
      label: "cores", rows: cores.map((core, number) => ({ ...core, number })),
      columns: [
        { name: "core", figure: true, text: (c) => String(c.number), value: (c) => c.number },
        { name: "pipes", figure: true, text: (c) => count(c.pipes), value: (c) => c.pipes },
        { name: "packets", figure: true, text: (c) => count(c.packets), value: (c) => c.packets },
        { name: "cross-core", figure: true, text: (c) => count(c.cross_core), value: (c) => c.cross_core },
        { name: "busy", figure: true, text: (c) => percent(c.busy), value: (c) => c.busy },
      ],
    }).element,
    partition ? h("div", null, h("h3", null, "Partition"), note(`Method ${partition.method}, ${count(partition.cut_pipes)} pipes cut, look-ahead ${partition.lookahead_ns == null ? "unbounded" : ns(partition.lookahead_ns)}; ${count(partition.edge_packets)} edge packets, ${count(partition.crossing_packets)} between cores.`),
      new Table({
        label: "partition", rows: (["efficiency", "load_max", "load_mean"] as const).map((key) => ({ key, predicted: partition.predicted[key], measured: partition.measured[key] })),
        columns: [
          { name: "", text: (r) => ({ efficiency: "efficiency", load_max: "busy, max", load_mean: "busy, mean" })[r.key] },
          { name: "predicted", figure: true, text: (r) => percent(r.predicted) }, { name: "measured", figure: true, text: (r) => percent(r.measured) },
        ],
      }).element) : null,
    h("h3", null, "Files"), h("p", null, run.files.length ? run.files.flatMap((file, n) => [n ? " · " : "", fileLink(file)]) : NONE),
    h("p", { class: "note" }, `Made by Longhaul ${document.made_by}. `, licences()));
}

function licences(): HTMLElement {
  const template = window.document.getElementById("licences") as HTMLTemplateElement | null;
  return h("details", null, h("summary", null, "Licences of what this page contains"), h("pre", { class: "log" }, template?.content.textContent ?? ""));
}
