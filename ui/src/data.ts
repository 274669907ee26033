// The document in a page, as crates/lab/src/report/document.rs writes it. A test there holds the names of
// both to each other. What comes from programs, files and names is any text at all.

export interface Document {
  format: "longhaul-report";
  version: number;
  made_by: string;
  runs: Run[];
  comparison: Comparison | null;
  served: boolean;
}

export interface Run {
  name: string;
  folder: string;
  ending: "whole" | "cut_off" | "under_way";
  notes: string[];
  end_s: number;
  summary: Summary | null;
  nodes: Node[];
  nodes_seen: number;
  pipes: Pipe[];
  pipes_seen: number;
  programs: Program[];
  series: Partial<Record<SeriesName, Tracks>>;
  timelines: Timeline[];
  files: string[];
}

export type SeriesName = "pipes" | "pipe_seconds" | "seconds" | "core" | "flows" | "connections" | "hosts";

export interface Node {
  name: string;
  kind: string;
  x: number;
  y: number;
}

export interface Pipe {
  name: string;
  params: PipeParams | null;
  counts: Counts | null;
}

export interface PipeParams {
  name: string;
  link: string;
  from: number;
  to: number;
  rate_bps: number | null;
  delay_ns: number;
  loss: string | null;
  queue: string;
  mtu: number;
}

export interface Counts {
  packets: number;
  bytes: number;
  drops: number;
  drops_queue: number;
  drops_early: number;
  drops_loss: number;
  drops_down: number;
  marked: number;
  duplicated: number;
  corrupted: number;
  reordered: number;
  utilisation: number | null;
}

export interface Program {
  name: string;
  host: string;
  service: boolean;
  ended: ProgramEnd | null;
  out: LogEnd;
  err: LogEnd;
}

export interface LogEnd {
  file: string | null;
  bytes: number;
  lines: string[];
  cut: boolean;
}

/** Columns of time. */
export interface Grid {
  width_ns: number;
  columns: number;
  end_ns: number;
}

/** A series in columns; `row_ns` are the least and the largest width of the rows behind them. */
export interface Tracks {
  keys: string[];
  grid: Grid;
  row_ns: [number, number];
  seen: number;
  shown: Track[];
  windows: Window[];
  until_ns: number | null;
}

export interface Track {
  key: string[];
  /** The columns that have figures; null for all. */
  columns: number[] | null;
  lines: Record<string, Lines>;
}

/** Without `min` and `max` these are the mean. */
export interface Lines {
  min?: (number | null)[];
  mean: (number | null)[];
  max?: (number | null)[];
}

/** Rows of full resolution of the track of this number. */
export interface Window {
  track: number;
  why: string;
  from_ns: number;
  to_ns: number;
  rows: Record<string, (number | null)[]>;
}

export interface Timeline {
  pipe: string;
  seen: number;
  arrival_ns: number[];
  service_ns: number[];
  departure_ns: number[];
  bytes: number[];
  fate: string[];
  flow: number[];
  flows: string[];
}

// What of summary.json is shown. Any of it may be missing: another version may have written it.

export interface Summary {
  clock?: string;
  seed?: number;
  version?: string;
  run?: string;
  machine?: Record<string, unknown>;
  verdict?: Verdict;
  packets?: Packets;
  trace_hash?: string | null;
  simulated_s?: number;
  wall_s?: number;
  cpu_s?: number;
  setup_s?: number;
  teardown_s?: number;
  hops_per_s?: number;
  error?: string | null;
  warnings?: string[];
  flows?: Flow[];
  flows_seen?: number;
  flow_groups?: FlowGroup[];
  events?: Event[];
  events_seen?: number;
  cores?: Core[];
  partition?: Partition | null;
  attempts?: Attempt[];
  captures?: Capture[];
}

export interface Quantiles {
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  max: number;
}

export interface Verdict {
  state: "faithful" | "degraded" | "broken";
  holds?: string | null;
  reasons?: string[];
  tolerance_ns?: number;
  late_share?: number;
  lost_share?: number;
  percentile_shift?: number;
  rate_share?: number;
  worst_pair?: { from: string | null; to: string; packets: number; late: number; late_share: number; lost_share: number } | null;
  episodes?: number;
  by_cause?: Record<string, number>;
  stalls?: { count: number; total_ns: number; longest_ns: number };
  seconds?: number;
  late_seconds?: number;
  lateness_ns?: Quantiles | null;
  after_call_ns?: Quantiles | null;
  staleness_ns?: Quantiles | null;
  physical_drops?: number;
  physical_drops_by_place?: Record<string, number>;
  clock_steps?: number;
  starved_hosts?: string[];
  stolen_ns?: number | null;
  tcp?: Record<string, number> | null;
}

export interface Packets {
  entered: number;
  created: number;
  delivered: number;
  inside: number;
  hops: number;
  dropped: Record<string, number>;
  refused: Record<string, number>;
  replies_suppressed: number;
}

export interface ProgramEnd {
  exit?: number | null;
  start_s?: number | null;
  finish_s?: number | null;
  ended_by_run?: boolean;
  cpu_s?: number;
  log_discarded_bytes?: number;
  failure?: string | null;
}

export interface Flow {
  name: string;
  from: string;
  to: string;
  model?: string;
  bytes: number;
  start_s: number;
  finish_s: number | null;
  completion_s: number | null;
  goodput_bps: number;
  retransmissions: number;
  rtt_ns?: { min: number; mean: number; max: number } | null;
  failed?: boolean;
  requests?: { completed: number; mean_s: number | null } | null;
  datagrams?: { sent: number; received: number; lost: number } | null;
}

export interface FlowGroup {
  name: string;
  flows: number;
  finished: number;
  failed: number;
  bytes: number;
  retransmissions: number;
  completion_s: { min: number; mean: number; p50: number; p90: number; p99: number; max: number } | null;
  goodput_bps: number;
  jain: number | null;
}

export interface Event {
  at_s: number;
  event: string;
}

export interface Core {
  pipes: number;
  packets: number;
  cross_core: number;
  busy: number;
}

export interface Load {
  efficiency: number;
  load_max: number;
  load_mean: number;
}

export interface Partition {
  method: string;
  costs: string;
  cut_pipes: number;
  lookahead_ns: number | null;
  predicted: Load;
  measured: Load;
  edge_packets: number;
  crossing_packets: number;
}

export interface Attempt {
  run: string;
  state: string;
  late_share: number;
  physical_drops: number;
}

export interface Capture {
  links: string;
  file: string;
  packets: number;
  missed: number;
}

// Several runs beside each other, as crates/lab/src/compare/several.rs makes it.

export interface Comparison {
  groups: { name: string; runs: number[]; }[];
  figures: Figure[];
  figures_seen: number;
}

/** A figure of all runs, and what the difference between the groups amounts to. */
export interface Figure {
  section: string;
  name: string;
  what: string;
  unit: string;
  values: (number | null)[];
  /** By group, against the first: difference of the means as a share of the first mean. */
  difference: (number | null)[];
  /** By group: whether it is beyond the noise of repeats; null where nothing is known of noise. */
  beyond_noise: (boolean | null)[];
  /** By group: the noise, as the share of the first mean that a difference must exceed. */
  noise: (number | null)[];
}
