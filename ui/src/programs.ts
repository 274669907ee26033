// Programs over time, with the last lines of their logs.

import type { Context } from "./context";
import { note, section } from "./context";
import type { LogEnd, Program } from "./data";
import { fileLink, h, replace, svg } from "./dom";
import { at, count, NONE, seconds, si } from "./format";
import { range } from "./state";
import { Table } from "./table";

/** Bars that are drawn. */
const BARS = 60;
const ROW = 22;
const NAME = 150;

function state(program: Program): [string, "good" | "doubtful" | "bad"] {
  const { ended } = program;
  if (!ended) return ["unknown", "doubtful"];
  if (ended.failure) return [ended.failure, "bad"];
  if (program.service) return ["stopped at the end", "good"];
  return [ended.exit == null ? "not ended" : `exit ${ended.exit}`, "good"];
}

function gantt(context: Context, list: Program[], open: (program: Program) => void): HTMLElement {
  const element = h("div", { class: "gantt" });
  const draw = () => {
    const [from, to] = range.value ?? [0, context.end_s];
    const share = (s: number) => Math.max(0, Math.min(1, (s - from) / Math.max(1e-9, to - from)));
    const rows = list.map((program, row) => {
      const start = program.ended?.start_s;
      const end = program.ended?.finish_s ?? context.end_s;
      const [text, level] = state(program);
      const top = row * ROW;
      const label = `${program.name} on ${program.host}: ${start == null ? "never started" : `${at(start)} to ${at(end)}`}, ${text}`;
      const bar = start == null ? null : svg("rect", {
        x: `${100 * share(start)}%`, width: `${Math.max(0.2, 100 * (share(end) - share(start)))}%`, y: top + 4, height: ROW - 8, rx: 3,
        class: `bar ${level}${program.service ? " service" : ""}`,
      }, svg("title", {}, label));
      const button = h("button", { type: "button", class: "choose", title: label, on: { click: () => open(program) } }, h("bdi", null, program.name));
      return { bar, button };
    });
    const height = list.length * ROW;
    const marks = context.events.filter((e) => e.at_s >= from && e.at_s <= to).map((e) =>
      svg("line", { x1: `${100 * share(e.at_s)}%`, x2: `${100 * share(e.at_s)}%`, y1: 0, y2: height, class: "event" }, svg("title", {}, `${at(e.at_s)}: ${e.event}`)));
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", { style: { left: `${100 * part}%` } }, at(from + part * (to - from), (to - from) / 40)));
    const drawing = svg("svg", { width: "100%", height, class: "bars", role: "img", "aria-label": "programs over time; the table has the same" }, rows.map((r) => r.bar), marks);
    replace(element, h("div", { class: "names", style: { width: `${NAME}px` } }, rows.map((r) => r.button)), h("div", { class: "lanes" }, drawing, h("div", { class: "ticks" }, ticks)));
  };
  draw();
  range.follow(draw);
  return element;
}

function log(title: string, end: LogEnd): HTMLElement | null {
  if (!end.file) return null;
  const head = h("p", { class: "note" }, `${title}: `, fileLink(end.file), ` (${si(end.bytes, "B")})${end.cut ? ", its last lines" : ""}`);
  const text = end.lines.length ? h("pre", { class: "log", tabindex: 0 }, end.lines.join("\n")) : null;
  return h("div", null, head, text);
}

export function programs(context: Context): HTMLElement | null {
  const list = context.run.programs;
  if (!list.length) return null;
  const view = h("div", { class: "logs", "aria-live": "polite" });
  let chosen = list.find((program) => program.ended?.failure) ?? list.find((program) => !program.service && program.out.lines.length) ?? list[0]!;
  const open = (program: Program) => {
    chosen = program;
    const [text] = state(program);
    replace(view, h("h3", null, h("bdi", null, program.name), " on ", h("bdi", null, program.host)), h("p", null, text),
      log("Output", program.out), log("Errors", program.err), !program.out.file && !program.err.file ? note("There are no logs.") : null);
    table?.fill();
  };
  let table: Table<Program> | null = null;
  table = new Table<Program>({
    label: "programs", rows: list, search: (p) => `${p.name} ${p.host}`, choose: open, chosen: (p) => p === chosen,
    class: (p) => (p.ended?.failure ? "failed" : ""),
    columns: [
      { name: "program", text: (p) => p.name, value: (p) => p.name },
      { name: "host", text: (p) => p.host, value: (p) => p.host },
      { name: "start", figure: true, text: (p) => (p.ended?.start_s == null ? NONE : at(p.ended.start_s)), value: (p) => p.ended?.start_s },
      { name: "end", figure: true, text: (p) => (p.ended?.finish_s == null ? NONE : at(p.ended.finish_s)), value: (p) => p.ended?.finish_s },
      { name: "exit", figure: true, text: (p) => (p.ended?.exit == null ? NONE : String(p.ended.exit)), value: (p) => p.ended?.exit },
      { name: "CPU", figure: true, text: (p) => seconds(p.ended?.cpu_s), value: (p) => p.ended?.cpu_s },
      { name: "result", text: (p) => state(p)[0] },
    ],
  });
  const drawn = [...list].sort((a, b) => Number(!a.ended?.failure) - Number(!b.ended?.failure)).slice(0, BARS);
  const inOrder = list.filter((program) => drawn.includes(program));
  open(chosen);
  return section("programs", "Programs",
    list.length > BARS ? note(`${BARS} of ${count(list.length)} are drawn, those that failed first; the table has all.`) : null,
    gantt(context, inOrder, open), view, h("details", { class: "as-table" }, h("summary", null, "As a table"), table.element));
}
