// Opens reports in a real headless browser: of a live run, a virtual one, a broken one, a killed one, a large
// one, with hostile names, served, and several compared. Nothing may be said on the console, nothing asked of
// any network.
//
//   LONGHAUL=../target/release/longhaul npm test      CHROMIUM=… SHOTS=folder for screenshots
//
// Ends with 77 where something is missing, and says what.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ui = join(dirname(fileURLToPath(import.meta.url)), "..");
const skip = (why) => {
  console.log(`skipped: ${why}`);
  process.exit(77);
};
const find = (names) => names.find((name) => name && existsSync(name));
const chromium = find([process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]) ?? skip("install chromium");
const longhaul = find([process.env.LONGHAUL, join(ui, "../target/release/longhaul"), join(ui, "../target/debug/longhaul")].map((path) => path && resolve(path))) ?? skip("build longhaul first");
const playwright = await import("playwright-core").catch(() => skip("run `npm ci` in ui/"));

const scratch = mkdtempSync(join(tmpdir(), "longhaul-ui-"));
const shots = process.env.SHOTS && resolve(process.env.SHOTS);
if (shots) mkdirSync(shots, { recursive: true });
const started = [];
let browser;
const failures = [];
const check = (holds, what) => {
  if (!holds) failures.push(what);
  if (!holds) console.log(`  FAILED: ${what}`);
};

function write(name, text) {
  const path = join(scratch, name);
  writeFileSync(path, text);
  return path;
}

/** Runs longhaul; gives its exit code. */
function run(args, allowed = [0]) {
  const { status, stderr, stdout } = spawnSync(longhaul, args, { cwd: scratch, encoding: "utf8", timeout: 120_000 });
  if (!allowed.includes(status)) throw new Error(`longhaul ${args.join(" ")}: ${status}\n${stdout}${stderr}`);
  return status;
}

const VIRTUAL = `
name: virtual
clock: virtual
duration: 12 s
topology:
  nodes: { a: { count: 2 }, b: { count: 2 }, g: { kind: router }, h: { kind: router } }
  links:
    - { ends: [a, g], rate: 100 Mbit/s, delay: 1 ms }
    - { ends: [g, h], rate: 10 Mbit/s, delay: 10 ms, queue: 20 packets }
    - { ends: [h, b], rate: 100 Mbit/s, delay: 1 ms }
traffic:
  bulk: { from: a, to: b, bytes: 4 MB }
events:
  - { at: 4 s, link: g-h, set: { delay: 20 ms } }
measure: { every: 5 ms, connections: 50 ms, packets: [{ link: g>h, from: 1 s, for: 200 ms }] }
`;
const LIVE = `
name: live
duration: 20 s
topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 50 Mbit/s, delay: 2 ms }] }
programs:
  work: { on: a, run: sh -c 'echo "<b>bold</b> $0"; echo oops >&2; sleep 0.5' }
measure: { every: 20 ms, hosts: 100 ms }
`;
const LARGE = `
name: large
clock: virtual
duration: 4 s
topology: { generate: { kind: tree, degree: 10, height: 3, rate: 10 Mbit/s, delay: 2 ms } }
traffic:
  gossip: { from: all, pattern: { random: 1 }, model: udp, rate: 400 kbit/s, bytes: 100 kB }
measure: { every: 10 ms }
`;
const HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\u202egnp.\u0000&amp;";

/** Opens a page, and watches what it says and asks for. */
async function open(url, { theme = "light", size = { width: 1280, height: 800 } } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: theme });
  const page = await context.newPage();
  const said = [];
  const asked = [];
  page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 30_000 });
  check((await page.getAttribute("html", "data-ready")) === "true", `${url} can be read`);
  return { page, said, asked, close: () => context.close() };
}

