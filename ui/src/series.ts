// Figures of a run over time: coarse columns, replaced by rows of full resolution where the page has them.

import type { Document, Pipe, Run, SeriesName, Track, Tracks, Window } from "./data";

export interface Points {
  /** Where each point begins, in seconds. */
  x: number[];
  min: (number | null)[];
  mean: (number | null)[];
  max: (number | null)[];
  /** The narrowest and the widest of them, in seconds. */
  widths: [number, number];
  /** Whether any point stands for several rows, so that least and most say more than the mean. */
  coarse: boolean;
}

export interface Thing {
  series: SeriesName;
  tracks: Tracks;
  track: Track;
  number: number;
}

/** Series that are sampled now and then: between rows, nothing is known. */
const SAMPLED = new Set<SeriesName>(["connections"]);
/** Figures of packets: without a packet there is none. */
const OF_PACKETS = new Set(["delay", "delay_max", "lateness", "lateness_p50", "lateness_p99", "lateness_p999"]);
/** Several rows of a gauge become the last value. */
const GAUGES = new Set(["inside", "memory", "tasks"]);

export function things(run: Run, series: SeriesName): Thing[] {
  const tracks = run.series[series];
  return tracks ? tracks.shown.map((track, number) => ({ series, tracks, track, number })) : [];
}

export function single(run: Run, series: SeriesName): Thing | null {
  return things(run, series)[0] ?? null;
}

/** A pipe's series: in bins where it was measured, else second by second. */
export class PipeSeries {
  #things = new Map<string, Thing>();

  constructor(run: Run) {
    for (const series of ["pipe_seconds", "pipes"] as const) {
      for (const thing of things(run, series)) this.#things.set(thing.track.key[0] ?? "", thing);
    }
  }

  of(pipe: string): Thing | null {
    return this.#things.get(pipe) ?? null;
  }
}

const SUMS = new Set(["drops_queue", "drops_loss", "drops_down", "marked", "dropped", "late", "late_stall", "late_overload", "late_other", "stalled", "stolen"]);
const LARGEST = new Set(["queue_max", "delay_max", "lateness_max", "lateness_p50", "lateness_p99", "lateness_p999", "stall_max"]);

/** How a wide step aggregates its rows: `Take` in `crates/lab/src/measure/columns.rs`. */
export function aggregateOf(metric: string): "sum" | "largest" | "last" | "mean" {
  return SUMS.has(metric) ? "sum" : LARGEST.has(metric) ? "largest" : GAUGES.has(metric) ? "last" : "mean";
}

