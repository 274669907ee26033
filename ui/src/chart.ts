// A line chart over experiment time: uPlot draws; zoom, events, keyboard, width and table are ours.
//
// All charts share the stretch of time in view. A chart states how wide its points are, and has the same
// figures as a table. Lines of several points of full resolution have a band from least to most.

import uPlot from "uplot";
import { h, lazily, replace } from "./dom";
import { at, NONE, seconds } from "./format";
import { aggregateOf, more, points, type Points, type Thing } from "./series";
import { colour, line, moment, range, theme } from "./state";

export interface Line {
  label: string;
  thing: Thing;
  metric: string;
  dashed?: boolean;
  /** The number of its colour; its place without. */
  colour?: number;
}

export interface ChartOptions {
  title: string;
  /** The end of the time axis. */
  end_s: number;
  lines: Line[];
  show: (value: number) => string;
  /** Logarithmic, from this value. */
  log_from?: number;
  /** A value worth a line of its own. */
  mark?: { value: number; label: string };
  events: { at_s: number; event: string }[];
  height?: number;
  /** The least top of the axis. */
  least_top?: number;
  note?: string;
  /** Stretches of time that are shaded. */
  shades?: { from_s: number; to_s: number; level: "bad" | "doubtful" }[];
}

/** Rows of a chart's table. */
const ROWS = 500;
const HEIGHT = 170;

/** A chart; nothing where there is nothing to draw. */
export function chart(options: ChartOptions): HTMLElement | null {
  if (!options.lines.length) return null;
  const plot = h("div", { class: "plot", tabindex: 0, role: "application", "aria-label": `${options.title}: chart. Arrow keys move, plus and minus zoom, 0 shows all; the table has the figures.` });
  const legend = h("div", { class: "legend" });
  const width = h("p", { class: "width" });
  const details = h("details", { class: "as-table" }, h("summary", null, "As a table"));
  const element = h("figure", { class: "chart" }, h("figcaption", null, options.title), legend, plot, width, details);
  lazily(element, () => new Chart(options, plot, legend, width, details));
  return element;
}

class Chart {
  #plot: uPlot | null = null;
  #points: Points[] = [];

