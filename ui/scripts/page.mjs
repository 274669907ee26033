// Puts the built script and style into template.html, and writes the licences of what is bundled.
//
// The script goes behind the places that Longhaul fills in, so that nothing in it is taken for one. What is
// bundled is told by the bundler's own list of modules: a package with another licence than those below,
// or without the text of one, ends the build.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ALLOWED = ["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"];
const FILES = ["LICENSE", "LICENSE.md", "LICENSE.txt", "license"];
const ui = join(dirname(fileURLToPath(import.meta.url)), "..");

/** The folders of the packages whose modules are in the bundle. */
function packagesOf(modules) {
  const folders = new Set();
  for (const module of modules) {
    const match = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(module.replace(/^\0/, ""));
    if (match) folders.add(match[1]);
  }
  return [...folders].sort();
}

/** The licences of packages, with what their sources say of others' code in them. */
export function licences(modules) {
  const parts = packagesOf(modules).map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    if (!ALLOWED.includes(license)) {
      throw new Error(`${name} ${version} has the licence ${license}; allowed are ${ALLOWED.join(", ")}`);
    }
    const file = FILES.map((file) => join(folder, file)).find(existsSync);
    if (!file) throw new Error(`${name} ${version} comes without the text of its licence`);
    const sources = modules.filter((module) => module.startsWith(`${folder}/`) && existsSync(module));
    const said = sources.flatMap((source) => readFileSync(source, "utf8").match(/\/\*![\s\S]*?\*\//g) ?? []);
    const others = [...new Set(said)].filter((text) => /licen[cs]e|copyright/i.test(text));
    const texts = [readFileSync(file, "utf8").trim(), ...others];
    return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
  });
  return `The page of reports contains these packages:\n\n${parts.join(`\n${"-".repeat(72)}\n\n`)}`;
}

/** The Vite plugin. */
export function page() {
  return {
    name: "longhaul-page",
    enforce: "post",
    generateBundle(_, bundle) {
      const chunk = Object.values(bundle).find((part) => part.type === "chunk");
      const styles = Object.values(bundle).filter((part) => part.fileName.endsWith(".css"));
      const texts = licences([...chunk.moduleIds]);
      // Neither ends the element: `<\/` and `<\!` mean the same in strings and patterns.
      const script = chunk.code.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const style = styles.map((part) => part.source).join("").trim();
      if (style.includes("</style")) throw new Error("the style would end its element");
      const hash = createHash("sha256").update(script).digest("base64");
      const escaped = texts.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
      // Functions, so that `$&` in a script is no pattern.
      const html = readFileSync(join(ui, "template.html"), "utf8")
        .replace("{{hash}}", () => `sha256-${hash}`)
        .replace("{{style}}", () => style)
        .replace("{{licences}}", () => escaped)
        .replace("{{script}}", () => script);
      for (const name of Object.keys(bundle)) delete bundle[name];
      this.emitFile({ type: "asset", fileName: "page.html", source: html });
      this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: texts });
    },
  };
}
