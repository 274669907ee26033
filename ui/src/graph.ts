// The topology: links coloured and as wide as what their pipes did, over the run or at a moment.
//
// Each link is one line of two halves: the half at a node is the pipe that leaves it. Places come from
// `longhaul topology draw`. Cytoscape draws on a canvas: names never become markup.

import cytoscape from "cytoscape";
import type { Pipe, Run } from "./data";
import { h, replace } from "./dom";
import { at, count, NONE, ns, percent, seconds, si } from "./format";
import { overall, valueAt, type PipeSeries, type Thing } from "./series";
import { colour, moment, theme } from "./state";
import { facts, Table } from "./table";

type Shade = "load" | "loss" | "queue";

/** What a pipe did, over the run or at a moment. */
interface Doing {
  rate: number | null;
  load: number | null;
  loss: number | null;
  queue: number | null;
}

export interface LinkOf {
  name: string;
  /** One for each direction. */
  pipes: number[];
}

/** The links of a run, each with its pipes' numbers. */
function links(run: Run): LinkOf[] {
  const byName = new Map<string, LinkOf>();
  run.pipes.forEach((pipe, number) => {
    const name = pipe.params?.link ?? pipe.name;
    const link = byName.get(name);
    if (link) link.pipes.push(number);
    else byName.set(name, { name, pipes: [number] });
  });
  return [...byName.values()];
}

const ratio = (part: number, whole: number) => (whole > 0 ? part / whole : 0);

function doing(pipe: Pipe, thing: Thing | null, at_s: number | null, end_s: number): Doing {
  const limited = pipe.params?.rate_bps != null || pipe.counts?.utilisation != null;
  if (at_s == null) {
    const { counts } = pipe;
    if (!counts && !thing) return { rate: null, load: null, loss: null, queue: null };
    return {
      rate: counts ? (8 * counts.bytes) / Math.max(end_s, 1e-9) : overall(thing!, "rate"),
      load: counts?.utilisation ?? (thing && limited ? overall(thing, "busy") : null),
      loss: counts ? ratio(counts.drops, counts.drops + counts.packets) : null,
      queue: thing?.track.lines["queue"] ? overall(thing, "queue") : thing?.series === "pipes" ? 0 : null,
    };
  }
  if (!thing) return { rate: 0, load: 0, loss: 0, queue: null };
  const drops = ["drops_queue", "drops_loss", "drops_down"].map((name) => valueAt(thing, name, at_s) ?? 0).reduce((a, b) => a + b, 0);
  const packets = ((valueAt(thing, "packets", at_s) ?? 0) * thing.tracks.grid.width_ns) / 1e9;
  return {
    rate: valueAt(thing, "rate", at_s),
    load: limited ? valueAt(thing, "busy", at_s) : null,
    loss: ratio(drops, drops + packets),
    queue: thing.series === "pipes" ? valueAt(thing, "queue", at_s) : null,
  };
}

/** Colours from nothing to all, apart in lightness too. */
function shadeOf(share: number | null): string {
  if (share == null) return colour("link-idle");
  const steps = 5;
  const step = share <= 0 ? 0 : Math.min(steps, 1 + Math.floor(Math.min(share, 0.999) * steps));
  return colour(step === 0 ? "link-idle" : `heat-${step}`);
}

/** A figure as a share of what is the most of it. */
function share(doing: Doing, shade: Shade, queueMost: number): number | null {
  if (shade === "load") return doing.load;
  // Losses of a tenth are as bad as it gets, of a thousandth already worth a colour.
  if (shade === "loss") return doing.loss ? Math.max(0.01, Math.min(1, 1 + Math.log10(doing.loss * 10) / 3)) : doing.loss;
  return doing.queue == null ? null : doing.queue <= 0.01 ? 0 : Math.min(1, doing.queue / queueMost);
}

const SHADES: Record<Shade, { label: string; steps: string[] }> = {
  load: { label: "load", steps: ["idle", "to 20 %", "40 %", "60 %", "80 %", "100 %"] },
  loss: { label: "loss", steps: ["none", "to 0.04 %", "0.16 %", "0.63 %", "2.5 %", "more"] },
  queue: { label: "queue", steps: ["empty", "to 20 % of the longest", "40 %", "60 %", "80 %", "100 %"] },
};

/** With more links than this, lines are straight and single. */
const MANY = 600;