  constructor(
    private options: ChartOptions,
    private element: HTMLElement,
    private legend: HTMLElement,
    private width: HTMLElement,
    private details: HTMLDetailsElement,
  ) {
    this.#draw();
    range.follow(this.#refreshed);
    theme.follow(this.#redrawn);
    moment.follow(this.#moved);
    this.#resized.observe(element);
    element.addEventListener("keydown", timeKeys([0, options.end_s], () => this.#view(), (value) => range.set(value)));
    details.addEventListener("toggle", () => this.#table());
  }

  #refreshed = () => this.#unlessGone(() => this.#refresh());
  #redrawn = () => this.#unlessGone(() => this.#draw());
  #moved = () => this.#unlessGone(() => this.#plot?.redraw(false));
  #resized = new ResizeObserver(() => this.#plot?.setSize({ width: this.#available(), height: this.options.height ?? HEIGHT }));

  /** Acts while the chart is in the page; afterwards follows nothing any more. */
  #unlessGone(act: () => void): void {
    if (this.element.isConnected) return act();
    range.unfollow(this.#refreshed);
    theme.unfollow(this.#redrawn);
    moment.unfollow(this.#moved);
    this.#resized.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #available(): number {
    return Math.max(220, this.element.clientWidth);
  }

  #view(): [number, number] {
    return range.value ?? [0, this.options.end_s];
  }

  #read(): uPlot.AlignedData {
    const [from, to] = this.#view();
    this.#points = this.options.lines.map((line) => points(line.thing, line.metric, from, to));
    // Lines of one series have the same points, those of several are joined.
    // A logarithmic axis has no place for zero.
    const positive = (values: (number | null)[]) => (this.options.log_from ? values.map((value) => (value != null && value > 0 ? value : null)) : values);
    const tables = this.#points.map((p) => [p.x, positive(p.mean), positive(p.min), positive(p.max)] as uPlot.AlignedData);
    return tables.length === 1 ? tables[0]! : (uPlot.join(tables, tables.map((t) => t.map(() => 1))) as uPlot.AlignedData);
  }

  #refresh(): void {
    const plot = this.#plot;
    if (!plot) return;
    const data = this.#read();
    plot.batch(() => {
      plot.setData(data, false);
      const [min, max] = this.#view();
      plot.setScale("x", { min, max });
    });
    this.#updateLegend(null);
    this.#state();
    this.#table();
    this.#ask();
  }

  #asking: number | undefined;
  #ask(): void {
    window.clearTimeout(this.#asking);
    this.#asking = window.setTimeout(async () => {
      const [from, to] = this.#view();
      const news = await Promise.all(this.options.lines.map((line) => more(line.thing, from, to)));
      if (news.some(Boolean)) range.set(range.value);
    }, 150);
  }

  #draw(): void {
    this.#plot?.destroy();
    const data = this.#read();
    const { options } = this;
    const grid = { stroke: colour("grid"), width: 1 };
    const font = "11px system-ui, sans-serif";
    const axis = { stroke: colour("quiet"), grid, ticks: grid, font };
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    options.lines.forEach((each, number) => {
      const stroke = line(each.colour ?? number);
      const stepped = uPlot.paths.stepped!({ align: 1 });
      const sampled = each.thing.series === "connections";
      const paths = sampled ? uPlot.paths.linear!() : stepped;
      const place = 1 + 3 * number;
      series.push({ label: "", stroke, width: 1.5, paths, spanGaps: sampled, points: { show: false }, dash: each.dashed ? [5, 4] : undefined });
      series.push({ label: "", stroke: "transparent", width: 0, paths, spanGaps: sampled, points: { show: false } });
      series.push({ label: "", stroke: "transparent", width: 0, paths, spanGaps: sampled, points: { show: false } });
      bands.push({ series: [place + 2, place + 1], fill: `color-mix(in srgb, ${stroke} 24%, transparent)` });
    });
    const [min, max] = this.#view();
    this.#plot = new uPlot(
      {
        width: this.#available(),
        height: options.height ?? HEIGHT,
        legend: { show: false },
        cursor: {
          // Pointers go together; what one chart selects, it tells all itself.
          sync: { key: "longhaul", filters: { pub: isMove, sub: isMove } },
          drag: { x: true, y: false, setScale: false },
          bind: {
            dblclick: () => () => {
              range.set(null);
              return null;
            },
          },
        },
        scales: {
          x: { time: false, min, max },
          y: options.log_from
            ? { distr: 3, range: (_, low, high) => logRange(options.log_from!, low, high) }
            : { range: (_, __, high) => [0, Math.max((high ?? 0) * 1.06, options.least_top ?? 0, options.mark?.value ?? 0) || 1] },
        },
        axes: [
          { ...axis, size: 28, values: (_, ticks) => ticks.map((tick) => at(tick, stepOf(ticks))) },
          { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : options.show(tick))) },
        ],
        series,
        bands,
        hooks: {
          setSelect: [(plot) => this.#select(plot)],
          setCursor: [(plot) => this.#updateLegend(plot.cursor.idx ?? null)],
          drawClear: [(plot) => this.#shade(plot)],
          draw: [(plot) => this.#marks(plot)],
        },
      },
      data,
      this.element,
    );
    this.#updateLegend(null);
    this.#state();
    this.#ask();
  }

  #select(plot: uPlot): void {
    if (plot.select.width < 4) return;
    const from = plot.posToVal(plot.select.left, "x");
    const to = plot.posToVal(plot.select.left + plot.select.width, "x");
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    zoom(from, to, this.options.end_s);
  }

  /** The lines by name and colour, and their values where the pointer is. */
  #updateLegend(index: number | null): void {
    const data = this.#plot?.data;
    const items = this.options.lines.map((each, number) => {
      const value = index == null ? undefined : data?.[1 + 3 * number]?.[index];
      const most = index == null ? undefined : data?.[3 + 3 * number]?.[index];
      const shown = value == null ? (index == null ? "" : NONE) : this.options.show(value);
      const upTo = value != null && most != null && most > value * 1.005 ? ` (max ${this.options.show(most)})` : "";
      const swatch = h("span", { class: each.dashed ? "swatch dashed" : "swatch", style: { "--swatch": line(each.colour ?? number) } });
      return h("span", { class: "item" }, swatch, h("bdi", null, each.label), shown && h("b", null, ` ${shown}${upTo}`));
    });
    const time = index == null ? null : data?.[0]?.[index];
    replace(this.legend, items, time == null ? null : h("span", { class: "item time" }, `at ${at(time)}`));
  }

  /** How wide points are, and of what. */
  #state(): void {
    const widths = this.#points.map((p) => p.widths).filter(([least]) => least > 0);
    const [least, most] = [Math.min(...widths.map((w) => w[0])), Math.max(...widths.map((w) => w[1]))];
    const coarse = this.#points.some((p) => p.coarse);
    const row = Math.min(...this.options.lines.map((l) => l.thing.tracks.row_ns[0]));
    const sampled = this.options.lines.some((l) => l.thing.series === "connections");
    const aggregates = [...new Set(this.options.lines.map((line) => aggregateOf(line.metric)))];
    const band = this.options.lines.some(hasBand) ? ", the band spans minimum to maximum" : "";
    const what = coarse ? `the line is the ${aggregates.join(" or the ")} of its rows of ${seconds(row / 1e9)}${band}` : "every row is shown";
    const text = !widths.length ? ""
      : sampled ? `Sampled about every ${seconds(gap(this.#points))}.`
      : `Each step is ${least < most * 0.9 ? `${seconds(least)} to ` : ""}${seconds(most)}: ${what}.`;
    replace(this.width, [text, this.options.note].filter(Boolean).join(" "));
  }