/** The place of the first of ascending numbers that is no smaller than `least`. */
export function lowerBound(numbers: number[], least: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The pipe that dropped most, or of those that dropped nothing, carried most. */
export function worstPipe(pipes: Pipe[]): Pipe | undefined {
  const figures = ({ counts }: Pipe) => [counts?.drops ?? 0, counts?.bytes ?? 0] as const;
  const isWorse = ([drops, bytes]: readonly [number, number], than: readonly [number, number]) => drops > than[0] || (drops === than[0] && bytes > than[1]);
  return pipes.reduce<Pipe | undefined>((worst, pipe) => (!worst || isWorse(figures(pipe), figures(worst)) ? pipe : worst), undefined);
}

function missing(thing: Thing, metric: string): number | null {
  if (SAMPLED.has(thing.series) || OF_PACKETS.has(metric) || GAUGES.has(metric)) return null;
  return 0;
}

interface Span {
  from: number;
  to: number;
  min: number | null;
  mean: number | null;
  max: number | null;
}

/** Coarse columns of a figure as spans of nanoseconds. */
function* columns(thing: Thing, metric: string, from_ns: number, to_ns: number): Generator<Span> {
  const { grid } = thing.tracks;
  const lines = thing.track.lines[metric];
  const own = thing.track.columns;
  const none = missing(thing, metric);
  const first = Math.max(0, Math.floor(from_ns / grid.width_ns) - 1);
  const last = Math.min(grid.columns - 1, Math.ceil(to_ns / grid.width_ns));
  let place = own ? lowerBound(own, first) : 0;
  let was = false;
  for (let column = first; column <= last; column++) {
    const at = !own ? column : own[place] === column ? place++ : null;
    const mean = at == null ? none : (lines?.mean[at] ?? (lines ? null : none));
    if (at == null && none == null) {
      // A gap, once: lines end here.
      if (was && OF_PACKETS.has(metric)) {
        yield { from: column * grid.width_ns, to: (column + 1) * grid.width_ns, min: null, mean: null, max: null };
      }
      was = false;
      continue;
    }
    was = true;
    yield {
      from: column * grid.width_ns,
      to: Math.min((column + 1) * grid.width_ns, grid.end_ns),
      min: at == null ? none : (lines?.min?.[at] ?? mean),
      mean,
      max: at == null ? none : (lines?.max?.[at] ?? mean),
    };
  }
}

/** Rows of a window, zeros where nothing happened. */
function* rows(thing: Thing, metric: string, window: Window): Generator<Span> {
  const starts = window.rows["start_ns"] ?? [];
  const widths = window.rows["width_ns"] ?? [];
  const values = window.rows[metric] ?? [];
  const none = missing(thing, metric);
  let end = window.from_ns;
  for (let row = 0; row < starts.length; row++) {
    const from = starts[row] ?? 0;
    const to = from + (widths[row] ?? 0);
    if (none != null && from > end) yield { from: end, to: from, min: none, mean: none, max: none };
    const value = values[row] ?? null;
    yield { from, to, min: value, mean: value, max: value };
    end = to;
  }
  if (none != null && end < window.to_ns) yield { from: end, to: window.to_ns, min: none, mean: none, max: none };
}

/** The rows that the page's own server has given, by thing. */
const fetched = new WeakMap<Track, Window[]>();

function windowsOf(thing: Thing): Window[] {
  const own = thing.tracks.windows.filter((window) => window.track === thing.number);
  return [...(fetched.get(thing.track) ?? []), ...own].sort((a, b) => a.from_ns - b.from_ns);
}

/** With this many columns in view or more, rows would only be noise. */
const COLUMNS_MAX = 250;

/** A figure in a stretch of time, at the resolution that serves it. */
export function points(thing: Thing, metric: string, from_s: number, to_s: number): Points {
  const [from_ns, to_ns] = [from_s * 1e9, to_s * 1e9];
  const { grid, row_ns } = thing.tracks;
  const isClose = (to_ns - from_ns) / grid.width_ns <= COLUMNS_MAX;
  const windows = isClose ? windowsOf(thing).filter((w) => w.to_ns > from_ns && w.from_ns < to_ns) : [];
  const result: Points = { x: [], min: [], mean: [], max: [], widths: [Infinity, 0], coarse: false };
  const put = (span: Span) => {
    const width = (span.to - span.from) / 1e9;
    result.x.push(span.from / 1e9);
    result.min.push(span.min);
    result.mean.push(span.mean);
    result.max.push(span.max);
    // The last step is cut short by the end of the run.
    const isInView = span.to > from_ns && span.from < to_ns;
    if (width > 0 && isInView && (span.to < grid.end_ns || result.x.length === 1)) result.widths = [Math.min(result.widths[0], width), Math.max(result.widths[1], width)];
  };
  let next = 0;
  let end = -Infinity;
  let last: Span | null = null;
  const flush = (until: number) => {
    for (let window = windows[next]; window && window.from_ns < until; window = windows[++next]) {
      for (const span of rows(thing, metric, window)) {
        if (span.from < end) continue;
        put(span);
        end = span.to;
        last = span;
      }
    }
  };
  for (const span of columns(thing, metric, from_ns, to_ns)) {
    flush(span.to);
    if (span.from < end) continue;
    put(span);
    last = span;
    end = span.to;
    const isInView = span.to > from_ns && span.from < to_ns;
    result.coarse ||= isInView && grid.width_ns > row_ns[0] && row_ns[0] > 0;
  }
  flush(Infinity);
  // The end of the last step.
  const tail = last as Span | null;
  if (tail && tail.to > tail.from) put({ ...tail, from: tail.to, to: tail.to });
  if (!Number.isFinite(result.widths[0])) result.widths = [0, 0];
  return result;
}

/** The mean of a figure over the run, by time. */
export function overall(thing: Thing, metric: string): number | null {
  let [sum, weight] = [0, 0];
  for (const span of columns(thing, metric, 0, thing.tracks.grid.end_ns)) {
    if (span.mean == null) continue;
    sum += span.mean * (span.to - span.from);
    weight += span.to - span.from;
  }
  return weight ? sum / weight : null;
}

/** The largest value of a figure, and when. */
export function most(thing: Thing, metric: string): [number, number] | null {
  let best: [number, number] | null = null;
  for (const span of columns(thing, metric, 0, thing.tracks.grid.end_ns)) {
    const value = span.max ?? span.mean;
    if (value != null && (!best || value > best[0])) best = [value, span.from / 1e9];
  }
  return best && best[0] > 0 ? best : null;
}

export function sum(thing: Thing, metric: string): number {
  return (thing.track.lines[metric]?.mean ?? []).reduce((sum: number, value) => sum + (value ?? 0), 0);
}

/** A figure in the column of a moment. */
export function valueAt(thing: Thing, metric: string, at_s: number): number | null {
  const { grid } = thing.tracks;
  const column = Math.min(grid.columns - 1, Math.floor((at_s * 1e9) / grid.width_ns));
  const own = thing.track.columns;
  const lines = thing.track.lines[metric];
  const place = own ? lowerBound(own, column) : column;
  if (own && own[place] !== column) return missing(thing, metric);
  return lines?.mean[place] ?? missing(thing, metric);
}

// The page's own server, where it has one: it reads rows from the run folder.

let served = false;
export function serve(document: Document): void {
  served = document.served && document.runs.length === 1;
}

const asked = new WeakMap<Track, Set<string>>();

/** Asks for the rows in view, once, where they are not here; says whether new ones have come. */
export async function more(thing: Thing, from_s: number, to_s: number): Promise<boolean> {
  const { grid, row_ns } = thing.tracks;
  // Whole columns: rows take their place.
  const [from_ns, to_ns] = [Math.floor((from_s * 1e9) / grid.width_ns) * grid.width_ns, Math.ceil((to_s * 1e9) / grid.width_ns) * grid.width_ns];
  const isClose = (to_ns - from_ns) / grid.width_ns <= COLUMNS_MAX;
  if (!served || !isClose || grid.width_ns <= row_ns[0]) return false;
  const covered = windowsOf(thing).some((w) => w.from_ns <= from_ns && w.to_ns >= Math.min(to_ns, grid.end_ns));
  const known = asked.get(thing.track) ?? new Set();
  asked.set(thing.track, known);
  const name = `${from_ns}-${to_ns}`;
  if (covered || known.has(name)) return false;
  known.add(name);
  const query = new URLSearchParams({ series: thing.series, from_ns: String(from_ns), to_ns: String(to_ns) });
  for (const part of thing.track.key) query.append("key", part);
  const answer = await fetch(`rows?${query}`).catch(() => null);
  if (!answer?.ok) return false;
  const window = (await answer.json()) as Window | null;
  if (!window) return false;
  fetched.set(thing.track, [...(fetched.get(thing.track) ?? []), window]);
  return true;
}