/** What holds of every page that is a file. */
async function quiet(name, { page, said, asked }) {
  // All of it comes into view once, so that everything is drawn.
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  for (let y = 0; y < height; y += 700) {
    await page.evaluate((y) => window.scrollTo(0, y), y);
    await page.waitForTimeout(40);
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  check(said.length === 0, `${name}: nothing on the console: ${said.join("; ")}`);
  const others = asked.filter((url) => !url.startsWith("file:") && !url.startsWith("blob:"));
  check(others.length === 0 && asked.filter((url) => url.startsWith("file:")).length === 1, `${name}: no request but the page: ${asked.join(" ")}`);
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
}

const file = (path) => `file://${join(scratch, path)}`;

/** A press, a way, a release. */
async function drag(page, from, to) {
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move((from.x + to.x) / 2, to.y, { steps: 4 });
  await page.mouse.move(to.x, to.y, { steps: 4 });
  await page.mouse.up();
}

async function virtual() {
  run(["run", write("virtual.yaml", VIRTUAL), "--out", "virtual", "-q"]);
  const opened = await open(file("virtual/report.html"));
  const { page } = opened;
  check((await page.title()) === "virtual: faithful", `the title: ${await page.title()}`);
  const cards = await page.textContent("#overview");
  for (const question of ["Did it work?", "Which of my figures hold?", "What was slow?", "Where did packets go?"]) check(cards.includes(question), question);
  check(cards.includes("no packet is late"), "a virtual run holds");
  // A click on a link shows its charts.
  await page.locator(".graph").scrollIntoViewIfNeeded();
  const links = await page.evaluate(() => longhaul.graph.links.map((link) => link.name));
  const number = links.indexOf("a0-g");
  await page.waitForTimeout(200);
  const place = await page.evaluate((number) => longhaul.graph.placeOf(number), number);
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction(() => document.querySelector(".beside h3")?.textContent === "a0-g", null, { timeout: 5000 }).catch(() => check(false, "a click on a link shows it"));
  check((await page.locator(".beside .u-over").count()) >= 1, "the link has charts");
  // A drag zooms all charts, a key zooms further, the button shows all again.
  const chart = page.locator(".beside .u-over").first();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await drag(page, { x: box.x + box.width * 0.25, y: box.y + 40 }, { x: box.x + box.width * 0.5, y: box.y + 50 });
  const shown = await page.textContent(".range");
  const [, from, to] = /([\d.]+) s to ([\d.]+) s/.exec(shown) ?? [];
  const end = await page.evaluate(() => Number(/of ([\d.]+) s/.exec(document.querySelector(".range").textContent)[1]));
  check(Math.abs(from / end - 0.25) < 0.03 && Math.abs(to / end - 0.5) < 0.03, `zoomed to a quarter: ${shown}`);
  await page.locator(".beside .plot").first().focus();
  await page.keyboard.press("+");
  check((await page.textContent(".range")) !== shown, "plus zooms");
  await page.keyboard.press("0");
  check(await page.locator(".range").isHidden(), "0 shows all");
  // The table has what the chart has.
  await page.locator(".beside .chart .as-table > summary").first().click();
  await page.waitForSelector(".beside .chart .as-table tbody tr", { timeout: 5000 });
  check((await page.locator(".beside .chart .as-table tbody tr").count()) > 10, "a chart has a table");
  // The topology by keyboard, at a moment, and as a table.
  await page.locator(".graph").focus();
  const before = await page.textContent(".beside h3");
  await page.keyboard.press("n");
  check((await page.textContent(".beside h3")) !== before, "n chooses the next link");
  await page.locator(".slider").fill("100");
  check(/^\d/.test(await page.textContent(".when")), "the slider shows a moment");
  await page.locator("#topology > .as-table > summary").click();
  await page.waitForSelector("#topology > .as-table tbody tr", { timeout: 5000 });
  check((await page.locator("#topology > .as-table tbody tr").count()) === 10, "the topology as a table");
  // Themes, and paper.
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.locator("button.theme").click();
  check((await page.getAttribute("html", "data-theme")) === "dark" && (await ground()) !== light, "the switch makes it dark");
  await page.pdf({ path: join(scratch, "virtual.pdf") });
  check((await page.getAttribute("html", "data-theme")) === "dark", "printing changes nothing");
  for (const id of ["pipes", "flows", "connections", "drops", "fidelity", "packets", "events", "machine"]) check((await page.locator(`#${id}`).count()) === 1, `section ${id}`);
  check((await page.textContent("#packets")).includes("g>h"), "packets one by one");
  await quiet("virtual", opened);
  // Keys move the packets' chart too.
  const drawing = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector("#packets canvas").toDataURL())))));
  const whole = await drawing();
  await page.locator("#packets .plot").focus();
  for (const [key, changes] of [["+", true], ["0", false]]) {
    await page.keyboard.press(key);
    check((await drawing()) !== whole === changes, `the packets' chart after ${key}`);
  }
  // Steps of what is counted have sums, others means.
  check((await page.textContent("#drops .chart .width")).includes("the line is the sum of its rows"), "drops of a step are summed");
  check((await page.textContent("#pipes .chart .width")).includes("the line is the mean of its rows"), "rates of a step are means");
  // A row that is chosen by a key keeps the keyboard.
  const button = page.locator("#pipes tbody tr button").nth(3);
  const pipe = await button.textContent();
  await button.focus();
  await page.keyboard.press("Enter");
  check((await page.evaluate(() => document.activeElement.textContent)) === pipe, "the keyboard stays at the row");
  await opened.close();
  const dark = await open(file("virtual/report.html"), { theme: "dark", size: { width: 420, height: 800 } });
  check((await dark.page.getAttribute("html", "data-theme")) === "dark", "dark where the system is");
  const wide = await dark.page.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= 420, `a narrow window has no sideways scrolling: ${wide}`);
  await quiet("virtual-dark-narrow", dark);
  await dark.close();
}

