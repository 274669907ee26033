// Elements, made so that no text can become markup: texts are text nodes, and cleaned.

type Child = globalThis.Node | string | number | null | undefined | false | Child[];
type Props = {
  class?: string;
  id?: string;
  title?: string;
  style?: Partial<Record<string, string>>;
  on?: Record<string, (event: any) => void>;
  [attribute: string]: unknown;
};

/** The longest text that is shown. */
const TEXT_MAX = 2000;
// What could hide, move or reorder text: control characters, and those of bidirectional text.
const HOSTILE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Any text, harmless. */
function clean(text: unknown): string {
  const plain = String(text ?? "").replace(HOSTILE, "\ufffd");
  return plain.length > TEXT_MAX ? `${plain.slice(0, TEXT_MAX)}…` : plain;
}

function append(parent: ParentNode, children: Child[]): void {
  for (const child of children) {
    if (child == null || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof globalThis.Node) parent.append(child);
    else parent.append(document.createTextNode(clean(child)));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props | null, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value as Record<string, (event: any) => void>)) {
        element.addEventListener(event, listener);
      }
    } else if (name === "style") {
      for (const [key, text] of Object.entries(value as Record<string, string>)) element.style.setProperty(key, text);
    } else {
      element.setAttribute(name, value === true ? "" : clean(value));
    }
  }
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, props: Record<string, string | number>, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, clean(value));
  append(element, children);
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

/** A file of the run folder; nothing for a path that leads out of it. */
export function fileLink(path: string): HTMLElement {
  const parts = path.split("/");
  const inside = path !== "" && parts.every((part) => part !== "" && part !== "." && part !== "..");
  if (!inside || path.length > 1000) return h("span", null, path);
  // The colon too: in the first part of a path it would make a scheme.
  const href = parts.map((part) => encodeURIComponent(part)).join("/");
  return h("a", { href }, path);
}

/** Makes what is in `make` when it comes into view, or is printed. */
export function lazily(element: HTMLElement, make: () => void): void {
  let made = false;
  const once = () => {
    if (made) return;
    made = true;
    observer.disconnect();
    window.removeEventListener("beforeprint", once);
    make();
  };
  const observer = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && once(), { rootMargin: "300px" });
  observer.observe(element);
  window.addEventListener("beforeprint", once);
}
