// A table that is sorted by a click on a head and searched by a word; long ones grow on demand.

import { h, replace } from "./dom";
import { count } from "./format";

export interface Column<T> {
  name: string;
  /** What is shown. */
  text: (row: T) => string | HTMLElement | null;
  /** What it is sorted by; figures are aligned to the right. */
  value?: (row: T) => number | string | null | undefined;
  figure?: boolean;
  title?: string;
}

interface TableOptions<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  /** The column that it is sorted by at first, and whether the largest comes first; as it is without. */
  sort?: [string, boolean];
  /** The text that a search matches; without it, there is no search. */
  search?: (row: T) => string;
  /** A row is chosen: by the button in its first cell. */
  choose?: (row: T) => void;
  chosen?: (row: T) => boolean;
  class?: (row: T) => string;
}

const STEP = 50;
/** Shorter tables need no search. */
const SEARCHED = 12;

export class Table<T> {
  readonly element: HTMLElement;
  #body = h("tbody", null);
  #more = h("p", { class: "note" });
  #shown = STEP;
  #drawn: T[] = [];
  #sort: [string, boolean] | null;
  #word = "";

  constructor(private options: TableOptions<T>) {
    this.#sort = options.sort ?? null;
    const input = options.search && options.rows.length > SEARCHED
      ? h("input", { type: "search", "aria-label": `search ${options.label}`, on: { input: (event) => this.#find(event.target.value) } })
      : null;
    const heads = options.columns.map((column) => this.#head(column));
    const table = h("table", { "aria-label": options.label }, h("thead", null, h("tr", null, heads)), this.#body);
    this.element = h("div", { class: "table" }, input ? h("label", { class: "search" }, "search ", input) : null, h("div", { class: "scroll" }, table), this.#more);
    this.fill();
  }

  #head(column: Column<T>): HTMLElement {
    if (!column.value) return h("th", { scope: "col", class: column.figure ? "n" : "" }, column.name);
    const button = h("button", { type: "button", title: column.title ?? "sort", on: { click: () => this.#by(column.name) } }, column.name);
    return h("th", { scope: "col", class: column.figure ? "n" : "", "data-column": column.name }, button);
  }

  #by(name: string): void {
    const [before, down] = this.#sort ?? ["", false];
    this.#sort = [name, name === before ? !down : true];
    this.fill();
  }

  #find(word: string): void {
    this.#word = word.toLowerCase();
    this.#shown = STEP;
    this.fill();
  }

  #rows(): T[] {
    const { options } = this;
    let rows = this.#word ? options.rows.filter((row) => options.search!(row).toLowerCase().includes(this.#word)) : options.rows;
    const column = options.columns.find((column) => column.name === this.#sort?.[0]);
    if (column?.value) {
      const sign = this.#sort?.[1] ? -1 : 1;
      const value = column.value;
      rows = rows
        .map((row, place) => ({ row, place, value: value(row) }))
        .sort((a, b) => order(a.value, b.value, sign) || a.place - b.place)
        .map((each) => each.row);
    }
    return rows;
  }

  /** Shows the rows as they are now. The keyboard stays where it is: at the button of the same row. */
  fill(): void {
    const rows = this.#rows();
    const { options } = this;
    const focused = this.#drawn[[...this.#body.children].findIndex((row) => row.contains(document.activeElement))];
    this.#drawn = rows.slice(0, this.#shown);
    replace(this.#body, this.#drawn.map((row) => {
      const cells = options.columns.map((column, place) => {
        const text = column.text(row);
        const content = place === 0 && options.choose
          ? h("button", { type: "button", class: "choose", on: { click: () => options.choose!(row) } }, text)
          : text;
        return h("td", { class: column.figure ? "n" : "" }, content);
      });
      const isChosen = options.chosen?.(row) ?? false;
      return h("tr", { class: `${options.class?.(row) ?? ""}${isChosen ? " chosen" : ""}`, "aria-selected": isChosen ? "true" : null }, cells);
    }));
    if (focused) this.#focus(focused);
    for (const head of this.element.querySelectorAll<HTMLElement>("th[data-column]")) {
      const isSorted = head.dataset["column"] === this.#sort?.[0];
      head.setAttribute("aria-sort", isSorted ? (this.#sort?.[1] ? "descending" : "ascending") : "none");
    }
    const left = rows.length - this.#shown;
    replace(this.#more, left > 0
      ? [`${count(this.#shown)} of ${count(rows.length)} rows. `, h("button", { type: "button", on: { click: () => this.#grow() } }, "show more")]
      : null);
  }

  /** Shows more rows; the keyboard goes on at the first of them. */
  #grow(): void {
    const next = this.#rows()[this.#shown];
    this.#shown += 5 * STEP;
    this.fill();
    if (next) this.#focus(next);
  }

  #focus(row: T): void {
    this.#body.children[this.#drawn.indexOf(row)]?.querySelector("button")?.focus({ preventScroll: true });
  }
}

/** Smaller first; what is not known last either way. */
function order(a: number | string | null | undefined, b: number | string | null | undefined, sign: number): number {
  if (a == null || b == null) return Number(a == null) - Number(b == null);
  if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  return sign * (a - b);
}

/** Two columns, names and values. */
export function facts(rows: [string, string | HTMLElement | null | undefined][]): HTMLElement {
  const known = rows.filter(([, value]) => value != null && value !== "");
  return h("dl", { class: "facts" }, known.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value as string | HTMLElement)]));
}