/** A run with programs, and the same with another verdict. */
async function live() {
  const code = spawnSync(longhaul, ["run", write("live.yaml", LIVE), "--out", "live", "-q"], { cwd: scratch, timeout: 60_000 }).status;
  if (![0, 3].includes(code)) return console.log("  left out: this machine runs no programs (`longhaul doctor`)");
  const opened = await open(file("live/report.html"));
  const { page } = opened;
  check((await page.locator(".gantt .bar").count()) === 1, "programs are drawn");
  check((await page.textContent(".logs")).includes("<b>bold</b>"), "the log is text");
  check((await page.locator(".logs b").count()) === 0, "and no markup");
  check((await page.locator("#hosts").count()) === 1, "hosts are shown");
  check((await page.textContent("#fidelity")).includes("tolerance") || (await page.textContent("#fidelity")).includes("lateness"), "lateness is shown");
  await quiet("live", opened);
  await opened.close();
  cpSync(join(scratch, "live"), join(scratch, "broken"), { recursive: true });
  const path = join(scratch, "broken/summary.json");
  const summary = JSON.parse(readFileSync(path, "utf8"));
  Object.assign(summary.verdict, { state: "broken", reasons: ["7 % of packets late: the core was overloaded"], late_share: 0.07, physical_drops: 12 });
  summary.packets.delivered -= 1;
  summary.programs[0].failure = "it exited with code 9";
  writeFileSync(path, JSON.stringify(summary));
  run(["report", "broken", "--html", "broken.html"]);
  const broken = await open(file("broken.html"));
  const text = await broken.page.textContent("body");
  check(text.includes("Do not rely on this run's figures") || text.includes("do not rely on this run's figures"), "a broken run says so");
  check(text.includes("it exited with code 9") && text.includes("These counts do not add up"), "what failed, and a sum that does not close");
  await quiet("broken", broken);
  await broken.close();
  // Killed midway.
  const long = LIVE.replace("sleep 0.5", "while sleep 0.1; do echo on; done").replace("name: live", "name: killed");
  const child = spawn(longhaul, ["run", write("killed.yaml", long), "--out", "killed", "-q"], { cwd: scratch, stdio: "ignore" });
  started.push(child);
  await new Promise((done) => setTimeout(done, 4000));
  child.kill("SIGKILL");
  await new Promise((done) => child.once("close", done));
  run(["report", "killed", "--html", "killed.html"]);
  const killed = await open(file("killed.html"));
  check((await killed.page.title()) === "killed: cut off", `the title of a killed run: ${await killed.page.title()}`);
  const said = await killed.page.textContent("body");
  check(said.includes("the run was cut off") && said.includes("there is no summary.json"), "what is missing is listed");
  check((await killed.page.locator(".graph canvas").count()) > 0, "the topology of a killed run is drawn");
  check(said.includes("work"), "its programs are shown");
  await quiet("killed", killed);
  await killed.close();
}

async function hostile() {
  cpSync(join(scratch, "virtual"), join(scratch, "hostile"), { recursive: true });
  for (const name of ["summary.json", "network.json"]) {
    const path = join(scratch, "hostile", name);
    const value = JSON.parse(readFileSync(path, "utf8"));
    const taint = (value) => {
      if (Array.isArray(value)) return value.map(taint);
      if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, ["state", "clock", "version", "kind"].includes(key) ? v : taint(v)]));
      return typeof value === "string" ? `${value}${HOSTILE}` : value;
    };
    writeFileSync(path, JSON.stringify(taint(value)));
  }
  run(["report", "hostile", "--html", "hostile.html"]);
  const opened = await open(file("hostile.html"));
  const { page } = opened;
  check((await page.title()).startsWith("virtual</script>"), `the title is text: ${await page.title()}`);
  check((await page.locator("img").count()) === 0 && (await page.locator("script").count()) === 2, "no element comes from a name");
  const text = await page.evaluate(() => document.body.innerText);
  check(!/[\u0000\u202e]/.test(text), "nothing hides or reorders text");
  check(text.includes("<img src=x"), "names are shown as they are");
  await quiet("hostile", opened);
  await opened.close();
}