export class Graph {
  readonly element: HTMLElement;
  readonly links: LinkOf[];
  #things: (Thing | null)[];
  #cy: cytoscape.Core | null = null;
  #shade: Shade = "load";
  #canvas = h("div", { class: "graph", tabindex: 0, role: "application", "aria-label": "Topology. Arrow keys move, plus and minus zoom, 0 fits, n and p choose the next and the previous link. The table below has the same." });
  #legend = h("div", { class: "legend graph-legend" });
  #when = h("output", { class: "when" }, "whole run");
  #said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  #slider: HTMLInputElement | undefined;
  #chosen = -1;
  #queueMost: number;

  constructor(private run: Run, series: PipeSeries, private choose: (link: LinkOf) => void) {
    this.links = links(run);
    this.#things = run.pipes.map((pipe) => series.of(pipe.name));
    const longest = this.#things.flatMap((thing) => thing?.track.lines["queue"]?.mean ?? []);
    this.#queueMost = longest.reduce((most: number, value) => Math.max(most, value ?? 0), 1);
    this.element = h("div", { class: "topology" }, this.#controls(), this.#canvas, this.#legend, this.#said);
    this.#canvas.addEventListener("keydown", this.#key);
    theme.follow(() => this.#restyle());
    moment.follow(() => this.#recolour());
  }

  /** Draws; the element must be in the page by now. */
  start(): void {
    const began = performance.now();
    const isMany = this.links.length > MANY;
    const { run } = this;
    const elements: cytoscape.ElementDefinition[] = run.nodes.map((node, number) => ({
      data: { id: `n${number}`, label: node.name.slice(0, 60), kind: node.kind },
      position: { x: node.x, y: node.y },
    }));
    this.links.forEach((link, number) => {
      const params = run.pipes[link.pipes[0] ?? 0]?.params;
      if (!params || !run.nodes[params.from] || !run.nodes[params.to]) return;
      elements.push({ data: { id: `l${number}`, source: `n${params.from}`, target: `n${params.to}`, width: 2, colours: "#888 #888 #888 #888" } });
    });
    this.#cy = cytoscape({
      container: this.#canvas,
      elements,
      layout: { name: "preset", fit: true, padding: 30 },
      style: this.#style(),
      minZoom: 0.01,
      maxZoom: 6,
      boxSelectionEnabled: false,
      autoungrabify: true,
      // Moving draws what was drawn before, and then anew.
      textureOnViewport: run.nodes.length > 300,
      hideEdgesOnViewport: false,
      pixelRatio: isMany ? 1 : "auto",
    });
    this.#cy.on("tap", "edge", (event) => this.show(Number(event.target.id().slice(1))));
    this.#cy.on("tap", "node", (event) => {
      const edges = event.target.connectedEdges();
      if (edges.length) this.show(Number(edges[0].id().slice(1)));
    });
    this.#cy.on("mouseover", "edge", () => (this.#canvas.style.cursor = "pointer"));
    this.#cy.on("mouseout", "edge", () => (this.#canvas.style.cursor = ""));
    this.#fit();
    this.#recolour();
    this.#cy.one("render", () => document.documentElement.setAttribute("data-graph-ms", String(Math.round(performance.now() - began))));
    new ResizeObserver(() => this.#cy?.resize()).observe(this.#canvas);
  }

