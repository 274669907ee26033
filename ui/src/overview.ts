// The first screen: did it work, which figures hold, what was slow, where did packets go.

import type { Context } from "./context";
import { pipeButton } from "./context";
import type { Run } from "./data";
import { h } from "./dom";
import { at, count, ns, of, percent, seconds, sentence } from "./format";
import { most, worstPipe } from "./series";
import { colour, theme } from "./state";

type Item = HTMLElement | string;

type Level = "good" | "doubtful" | "bad";
const SIGNS: Record<Level, string> = { good: "✓", doubtful: "!", bad: "✗" };

/** How good a verdict is; none is bad. */
function levelOf(state: string | undefined): Level {
  return state === "faithful" ? "good" : state === "degraded" ? "doubtful" : "bad";
}

/** The run in one word, and how good that is. */
function word(run: Run): { text: string; level: Level } {
  if (run.ending === "under_way") return { text: "under way", level: "doubtful" };
  if (run.ending === "cut_off") return { text: "cut off", level: "bad" };
  const state = run.summary?.verdict?.state;
  if (failures(run).length) return { text: `failed${state ? `, ${state}` : ""}`, level: "bad" };
  return { text: state ?? "without a verdict", level: levelOf(state) };
}

export function badge(run: Run): HTMLElement {
  const { text, level } = word(run);
  return h("span", { class: `badge ${level}` }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[level]), text);
}

/** What went wrong with the run or its programs. */
export function failures(run: Run): string[] {
  const lines = run.summary?.error ? [`The run: ${run.summary.error}`] : [];
  for (const program of run.programs) {
    if (program.ended?.failure) lines.push(`${program.name} on ${program.host}: ${program.ended.failure}`);
  }
  return lines;
}

function card(title: string, level: string, lead: Item, items: (Item | null)[], more?: [string, () => void]): HTMLElement {
  const list = items.filter((item): item is Item => item != null).map((item) => h("li", null, item));
  return h("div", { class: `card ${level}` }, h("h3", null, title), h("p", { class: "lead" }, lead), list.length ? h("ul", null, list) : null,
    more ? h("button", { type: "button", class: "choose more", on: { click: more[1] } }, more[0]) : null);
}

function didItWork(context: Context): HTMLElement {
  const { run } = context;
  const wrong = failures(run);
  const { summary } = run;
  const programs = run.programs.filter((program) => !program.service).length;
  const groups = summary?.flow_groups ?? [];
  const flows = groups.reduce((sum, group) => sum + group.flows, 0);
  const finished = groups.reduce((sum, group) => sum + group.finished, 0);
  const done = [
    programs ? `${of(programs, "program")} ended` : null,
    run.programs.length > programs ? `${of(run.programs.length - programs, "service")} stopped at the end` : null,
    flows ? `${count(finished)} of ${of(flows, "modelled flow")} finished` : null,
    summary?.simulated_s != null ? `${seconds(summary.simulated_s)} of experiment time in ${seconds(summary.wall_s)} of real time` : null,
  ];
  const go: [string, () => void] | undefined = run.programs.length ? ["programs and their logs", () => context.go("programs")] : undefined;
  if (run.ending !== "whole") {
    const lead = run.ending === "under_way" ? "It is still under way." : "It was killed before it could write its summary.";
    return card("Did it work?", word(run).level, lead, run.notes.slice(0, 2), go);
  }
  if (wrong.length) {
    const others = wrong.length > 4 ? `and ${wrong.length - 4} more` : null;
    return card("Did it work?", "bad", "No.", [...wrong.slice(0, 4), others], go);
  }
  return card("Did it work?", "good", "Yes: it ran to its end, and no program failed.", done, go);
}

function whatHolds(context: Context): HTMLElement {
  const verdict = context.run.summary?.verdict;
  const go: [string, () => void] = ["lateness and episodes", () => context.go("fidelity")];
  if (!verdict) return card("Which of my figures hold?", "bad", "This run has no verdict.", ["Its series end where it ended."], go);
  const level = levelOf(verdict.state);
  const sign = SIGNS[level];
  if (!verdict.lateness_ns) {
    return card("Which of my figures hold?", level, `${sign} All: in virtual time, no packet is late.`, verdict.reasons ?? [], go);
  }
  const leads = { faithful: "All, within the tolerance.", degraded: "Those that tolerate this error:", broken: "None: do not rely on this run's figures." };
  const lead = `${sign} ${leads[verdict.state] ?? verdict.state}`;
  const reasons = verdict.reasons ?? [];
  const holds = verdict.holds ? sentence(verdict.state === "broken" ? `what can be said at most: ${verdict.holds}` : verdict.holds) : null;
  return card("Which of my figures hold?", level, lead, [
    holds,
    reasons[0] ?? null,
    `Lateness p50 ${ns(verdict.lateness_ns.p50)}, p99 ${ns(verdict.lateness_ns.p99)}, max ${ns(verdict.lateness_ns.max)}`,
  ], [reasons.length > 1 ? `${of(reasons.length - 1, "more reason")}, ${go[0]}` : go[0], go[1]]);
}

/** A link counts as busy from here on. */
const BUSY = 0.8;