  #shade(plot: uPlot): void {
    const { ctx, bbox } = plot;
    for (const shade of this.options.shades ?? []) {
      const left = Math.max(bbox.left, plot.valToPos(shade.from_s, "x", true));
      const right = Math.min(bbox.left + bbox.width, Math.max(plot.valToPos(shade.to_s, "x", true), left + 2));
      if (right <= left) continue;
      ctx.save();
      ctx.fillStyle = colour(shade.level === "bad" ? "shade-bad" : "shade-doubtful");
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.restore();
    }
  }

  /** Events, the marked value, and the moment of the topology. */
  #marks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    verticals(plot, this.options.events.map((event) => event.at_s), "event");
    if (moment.value != null) verticals(plot, [moment.value], "accent");
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    if (this.options.mark) {
      const top = plot.valToPos(this.options.mark.value, "y", true);
      ctx.strokeStyle = colour("doubtful");
      ctx.setLineDash([6, 4]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, top);
      ctx.lineTo(bbox.left + bbox.width, top);
      ctx.stroke();
      ctx.fillStyle = colour("doubtful");
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "right";
      ctx.fillText(this.options.mark.label, bbox.left + bbox.width - 4, top - 4 * devicePixelRatio);
    }
    ctx.restore();
  }

  /** The figures in view. */
  #table(): void {
    if (!this.details.open) return;
    const data = this.#plot?.data;
    if (!data) return;
    const [from, to] = this.#view();
    const places = Array.from(data[0], (_, index) => index).filter((index) => data[0][index]! >= from && data[0][index]! < to);
    const isSpread = (number: number) => this.#points[number]?.coarse && hasBand(this.options.lines[number]!);
    const heads = this.options.lines.flatMap((each, number) =>
      isSpread(number) ? [`${each.label}, min`, `${each.label}, mean`, `${each.label}, max`] : [each.label],
    );
    const cell = (column: number, index: number) => {
      const value = data[column]?.[index];
      return h("td", { class: "n" }, value == null ? NONE : this.options.show(value));
    };
    const row = (index: number) =>
      h("tr", null, h("td", { class: "n" }, at(data[0][index]!, 1e-6).replace(/0+ s$/, " s").replace(/\. s$/, " s")),
        this.options.lines.flatMap((_, number) => {
          const first = 1 + 3 * number;
          return (isSpread(number) ? [first + 1, first, first + 2] : [first]).map((column) => cell(column, index));
        }));
    const left = places.length - ROWS;
    const note = left > 0 ? h("p", { class: "note" }, `The first ${ROWS} of ${places.length} rows in view; zoom in for others.`) : null;
    const table = h("div", { class: "scroll" }, h("table", null,
      h("thead", null, h("tr", null, ["from", ...heads].map((name) => h("th", { class: "n", scope: "col" }, name)))),
      h("tbody", null, places.slice(0, ROWS).map(row))));
    replace(this.details, h("summary", null, "As a table"), note, table);
  }
}

