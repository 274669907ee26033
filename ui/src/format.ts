// Numbers as people read them; those of the terminal look alike.

export const NONE = "—";

/** Three significant digits of a number below 1000, without zeros that say nothing. */
function significant(value: number): string {
  const size = Math.abs(value);
  const decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 || value === 0 ? 2 : 3;
  const text = value.toFixed(decimals);
  return decimals ? text.replace(/\.?0+$/, "") : text;
}

/** `12.3 k`, `1.5 Gbit/s`. */
export function si(value: number | null | undefined, unit = ""): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const prefixes: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const [factor, prefix] = prefixes.find(([factor]) => Math.abs(value) >= factor * 0.9995) ?? [1, ""];
  return `${significant(value / factor)} ${prefix}${unit}`.trim();
}

/** Nanoseconds: `12.3 us`, `1.5 s`. */
export function ns(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const [factor, unit] = units.find(([factor]) => Math.abs(value) >= factor * 0.9995) ?? [1, "ns"];
  return `${significant(value / factor)} ${unit}`;
}

export const seconds = (value: number | null | undefined) => ns(value == null ? value : value * 1e9);

/** A point on the time axis, to what the step between points needs. */
export function at(s: number, step_s = 0.001): string {
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step_s))));
  return `${s.toFixed(decimals)} s`;
}

/** `1,234,567`. */
export function count(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const fixed = Number.isInteger(value) ? String(value) : value.toFixed(Math.abs(value) < 10 ? 2 : 1);
  const [whole = "", part] = fixed.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${grouped}.${part}` : grouped;
}

export function percent(value: number | null | undefined, digits = 1): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const share = 100 * value;
  if (share !== 0 && Math.abs(share) < 10 ** -digits / 2) return `< ${10 ** -digits} %`;
  return `${share.toFixed(digits)} %`;
}

/** `1 packet`, `2 packets`. */
export const of = (value: number, what: string) => `${count(value)} ${what}${value === 1 ? "" : "s"}`;

/** A sentence of a phrase. */
export function sentence(text: string): string {
  const first = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