  /** Shows all, but small networks not in gigantic. */
  #fit(): void {
    const cy = this.#cy;
    if (!cy) return;
    cy.fit(undefined, 30);
    if (cy.zoom() > 1.4) {
      cy.zoom(1.4);
      cy.center();
    }
  }

  #style(): cytoscape.StylesheetJson {
    const isMany = this.links.length > MANY;
    const size = this.run.nodes.length > 300 ? 12 : 20;
    return [
      { selector: "node", style: {
        width: size, height: size, label: "data(label)", "background-color": colour("node-router"), color: colour("text"),
        "font-family": "system-ui, sans-serif", "font-size": 12, "min-zoomed-font-size": 9, "text-valign": "bottom", "text-margin-y": 3,
        "text-outline-color": colour("paper"), "text-outline-width": 2, "border-width": 2, "border-color": colour("paper"),
      } },
      { selector: "node[kind = 'host']", style: { shape: "round-rectangle", "background-color": colour("node-host"), width: size * 0.8, height: size * 0.8 } },
      { selector: "node[kind = 'lan']", style: { shape: "round-rectangle", "background-color": colour("node-lan"), width: size * 1.8, height: size * 0.5 } },
      { selector: "edge", style: {
        // Links between the same nodes bend apart.
        "curve-style": isMany ? "straight" : "bezier", width: "data(width)", "line-fill": "linear-gradient",
        "line-gradient-stop-colors": "data(colours)" as any, "line-gradient-stop-positions": "0% 50% 50% 100%" as any,
      } },
      { selector: "edge:selected", style: { "overlay-color": colour("accent"), "overlay-opacity": 0.35, "overlay-padding": 5 } },
      { selector: "node:active, edge:active", style: { "overlay-opacity": 0.15 } },
    ] as cytoscape.StylesheetJson;
  }

  #restyle(): void {
    this.#cy?.style(this.#style());
    this.#recolour();
  }

  /** What each pipe of a link does now. */
  now(link: LinkOf): Doing[] {
    return link.pipes.map((number) => doing(this.run.pipes[number]!, this.#things[number] ?? null, moment.value, this.run.end_s));
  }

  #recolour(): void {
    const { run } = this;
    this.#cy?.batch(() => {
      this.links.forEach((link, number) => {
        const edge = this.#cy!.getElementById(`l${number}`);
        if (edge.empty()) return;
        const halves = this.now(link);
        const [there, back] = [halves[0], halves[1] ?? halves[0]];
        const [a, b] = [there, back].map((half) => shadeOf(half ? share(half, this.#shade, this.#queueMost) : null));
        const rate = Math.max(0, ...halves.map((half) => half.rate ?? 0));
        // Twice as wide with ten times the rate, from 100 kbit/s on.
        const width = rate <= 0 ? 1.5 : Math.min(10, 1.5 + 1.6 * Math.max(0, Math.log10(rate / 1e5)));
        edge.data({ width, colours: `${a} ${a} ${b} ${b}` });
      });
    });
    const { label, steps } = SHADES[this.#shade];
    const wide = "The half of a link at a node is the pipe that leaves it. Width: throughput.";
    replace(this.#legend, h("span", { class: "item" }, `Colour: ${label}`), steps.map((step, number) =>
      h("span", { class: "item" }, h("span", { class: "swatch block", style: { "--swatch": number ? colour(`heat-${number}`) : colour("link-idle") } }), step)), h("span", { class: "item" }, wide));
    const width_s = (this.#grid()?.width_ns ?? 1e9) / 1e9;
    const when = moment.value == null ? "whole run" : `${at(moment.value, width_s)}, for ${seconds(width_s)}`;
    replace(this.#when, when);
    this.#slider?.setAttribute("aria-valuetext", when);
    if (run.nodes.length === 0) this.#canvas.hidden = true;
  }

  #grid() {
    return (this.run.series.pipes ?? this.run.series.pipe_seconds)?.grid;
  }

  #controls(): HTMLElement {
    const shade = h("select", { "aria-label": "colour links by", on: { change: (event) => { this.#shade = event.target.value; this.#recolour(); } } },
      (Object.keys(SHADES) as Shade[]).map((name) => h("option", { value: name }, SHADES[name].label)));
    const grid = this.#grid();
    const slider = grid && h("input", {
      type: "range", min: -1, max: grid.columns - 1, value: -1, step: 1, class: "slider", "aria-label": "moment of the run; leftmost: the whole run",
      on: { input: (event) => this.#slide(Number(event.target.value)) },
    });
    this.#slider = slider;
    const play = slider && h("button", { type: "button", class: "play", title: "play", "aria-label": "play the run", on: { click: () => this.#play(slider, play as HTMLButtonElement) } }, "▶");
    return h("div", { class: "controls" }, h("label", null, "Colour ", shade), play, slider, this.#when,
      h("button", { type: "button", on: { click: () => this.#fit() } }, "Fit"));
  }

  #slide(column: number): void {
    const grid = this.#grid();
    moment.set(column < 0 || !grid ? null : (column * grid.width_ns) / 1e9);
  }

  #playing: number | undefined;
  #play(slider: HTMLInputElement, button: HTMLButtonElement): void {
    const stop = () => {
      window.clearInterval(this.#playing);
      this.#playing = undefined;
      button.textContent = "▶";
    };
    if (this.#playing !== undefined) return stop();
    button.textContent = "❚❚";
    const last = Number(slider.max);
    // The whole run in 15 s.
    const step = Math.max(1, Math.round(last / 150));
    this.#playing = window.setInterval(() => {
      const next = Number(slider.value) + step;
      if (next > last) {
        slider.value = "-1";
        this.#slide(-1);
        return stop();
      }
      slider.value = String(next);
      this.#slide(next);
    }, 100);
  }

  /** Chooses a link, as a click does. */
  show(number: number): void {
    const link = this.links[number];
    if (!link) return;
    this.#chosen = number;
    this.#cy?.elements(":selected").unselect();
    this.#cy?.getElementById(`l${number}`).select();
    const loads = this.now(link).map((half, place) => `${this.run.pipes[link.pipes[place]!]?.name}: ${si(half.rate, "bit/s")}, load ${percent(half.load)}`);
    replace(this.#said, `Link ${link.name}. ${loads.join("; ")}`);
    this.choose(link);
  }

  /** Chooses the link of a pipe, where it is drawn. */
  showPipe(name: string): void {
    this.show(this.links.findIndex((link) => link.pipes.some((pipe) => this.run.pipes[pipe]?.name === name)));
  }

  /** Where a link is on the screen; for tests. */
  placeOf(number: number): { x: number; y: number } | null {
    const edge = this.#cy?.getElementById(`l${number}`);
    if (!edge || edge.empty()) return null;
    const [a, b] = [edge.source(), edge.target()].map((node) => (node as cytoscape.NodeSingular).renderedPosition());
    const box = this.#canvas.getBoundingClientRect();
    return { x: box.left + (a!.x * 0.6 + b!.x * 0.4), y: box.top + (a!.y * 0.6 + b!.y * 0.4) };
  }

  get cy(): cytoscape.Core | null {
    return this.#cy;
  }

  #key = (event: KeyboardEvent) => {
    const cy = this.#cy;
    if (!cy || event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = { x: cy.width() / 2, y: cy.height() / 2 };
    const by = (factor: number) => cy.zoom({ level: cy.zoom() * factor, renderedPosition: middle });
    const next = (step: number) => this.show((this.#chosen + step + this.links.length) % this.links.length);
    const moves: Record<string, () => void> = {
      ArrowLeft: () => cy.panBy({ x: 60, y: 0 }),
      ArrowRight: () => cy.panBy({ x: -60, y: 0 }),
      ArrowUp: () => cy.panBy({ x: 0, y: 60 }),
      ArrowDown: () => cy.panBy({ x: 0, y: -60 }),
      "+": () => by(1.25),
      "=": () => by(1.25),
      "-": () => by(0.8),
      "0": () => this.#fit(),
      n: () => next(1),
      p: () => next(-1),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  };

  /** The same as a table, at the moment that the topology shows. */
  table(): HTMLElement {
    const details = h("details", { class: "as-table" }, h("summary", null, "As a table"));
    const when = h("p", { class: "note" });
    const { nodes } = this.run;
    const rows = this.links.flatMap((link, number) => link.pipes.map((pipe, place) => ({ number, link, place, pipe: this.run.pipes[pipe]!, now: null as Doing | null })));
    let table: Table<(typeof rows)[number]> | null = null;
    const fill = () => {
      if (!details.open) return;
      const links = this.links.map((link) => this.now(link));
      for (const row of rows) row.now = links[row.number]![row.place]!;
      replace(when, moment.value == null ? "Over the whole run." : `At ${at(moment.value)}.`);
      if (table) return table.fill();
      table = new Table({
        label: "pipes of the topology",
        rows,
        search: (row) => `${row.pipe.name} ${row.link.name}`,
        choose: (row) => this.show(row.number),
        columns: [
          { name: "pipe", text: (row) => row.pipe.name, value: (row) => row.pipe.name },
          { name: "from", text: (row) => nodes[row.pipe.params?.from ?? -1]?.name ?? "" },
          { name: "to", text: (row) => nodes[row.pipe.params?.to ?? -1]?.name ?? "" },
          { name: "throughput", figure: true, text: ({ now }) => si(now?.rate, "bit/s"), value: ({ now }) => now?.rate },
          { name: "load", figure: true, text: ({ now }) => percent(now?.load), value: ({ now }) => now?.load },
          { name: "loss", figure: true, text: ({ now }) => percent(now?.loss, 2), value: ({ now }) => now?.loss },
          { name: "queue, mean", figure: true, text: ({ now }) => (now?.queue == null ? NONE : count(Number(now.queue.toFixed(2)))), value: ({ now }) => now?.queue },
        ],
      });
      details.append(when, table.element);
    };
    details.addEventListener("toggle", fill);
    moment.follow(fill);
    return details;
  }
}

/** What a pipe was meant to do. */
export function params(pipe: Pipe): HTMLElement {
  const { params } = pipe;
  return facts([
    ["rate", params ? (params.rate_bps == null ? "unlimited" : si(params.rate_bps, "bit/s")) : null],
    ["delay", params ? ns(params.delay_ns) : null],
    ["loss", params?.loss],
    ["queue", params?.queue],
    ["carried", pipe.counts ? si(pipe.counts.bytes, "B") : null],
    ["load", pipe.counts?.utilisation == null ? null : percent(pipe.counts.utilisation)],
    ["dropped", pipe.counts ? count(pipe.counts.drops) : null],
  ]);
}
