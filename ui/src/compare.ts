// Several runs beside each other: verdicts, and every figure with what its difference amounts to.

import { chart, charts, type Line } from "./chart";
import { note, section } from "./context";
import type { Comparison, Document, Figure } from "./data";
import { h, replace } from "./dom";
import { count, NONE, ns, percent, seconds, si } from "./format";
import { badge, failures } from "./overview";
import { PipeSeries, things, type Thing } from "./series";
import { Table } from "./table";

function show(value: number | null | undefined, unit: string): string {
  if (value == null) return NONE;
  if (unit === "s") return seconds(value);
  if (unit === "ns") return ns(value);
  if (unit === "share") return percent(value, 2);
  if (unit === "") return count(Number(value.toFixed(3)));
  return si(value, unit);
}

function difference(figure: Figure, group: number): string {
  const value = figure.difference[group];
  if (value == null) return NONE;
  return `${value > 0 ? "+" : ""}${(100 * value).toFixed(Math.abs(value) < 0.1 ? 2 : 1)} %`;
}

function judged(figure: Figure, group: number): string {
  const beyond = figure.beyond_noise[group];
  const noise = figure.noise[group];
  if (figure.difference[group] == null) return "";
  if (beyond == null) return "unknown: no repeats";
  return `${beyond ? "differs" : "within noise"} (noise ${percent(noise, 2)})`;
}

function summary(document: Document, comparison: Comparison): HTMLElement {
  const cards = comparison.groups.map((group, number) =>
    h("div", { class: "card plain" }, h("h3", null, `${String.fromCharCode(65 + number)}: `, h("bdi", null, group.name)),
      h("ul", null, group.runs.map((place) => {
        const run = document.runs[place]!;
        const wrong = failures(run);
        return h("li", null, badge(run), " ", h("bdi", null, run.folder), run.summary?.verdict?.holds ? `: ${run.summary.verdict.holds}` : "", wrong.length ? `; ${wrong[0]}` : "");
      }))));
  const differing = comparison.figures.filter((figure) => figure.beyond_noise.some((beyond) => beyond)).length;
  const unknown = comparison.figures.every((figure) => figure.beyond_noise.every((beyond) => beyond == null));
  const lead = comparison.groups.length < 2 ? "Repeats of one experiment, and the noise of its figures." : unknown
    ? "No experiment was repeated, so the noise is unknown: compare several runs of the same experiment file."
    : `${count(differing)} of ${count(comparison.figures.length)} figures differ by more than the noise of repeats.`;
  return h("section", { id: "overview" }, h("p", { class: "lead" }, lead), h("div", { class: "cards" }, cards),
    note("Runs of the same experiment file (seeds apart) are repeats of each other. Noise is what a difference must exceed to be more than chance: the 95 % confidence interval of a difference of means (Student's t, pooled variance)."));
}

function figures(document: Document, comparison: Comparison): HTMLElement[] {
  const sections = [...new Set(comparison.figures.map((figure) => figure.section))];
  const names = document.runs.map((run) => run.folder);
  return sections.map((title) => {
    const rows = comparison.figures.filter((figure) => figure.section === title);
    const others = comparison.groups.map((_, number) => number).filter((number) => number > 0);
    const worst = (figure: Figure) => Math.max(0, ...others.map((group) => (figure.beyond_noise[group] === false ? 0 : Math.abs(figure.difference[group] ?? 0))));
    const table = new Table<Figure>({
      label: title, rows, search: (f) => `${f.name} ${f.what}`,
      class: (f) => (f.beyond_noise.some((beyond) => beyond) ? "differs" : ""),
      columns: [
        { name: "name", text: (f) => f.name, value: (f) => f.name },
        { name: "figure", text: (f) => f.what, value: (f) => f.what },
        ...names.map((name, place) => ({ name: `${place + 1}: ${name}`, figure: true, text: (f: Figure) => show(f.values[place], f.unit), value: (f: Figure) => f.values[place] })),
        ...others.flatMap((group) => {
          const letter = String.fromCharCode(65 + group);
          return [
            { name: `${letter} against A`, figure: true, text: (f: Figure) => difference(f, group), value: worst },
            { name: `${letter}: noise`, text: (f: Figure) => judged(f, group) },
          ];
        }),
      ],
    });
    return section(title.toLowerCase().replaceAll(" ", "-"), title, table.element);
  });
}

/** A pipe or a flow of all runs in one chart. */
function overTime(document: Document): HTMLElement {
  const view = h("div", null);
  const end_s = Math.max(...document.runs.map((run) => run.end_s));
  const pipes = document.runs.map((run) => new PipeSeries(run));
  const flows = document.runs.map((run) => new Map(things(run, "flows").map((thing) => [thing.track.key.slice(0, 3).join(" "), thing])));
  const names = [...new Set(document.runs.flatMap((run) => run.pipes.map((pipe) => pipe.name)))];
  const flowNames = [...new Set(flows.flatMap((map) => [...map.keys()]))];
  const lines = (find: (run: number) => Thing | null, metric: string): Line[] =>
    document.runs.flatMap((run, place) => {
      const thing = find(place);
      return thing ? [{ label: `${place + 1}: ${run.folder}`, thing, metric }] : [];
    });
  const draw = (value: string) => {
    const [kind, ...rest] = value.split(" ");
    const name = rest.join(" ");
    const find = (run: number) => (kind === "pipe" ? pipes[run]!.of(name) : (flows[run]!.get(name) ?? null));
    const base = { end_s, events: [] };
    const all = lines(find, "rate");
    replace(view, charts(
      all.length > 0 && chart({ ...base, title: "Throughput", lines: all, show: (v) => si(v, "bit/s") }),
      all.some((l) => l.thing.track.lines["delay"]) && chart({ ...base, title: kind === "pipe" ? "Queueing delay" : "Delay", lines: lines(find, "delay"), show: ns }),
      all.some((l) => l.thing.track.lines["drops_queue"]) && chart({ ...base, title: "Dropped: queue full", lines: lines(find, "drops_queue"), show: (v) => count(Number(v.toFixed(1))), least_top: 4 }),
    ));
  };
  const select = h("select", { "aria-label": "what the charts show", on: { change: (event) => draw(event.target.value) } },
    [...names.slice(0, 2000).map((name) => ["pipe", name]), ...flowNames.slice(0, 500).map((name) => ["flow", name])].map(([kind, name]) => h("option", { value: `${kind} ${name}` }, `${kind} ${name}`)));
  const busiest = [...(document.runs[0]?.pipes ?? [])].sort((a, b) => (b.counts?.bytes ?? 0) - (a.counts?.bytes ?? 0))[0];
  if (busiest) {
    select.value = `pipe ${busiest.name}`;
    draw(select.value);
  }
  return section("time", "Over time", h("div", { class: "controls" }, h("label", null, "Show ", select)), view);
}

export function comparison(document: Document): [HTMLElement, [string, string][]] {
  const { comparison } = document;
  const parts = comparison ? [summary(document, comparison), overTime(document), ...figures(document, comparison)] : [];
  const nav = parts.slice(1).map((part): [string, string] => [part.id, part.querySelector("h2")?.textContent ?? part.id]);
  return [h("main", null, parts), [["overview", "Overview"], ...nav]];
}
