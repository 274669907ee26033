// Pipes: the table of all, and charts of those that are chosen.

import { chart, charts, type Line } from "./chart";
import type { Context } from "./context";
import { note, section } from "./context";
import type { Pipe } from "./data";
import { h, replace } from "./dom";
import { count, NONE, ns, percent, si } from "./format";
import { most, worstPipe, type Thing } from "./series";
import { Table } from "./table";

/** Charts of some pipes: those of one link, or one of each of several. */
export function pipeCharts(context: Context, pipes: Pipe[]): HTMLElement {
  const known = pipes.map((pipe) => ({ pipe, thing: context.series.of(pipe.name) })).filter((each): each is { pipe: Pipe; thing: Thing } => each.thing != null);
  if (!known.length) return note("The series show no traffic here.");
  const lines = (metric: string, dashed?: string): Line[] =>
    known.flatMap(({ pipe, thing }, colour) => {
      const has = thing.track.lines[metric] || (thing.series === "pipes" && metric !== "marked");
      const own = has ? [{ label: pipe.name, thing, metric, colour }] : [];
      const second = dashed && thing.track.lines[dashed] ? [{ label: `${pipe.name}, max`, thing, metric: dashed, dashed: true, colour }] : [];
      return [...own, ...second];
    });
  const base = { end_s: context.end_s, events: context.events };
  const limits = pipes.flatMap((pipe) => pipe.params?.rate_bps ?? []);
  const limit = limits.length ? Math.max(...limits) : null;
  const throughput = lines("rate");
  const busy = lines("busy").filter(({ thing }) => thing.track.lines["busy"]);
  const queue = lines("queue", "queue_max").filter(({ thing }) => thing.track.lines["queue"] || thing.track.lines["queue_max"]);
  const delay = lines("delay", "delay_max").filter(({ thing }) => thing.track.lines["delay"]);
  const drops = known.flatMap(({ pipe, thing }) =>
    ([["drops_queue", "queue"], ["drops_loss", "loss"], ["drops_down", "link down"], ["marked", "marked"]] as const)
      .filter(([metric]) => thing.track.lines[metric])
      .map(([metric, cause]) => ({ label: known.length > 1 ? `${pipe.name}: ${cause}` : cause, thing, metric })));
  return charts(
    throughput.length > 0 && chart({ ...base, title: "Throughput", lines: throughput, show: (v) => si(v, "bit/s"), mark: limit && pipes.length <= 2 ? { value: limit, label: `rate ${si(limit, "bit/s")}` } : undefined }),
    queue.length > 0 && chart({ ...base, title: "Queue, packets", lines: queue, show: (v) => count(Number(v.toFixed(2))), least_top: 4 }),
    delay.length > 0 && chart({ ...base, title: "Queueing delay", lines: delay, show: ns }),
    drops.length > 0 && chart({ ...base, title: "Drops and marks, packets", lines: drops, show: (v) => count(Number(v.toFixed(2))), least_top: 4, note: "Packets in each step." }),
    queue.length === 0 && busy.length > 0 && chart({ ...base, title: "Load", lines: busy, show: (v) => percent(v, 0), least_top: 1 }),
  );
}

/** The most pipes that charts show at a time. */
const TOGETHER = 6;

export class Pipes {
  readonly element: HTMLElement;
  #chosen = new Set<string>();
  #charts = h("div", null);
  #table: Table<Pipe>;

  constructor(private context: Context) {
    const { run } = context;
    const peak = new Map(run.pipes.map((pipe) => {
      const thing = context.series.of(pipe.name);
      return [pipe.name, thing ? { rate: most(thing, "rate")?.[0] ?? null, wait: most(thing, "delay_max")?.[0] ?? null, queue: most(thing, "queue_max")?.[0] ?? null } : null];
    }));
    const of = (pipe: Pipe) => peak.get(pipe.name) ?? null;
    this.#table = new Table<Pipe>({
      label: "pipes",
      rows: run.pipes,
      sort: ["carried", true],
      search: (pipe) => pipe.name,
      choose: (pipe) => this.toggle(pipe.name),
      chosen: (pipe) => this.#chosen.has(pipe.name),
      columns: [
        { name: "pipe", text: (pipe) => pipe.name, value: (pipe) => pipe.name },
        { name: "rate", figure: true, text: (p) => (p.params?.rate_bps == null ? NONE : si(p.params.rate_bps, "bit/s")), value: (p) => p.params?.rate_bps },
        { name: "delay", figure: true, text: (p) => (p.params ? ns(p.params.delay_ns) : NONE), value: (p) => p.params?.delay_ns },
        { name: "carried", figure: true, text: (p) => si(p.counts?.bytes, "B"), value: (p) => p.counts?.bytes },
        { name: "packets", figure: true, text: (p) => count(p.counts?.packets), value: (p) => p.counts?.packets },
        { name: "load", figure: true, text: (p) => percent(p.counts?.utilisation), value: (p) => p.counts?.utilisation },
        { name: "peak", figure: true, title: "the largest throughput of a row", text: (p) => si(of(p)?.rate, "bit/s"), value: (p) => of(p)?.rate },
        { name: "longest queue", figure: true, text: (p) => count(of(p)?.queue), value: (p) => of(p)?.queue },
        { name: "longest wait", figure: true, text: (p) => ns(of(p)?.wait), value: (p) => of(p)?.wait },
        { name: "dropped", figure: true, text: (p) => count(p.counts?.drops), value: (p) => p.counts?.drops },
        { name: "queue full", figure: true, text: (p) => count(p.counts?.drops_queue), value: (p) => p.counts?.drops_queue },
        { name: "lost", figure: true, text: (p) => count(p.counts?.drops_loss), value: (p) => p.counts?.drops_loss },
        { name: "link down", figure: true, text: (p) => count(p.counts?.drops_down), value: (p) => p.counts?.drops_down },
      ],
    });
    const left = run.pipes_seen - run.pipes.length;
    this.element = section("pipes", "Pipes",
      note("A pipe is one direction of a link. Choose some to see their charts together. Bytes are counted as the pipe's framing says."),
      left > 0 ? note(`${count(left)} pipes are not shown; summary.json has them.`) : null,
      this.#charts, this.#table.element);
    const worst = worstPipe(run.pipes);
    if (worst) this.toggle(worst.name);
  }

  toggle(name: string): void {
    if (this.#chosen.has(name)) this.#chosen.delete(name);
    else this.#chosen.add(name);
    while (this.#chosen.size > TOGETHER) this.#chosen.delete([...this.#chosen][0]!);
    const chosen = this.context.run.pipes.filter((pipe) => this.#chosen.has(pipe.name));
    replace(this.#charts, chosen.length ? [h("h3", null, h("bdi", null, chosen.map((pipe) => pipe.name).join(", "))), pipeCharts(this.context, chosen)] : null);
    this.#table.fill();
  }
}
