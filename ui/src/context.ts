// What the sections of a run's page share.

import type { Run } from "./data";
import { PipeSeries } from "./series";
import { h } from "./dom";

export interface Context {
  run: Run;
  end_s: number;
  events: { at_s: number; event: string }[];
  series: PipeSeries;
  /** Chooses a pipe: its link in the topology, its charts. */
  choosePipe: (name: string) => void;
  /** Shows a section. */
  go: (section: string) => void;
}

export function section(id: string, title: string, ...content: (HTMLElement | string | null | false | undefined)[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), content as any);
}

export const note = (text: string) => h("p", { class: "note" }, text);

/** A name that leads to a pipe. */
export const pipeButton = (context: Context, name: string) =>
  h("button", { type: "button", class: "choose", on: { click: () => context.choosePipe(name) } }, h("bdi", null, name));