function whatWasSlow(context: Context): HTMLElement {
  const { run, series } = context;
  const items: Item[] = [];
  const busy = run.pipes
    .map((pipe) => ({ name: pipe.name, load: pipe.counts?.utilisation ?? null }))
    .filter((pipe): pipe is { name: string; load: number } => (pipe.load ?? 0) >= BUSY)
    .sort((a, b) => b.load - a.load);
  for (const pipe of busy.slice(0, 2)) items.push(h("span", null, pipeButton(context, pipe.name), ` was busy ${percent(pipe.load, 0)} of the time`));
  if (busy.length > 2) items.push(`${of(busy.length - 2, "other pipe")} at ${percent(BUSY, 0)} or more`);
  const waits = run.pipes
    .map((pipe) => {
      const thing = series.of(pipe.name);
      return { name: pipe.name, wait: thing && most(thing, "delay_max") };
    })
    .filter((pipe): pipe is { name: string; wait: [number, number] } => pipe.wait != null && pipe.wait[0] >= 1e6)
    .sort((a, b) => b.wait[0] - a.wait[0]);
  const longest = waits[0];
  if (longest) items.push(h("span", null, `Packets waited up to ${ns(longest.wait[0])} in the queue of `, pipeButton(context, longest.name), `, at ${at(longest.wait[1], 0.01)}`));
  if (!longest) {
    const peaks = run.pipes
      .map((pipe) => {
        const thing = series.of(pipe.name);
        return { name: pipe.name, load: thing && pipe.params?.rate_bps != null ? most(thing, "busy") : null };
      })
      .filter((pipe): pipe is { name: string; load: [number, number] } => pipe.load != null && pipe.load[0] >= BUSY)
      .sort((a, b) => b.load[0] - a.load[0]);
    const first = peaks[0];
    if (first && !busy.length) items.push(h("span", null, pipeButton(context, first.name), ` was fully loaded at ${at(first.load[1], 0.1)}${peaks.length > 1 ? `; so were ${of(peaks.length - 1, "other")} at times` : ""}`));
  }
  const unfinished = (run.summary?.flow_groups ?? []).filter((group) => group.finished < group.flows);
  if (unfinished.length) items.push(`${of(unfinished.reduce((sum, g) => sum + g.flows - g.finished, 0), "modelled flow")} had not finished`);
  const verdict = run.summary?.verdict;
  const stalls = verdict?.stalls;
  if (stalls?.count) items.push(`This machine stalled ${of(stalls.count, "time")}, for up to ${ns(stalls.longest_ns)}`);
  if (verdict?.by_cause?.["overload"]) items.push(`Overload made ${of(verdict.by_cause["overload"], "packet")} late`);
  const starved = verdict?.starved_hosts ?? [];
  if (starved.length) items.push(`Hosts starved of CPU time: ${starved.slice(0, 5).join(", ")}`);
  const lead = busy.length || waits.length ? "Packets waited here:" : items.length ? "Of note:" : "Nothing stands out.";
  return card("What was slow?", "plain", lead, items.slice(0, 5), ["all pipes", () => context.go("pipes")]);
}

export const CAUSES: Record<string, string> = {
  queue: "queue full", loss: "loss", link_down: "link down", hop_limit: "hop limit", no_route: "no route",
  too_big: "too big", misdelivered: "wrong host", absorbed: "taken by a router",
};

function whereDidPacketsGo(context: Context): HTMLElement {
  const packets = context.run.summary?.packets;
  const go: [string, () => void] = ["drops by cause", () => context.go("drops")];
  if (!packets) return card("Where did packets go?", "plain", "There is no summary; the series show what was recorded.", [], go);
  const dropped = Object.entries(packets.dropped).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const all = packets.entered + packets.created;
  const lost = dropped.reduce((sum, [, n]) => sum + n, 0);
  const parts: [string, number, string][] = [
    ["delivered", packets.delivered, "good"],
    ...dropped.map(([cause, n], place): [string, number, string] => [CAUSES[cause] ?? cause, n, `drop-${place % 4}`]),
    ["inside at the end", packets.inside, "line-7"],
  ];
  const bar = h("div", { class: "share-bar", role: "img", "aria-label": parts.map(([name, n]) => `${name}: ${count(n)}`).join(", ") });
  const paint = () => bar.replaceChildren(...parts.filter(([, n]) => n > 0).map(([name, n, tone]) =>
    h("span", { title: `${name}: ${count(n)}`, style: { flex: `${n / Math.max(1, all)} 0 3px`, background: colour(tone) } })));
  paint();
  theme.follow(paint);
  const legend = parts.filter(([name, n]) => n > 0 || name === "delivered").slice(0, 6).map(([name, n, tone]) =>
    h("span", { class: "item" }, h("span", { class: "swatch block", style: { "--swatch": `var(--${tone})` } }), `${name} `, h("b", null, count(n)), ` (${percent(n / Math.max(1, all), 2)})`));
  const worst = worstPipe(context.run.pipes);
  const physical = context.run.summary?.verdict?.physical_drops ?? 0;
  const element = card("Where did packets go?", "plain", `Of ${count(all)} packets ${percent(packets.delivered / Math.max(1, all), 2)} reached their hosts.`, [
    worst?.counts?.drops ? h("span", null, `Most drops: ${count(worst.counts.drops)} of ${count(lost)} in `, pipeButton(context, worst.name)) : lost ? null : "None was dropped.",
    physical ? `This machine, not the emulated network, lost ${of(physical, "packet")}` : null,
    packets.entered + packets.created !== packets.delivered + lost + packets.inside ? "These counts do not add up: please report this." : null,
  ], go);
  element.querySelector(".lead")!.after(bar, h("div", { class: "legend" }, legend));
  return element;
}

export function overview(context: Context): HTMLElement {
  return h("section", { id: "overview", "aria-label": "Overview" },
    h("div", { class: "cards" }, didItWork(context), whatHolds(context), whatWasSlow(context), whereDidPacketsGo(context)));
}