/** Whether rows of a step differ, and are known. */
const hasBand = ({ thing, metric }: Line) => thing.track.lines[metric]?.min != null;

const isMove = (type: string) => type === "mousemove" || type === "mouseleave";

function stepOf(ticks: (number | null)[]): number {
  const [first, second] = ticks;
  return first == null || second == null ? 0.001 : Math.max(1e-9, second - first);
}

function logRange(from: number, low: number | null, high: number | null): [number, number] {
  const top = 10 ** Math.ceil(Math.log10(Math.max(high ?? from, from * 10)));
  const bottom = 10 ** Math.floor(Math.log10(Math.max(low ?? from, from)));
  return [Math.min(bottom, top / 10), top];
}

/** The usual gap between samples. */
function gap(all: Points[]): number {
  const gaps = all.flatMap(({ x }) => x.slice(1).map((at, n) => at - x[n]!)).filter((gap) => gap > 0).sort((a, b) => a - b);
  return gaps[gaps.length >> 1] ?? 0;
}

type Stretch = [number, number];

/** Vertical lines over the whole plot; those of events are dashed. */
export function verticals(plot: uPlot, times: number[], tone: "event" | "accent"): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.strokeStyle = colour(tone);
  ctx.setLineDash(tone === "event" ? [3, 3] : []);
  for (const time of times) {
    const left = Math.round(plot.valToPos(time, "x", true)) + 0.5;
    if (left < bbox.left || left > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** What of `all` a zoom shows: null for all of it, never less than a microsecond. */
function zoomed([from, to]: Stretch, all: Stretch, view: Stretch | null): Stretch | null {
  if (to - from < 1e-6) return view;
  return from <= all[0] && to >= all[1] ? null : [Math.max(all[0], from), Math.min(all[1], to)];
}

/** Shows a stretch of the run in all charts. */
export function zoom(from: number, to: number, end: number): void {
  range.set(zoomed([from, to], [0, end], range.value));
}

/** The keys of a chart over `all`: `view` is the stretch that it shows, `show` shows another, or all. */
export function timeKeys(all: Stretch, view: () => Stretch, show: (stretch: Stretch | null) => void): (event: KeyboardEvent) => void {
  return (event) => {
    const [from, to] = view();
    const step = (to - from) / 5;
    const shifted = (by: number): Stretch => [from + by, to + by];
    const moves: Record<string, () => Stretch | null> = {
      ArrowLeft: () => shifted(Math.max(-step, all[0] - from)),
      ArrowRight: () => shifted(Math.min(step, all[1] - to)),
      "+": () => zoomed([from + step, to - step], all, [from, to]),
      "=": () => zoomed([from + step, to - step], all, [from, to]),
      "-": () => zoomed([from - 2 * step, to + 2 * step], all, [from, to]),
      "0": () => null,
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = move();
    show(next && next[0] <= all[0] && next[1] >= all[1] ? null : next);
  };
}

/** Charts side by side where there is room. */
export const charts = (...list: (HTMLElement | null | undefined | false)[]) => h("div", { class: "charts" }, list);
