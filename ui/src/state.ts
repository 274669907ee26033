// What all parts of the page share: the stretch of time in view, the moment that the topology shows, the
// theme. Those who depend on it subscribe.

type Listener<T> = (value: T) => void;

class Shared<T> {
  #listeners = new Set<Listener<T>>();
  constructor(public value: T) {}

  set(value: T): void {
    this.value = value;
    for (const listener of this.#listeners) listener(value);
  }

  /** Calls with each value from now on. */
  follow(listener: Listener<T>): void {
    this.#listeners.add(listener);
  }

  unfollow(listener: Listener<T>): void {
    this.#listeners.delete(listener);
  }
}

/** Seconds of experiment time in view; null for all. */
export const range = new Shared<[number, number] | null>(null);

/** The second that the topology shows; null for the whole run. */
export const moment = new Shared<number | null>(null);

type Theme = "light" | "dark";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const chosen = (): Theme | null => {
  try {
    const stored = localStorage.getItem("longhaul-theme");
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    return null; // pages of files may have no storage
  }
};

export const theme = new Shared<Theme>(chosen() ?? (dark.matches ? "dark" : "light"));
const apply = (value: Theme) => document.documentElement.setAttribute("data-theme", value);
apply(theme.value);
theme.follow(apply);
dark.addEventListener("change", () => {
  if (!chosen()) theme.set(dark.matches ? "dark" : "light");
});

export function switchTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("longhaul-theme", next);
  } catch {
    // It holds as long as the page.
  }
  theme.set(next);
}

// Paper is white.
let before: Theme | null = null;
window.addEventListener("beforeprint", () => {
  if (theme.value === "dark") {
    before = theme.value;
    theme.set("light");
  }
});
window.addEventListener("afterprint", () => {
  if (before) theme.set(before);
  before = null;
});

/** A colour of the style sheet, as it is now. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Colours of lines that can be told apart, also by those who see few colours (after Okabe and Ito). */
export const line = (number: number) => colour(`line-${number % 8}`);