async function large() {
  run(["run", write("large.yaml", LARGE), "--out", "large", "-q"]);
  const opened = await open(file("large/report.html"));
  const { page } = opened;
  const [nodes, links] = await page.evaluate(() => [longhaul.graph.cy.nodes().length, longhaul.graph.links.length]);
  check(nodes >= 1000 && links >= 500, `${nodes} nodes, ${links} links`);
  const drawn_ms = Number(await page.getAttribute("html", "data-graph-ms"));
  // Frames while the topology is dragged and zoomed.
  const frames = await page.evaluate(async () => {
    const { cy } = longhaul.graph;
    const next = () => new Promise(requestAnimationFrame);
    await next();
    const began = performance.now();
    const n = 60;
    for (let i = 0; i < n; i++) {
      if (i % 2) cy.panBy({ x: i % 4 ? 15 : -15, y: 5 });
      else cy.zoom({ level: cy.zoom() * (i % 4 ? 1.03 : 0.97), renderedPosition: { x: 300, y: 200 } });
      await next();
    }
    return (1000 * n) / (performance.now() - began);
  });
  console.log(`  ${nodes} nodes, ${2 * links} pipes: drawn in ${drawn_ms} ms, ${frames.toFixed(0)} frames a second while moving`);
  const place = await page.evaluate(() => {
    longhaul.graph.cy.fit(undefined, 30);
    return longhaul.graph.links.length - 1;
  });
  await page.evaluate((number) => longhaul.graph.show(number), place);
  check((await page.locator(".beside h3").count()) >= 1, "a link of many is shown");
  check((await page.locator("#pipes tbody tr").count()) === 50, "the table of pipes begins with 50");
  await page.locator("#pipes .table > .note button").focus();
  await page.keyboard.press("Enter");
  check(await page.evaluate(() => document.activeElement.closest("#pipes tbody tr")?.rowIndex === 51), "after more rows the keyboard is at the first of them");
  await quiet("large", opened);
  await opened.close();
}

async function compared() {
  for (const seed of [2, 3]) run(["run", "virtual.yaml", "--out", `again-${seed}`, "--set", `seed=${seed}`, "-q"]);
  run(["run", "virtual.yaml", "--out", "slower", "--set", "links.g-h.rate=8 Mbit/s", "-q"]);
  run(["compare", "virtual", "again-2", "again-3", "slower", "--html", "compared.html"], [1]);
  const opened = await open(file("compared.html"));
  const { page } = opened;
  const text = await page.textContent("body");
  check(/figures differ by more than the noise/.test(text) && text.includes("differs (noise"), "differences are held to noise");
  check((await page.locator(".badge").count()) === 4, "four verdicts");
  check((await page.locator("#time .u-over").count()) >= 1, "over time");
  await quiet("compared", opened);
  await opened.close();
  run(["compare", "virtual", "slower", "--html", "two.html"], [0, 1]);
  const two = await open(file("two.html"));
  check((await two.page.textContent("body")).includes("unknown: no repeats"), "without repeats noise is unknown");
  await quiet("two", two);
  await two.close();
}

async function served() {
  const server = spawn(longhaul, ["report", "virtual", "--serve"], { cwd: scratch });
  started.push(server);
  const url = await new Promise((done) => server.stdout.once("data", (text) => done(String(text).trim())));
  const opened = await open(url);
  const { page, said, asked } = opened;
  const chart = page.locator(".beside .u-over").first();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await drag(page, { x: box.x + box.width * 0.7, y: box.y + 40 }, { x: box.x + box.width * 0.75, y: box.y + 50 });
  await page.waitForFunction(() => document.querySelector(".beside .width")?.textContent?.includes("every row is shown"), null, { timeout: 5000 }).catch(() => check(false, "rows of full resolution come from the server"));
  const base = url.slice(0, url.lastIndexOf("/"));
  check(asked.length > 1 && asked.every((each) => each.startsWith(base)), `only its own server is asked: ${asked.join(" ")}`);
  check(said.length === 0, `served: nothing on the console: ${said.join("; ")}`);
  const wrong = await fetch(url.replace(/[0-9a-f]{32}/, "0".repeat(32)));
  check(wrong.status === 403, "a wrong token is refused");
  const foreign = await fetch(url, { headers: { Origin: "http://evil.example" } });
  check(foreign.status === 403, "a foreign origin is refused");
  server.kill();
  await opened.close();
}

try {
  browser = await playwright.chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });
  const wanted = process.argv.slice(2);
  for (const test of [virtual, live, hostile, large, compared, served]) {
    if (wanted.length && !wanted.includes(test.name) && test !== virtual) continue;
    console.log(test.name);
    await test();
  }
} finally {
  await browser?.close();
  for (const child of started) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
}
if (failures.length) {
  console.log(`${failures.length} failed`);
  process.exit(1);
}
console.log("all hold");
