// Reads the document of the page, and builds the page of a run, or of several beside each other.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { comparison } from "./compare";
import { section, type Context } from "./context";
import type { Document, Run } from "./data";
import { h, replace } from "./dom";
import { drops } from "./drops";
import { fidelity } from "./fidelity";
import { connections, flows, hosts } from "./flows";
import { at, count, of, seconds } from "./format";
import { Graph, params, type LinkOf } from "./graph";
import { events, machine } from "./machine";
import { badge, overview } from "./overview";
import { packets } from "./packets";
import { pipeCharts, Pipes } from "./pipes";
import { programs } from "./programs";
import { PipeSeries, serve, worstPipe } from "./series";
import { range, switchTheme, theme } from "./state";

/** What this page can read. */
const VERSION = 1;

async function read(): Promise<Document> {
  const text = document.getElementById("data")?.textContent?.trim() ?? "";
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = (await new Response(stream).json()) as Document;
  if (data.format !== "longhaul-report" || data.version !== VERSION) {
    throw new Error(`this page reads longhaul-report version ${VERSION}, not ${data.format} version ${data.version}`);
  }
  return data;
}

const NAMES: Record<string, string> = {
  overview: "Overview", topology: "Topology", pipes: "Pipes", flows: "Flows", connections: "Connections", hosts: "Hosts", programs: "Programs",
  drops: "Drops", fidelity: "Verdict", packets: "Packets", events: "Events", machine: "Machine", warnings: "Warnings",
};

function head(title: (HTMLElement | string)[], about: string, nav: [string, string][], end_s: number): HTMLElement {
  const button = h("button", { type: "button", class: "theme", on: { click: switchTheme } });
  const name = () => replace(button, theme.value === "dark" ? "☀ light" : "☾ dark");
  name();
  theme.follow(name);
  const shown = h("span", { class: "range", hidden: true });
  const all = h("button", { type: "button", on: { click: () => range.set(null) } }, "show all");
  range.follow((value) => {
    shown.hidden = value == null;
    if (value) replace(shown, `${at(value[0], (value[1] - value[0]) / 100)} to ${at(value[1], (value[1] - value[0]) / 100)} of ${seconds(end_s)} `, all);
  });
  return h("header", null,
    h("div", { class: "top" }, h("h1", null, title), button),
    h("p", { class: "about" }, about),
    h("nav", { "aria-label": "sections" }, nav.map(([id, name]) => h("a", { href: `#${id}` }, name)), shown));
}

/** The topology, and beside it what is chosen there. */
function topology(context: Context): [HTMLElement, Graph] {
  const { run } = context;
  const beside = h("div", { class: "beside", "aria-live": "off" });
  const show = (link: LinkOf) => {
    const pipes = link.pipes.map((number) => run.pipes[number]!);
    replace(beside, h("h3", null, h("bdi", null, link.name)),
      h("div", { class: "columns" }, pipes.map((pipe) => h("div", null, h("h4", null, h("bdi", null, pipe.name)), params(pipe)))),
      pipeCharts(context, pipes));
  };
  const graph = new Graph(run, context.series, show);
  const kinds = new Map<string, number>();
  for (const node of run.nodes) kinds.set(node.kind, (kinds.get(node.kind) ?? 0) + 1);
  const nodes = [...kinds].map(([kind, n]) => of(n, kind)).join(", ");
  const text = run.nodes.length ? `${nodes}, ${of(graph.links.length, "link")}. Choose a link to see its charts; the slider chooses a moment of the run.` : `${count(run.nodes_seen)} nodes are not drawn; the table has the links.`;
  return [section("topology", "Topology", h("p", { class: "note" }, text), h("div", { class: "split" }, graph.element, beside), graph.table()), graph];
}

function warnings(run: Run): HTMLElement | null {
  const list = [...run.notes, ...(run.summary?.warnings ?? [])];
  if (!list.length) return null;
  const shown = list.slice(0, 100).map((text) => h("li", null, text));
  const box = h("details", { class: "warnings", id: "warnings" }, h("summary", null, `${of(list.length, "note")} on this run and page`), h("ul", null, shown));
  if (run.ending !== "whole" || list.length <= 2) box.open = true;
  return box;
}

function ofRun(data: Document, run: Run): void {
  const context: Context = {
    run,
    end_s: Math.max(run.end_s, 1e-6),
    events: run.summary?.events ?? [],
    series: new PipeSeries(run),
    choosePipe: (name) => {
      graph?.showPipe(name);
      context.go("topology");
    },
    // Smoothly or not, as the style sheet says for those who want less motion.
    go: (id) => document.getElementById(id)?.scrollIntoView(),
  };
  const [drawn, graph] = run.nodes_seen > 0 ? topology(context) : [null, null];
  const sections = [
    overview(context), warnings(run), drawn, run.pipes.length ? new Pipes(context).element : null,
    flows(context), connections(context), hosts(context), programs(context), drops(context), fidelity(context), packets(context), events(context), machine(context, data),
  ].filter((part): part is HTMLElement => part != null);
  const nav = sections.filter((part) => part.tagName === "SECTION").map((part): [string, string] => [part.id, NAMES[part.id] ?? part.id]);
  const { summary } = run;
  const about = [
    summary?.clock ? `${summary.clock} time` : null, summary?.seed == null ? null : `seed ${summary.seed}`, summary?.version ? `Longhaul ${summary.version}` : null,
    `${seconds(run.end_s)} of experiment time`, summary?.wall_s == null ? null : `took ${seconds(summary.wall_s)}`, summary?.run ?? run.folder,
  ].filter(Boolean).join(" · ");
  const page = document.getElementById("page")!;
  replace(page, head([h("bdi", null, run.name || run.folder), " ", badge(run)], about, nav, context.end_s), h("main", null, sections));
  if (graph && run.nodes.length) {
    graph.start();
    const worst = worstPipe(run.pipes);
    if (worst) graph.showPipe(worst.name);
  }
  // For tests: where links are, and what moving costs.
  Object.assign(window, { longhaul: { graph } });
}

function ofSeveral(data: Document): void {
  const [main, nav] = comparison(data);
  const names = [...new Set(data.runs.map((run) => run.name))].join(", ");
  const end_s = Math.max(...data.runs.map((run) => run.end_s));
  replace(document.getElementById("page")!, head([h("span", null, h("bdi", null, names), `: ${of(data.runs.length, "run")} compared`)], data.runs.map((run, n) => `${n + 1}: ${run.folder}`).join(" · "), nav, end_s), main);
}

async function main(): Promise<void> {
  const data = await read();
  serve(data);
  const [run] = data.runs;
  if (data.runs.length === 1 && run) ofRun(data, run);
  else ofSeveral(data);
  document.documentElement.setAttribute("data-ready", "true");
}

main().catch((error: unknown) => {
  replace(document.getElementById("page")!, h("main", null, h("h1", null, "This page cannot be read"), h("p", null, String(error)), h("p", null, "summary.json beside this file has the figures of the run.")));
  document.documentElement.setAttribute("data-ready", "failed");
});
