// Checks a page in a browser that has no network. Prints each defect, or `all well`.
// Arguments: the folder with the packages, the page's file, its kind (`run`, `streams`, `overload`, `index` or `paper`), and optionally
// a folder for screenshots.
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

const [packages, file, kind, pictures] = process.argv.slice(2).map((it, at) => (at === 2 ? it : resolve(it)));
// For each kind of page: the figure to check, words of its tooltips, a word in the saved numbers, the fewest charts, and the most
// sheets of paper.
const { figure, words, numbers, fewest = 10, sheets } = {
  // Without percentiles: on a busy machine the page omits those that the client may have caused.
  // Its four workloads need a sheet more than the two of `compare`.
  run: { figure: "service-time", words: ["connections"], numbers: "\"trials\"", sheets: 3 },
  // Its panels do not fit on two sheets.
  streams: { figure: "service-time", words: ["connections"], numbers: "\"trials\"" },
  // Its lines have no marks.
  overload: { figure: "overload", words: [], numbers: "\"overload\"", fewest: 1, sheets: 2 },
  // The ends of the axes, as a quick run has them.
  paper: { figure: "6", words: ["p1 ", "p50 ", "p99 ", "connections"], numbers: "\"claims\"", fewest: 8 },
  index: { figure: "trend-p50", words: ["service time p50", "run"], numbers: "\"trends\"" },
}[kind];
const require = createRequire(join(packages, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const address = pathToFileURL(file).href;

const wrong = [];
const check = (holds, what) => {
  if (!holds) wrong.push(what);
};

const flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
// The command that `cargo xtask browser` requires, unless CHROMIUM names another browser.
const commands = process.env.PATH.split(delimiter).map((folder) => join(folder, "chromium"));
const executablePath = process.env.CHROMIUM || commands.find((command) => existsSync(command));
if (!executablePath) throw new Error("no `chromium` on PATH; install it, or name a browser in CHROMIUM");
// Longest wait. Only a defective page waits that long.
const TIMEOUT = 120000;
const browser = await chromium.launch({ executablePath, args: flags, timeout: TIMEOUT });

// Opens a page, and checks it for errors and for requests to other addresses.
async function open(view, hash = "") {
  const context = await browser.newContext({ offline: true, acceptDownloads: true, ...view });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const name = `${view.colorScheme} ${view.viewport.width}`;
  page.on("console", (message) => check(!["error", "warning"].includes(message.type()), `${name}: console: ${message.text()}`));
  page.on("pageerror", (error) => check(false, `${name}: ${error.message}`));
  await context.route("**/*", (route) => {
    const url = route.request().url();
    const isAllowed = url.split("#")[0] === address || url.startsWith("data:") || url.startsWith("blob:");
    check(isAllowed, `${name}: the page requested ${url}`);
    return isAllowed ? route.continue() : route.abort();
  });
  await page.goto(address + hash);
  return page;
}

// Waits until the page has drawn all charts. The page may notice a change of the screen only before the next frame.
async function drawAll(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.waitForFunction(() => [...document.querySelectorAll(".plot")].every((plot) => plot.dataset.drawn !== undefined));
}

// Returns each chart's description, its number of traces with points or a line, and the names of all its traces.
const drawn = (page) => page.$$eval(".plot", (plots) => plots.map((plot) => {
  const shown = [...plot.querySelectorAll(".scatterlayer .trace")];
  const hasMarks = (trace) => trace.querySelector(".points path, .lines path") !== null;
  const names = (plot.data || []).map((trace) => trace.meta);
  return { label: plot.getAttribute("aria-label"), traces: shown.filter(hasMarks).length, names };
}));

async function fits(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check(wide <= 0, `${name}: the page is ${wide} pixels wider than the screen`);
}

const light = { colorScheme: "light", viewport: { width: 1280, height: 900 } };
const page = await open(light);
const ready = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domComplete);
console.log(`interactive after ${Math.round(ready)} ms`);
check((await page.locator("h1").innerText()).length > 10, "the heading states no result");

// A picture of the screen has all charts on it. Nothing waits here: the page draws them before it has loaded.
const late = await page.$$eval(".plot", (plots) => plots.filter((plot) => {
  const { top, bottom } = plot.getBoundingClientRect();
  return bottom > 0 && top < innerHeight && !plot.querySelector(".main-svg");
}).length);
check(late === 0, `${late} charts on the first screen are drawn late`);

await drawAll(page);
const charts = await drawn(page);
check(charts.length >= fewest, `only ${charts.length} charts`);
charts.forEach(({ label, traces }) => {
  check(traces > 0, `nothing is drawn: ${label}`);
  check(label.length > 10, `a chart has no description: ${label}`);
});
console.log(`${charts.length} charts, ${charts.reduce((sum, it) => sum + it.traces, 0)} traces`);

// A mark under the pointer shows its values.
if (words.length > 0) {
  const plot = page.locator(`#figure-${figure} .plot`).first();
  await plot.scrollIntoViewIfNeeded();
  const mark = plot.locator(".scatterlayer .points path").first();
  const box = await mark.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const hover = plot.locator(".hoverlayer .hovertext");
  await hover.first().waitFor({ timeout: TIMEOUT }).catch(() => {});
  const shown = (await hover.allInnerTexts().catch(() => [])).join(" ") || (await hover.allTextContents()).join(" ");
  for (const word of words) check(shown.includes(word), `the tooltip lacks ${word}: "${shown}"`);
}

// The keyboard reaches the switches, past the link that skips to the result, and turns one off in every chart.
await page.evaluate(() => { scrollTo(0, 0); document.activeElement.blur(); });
await page.keyboard.press("Tab");
check(await page.evaluate(() => document.activeElement.className === "skip"), "the first stop is not the link to the result");
let stops = 0;
while (stops < 60 && !(await page.evaluate(() => document.activeElement.matches("#shown input")))) {
  await page.keyboard.press("Tab");
  stops += 1;
}
check(stops < 60, "the keyboard does not reach the switches");
await page.keyboard.press("Space");
const first = page.locator("#shown input").first();
check(!(await first.isChecked()), "the space bar does not turn a switch off");
const name = (await page.locator("#shown label").first().innerText()).trim();
check((await page.evaluate(() => decodeURIComponent(location.hash))) === `#off=${name}`, `the address does not record that ${name} is off`);
await drawAll(page);
const without = await drawn(page);
const has = charts.filter((chart) => chart.names.includes(name));
check(has.length > charts.length / 2, `${name} is in ${has.length} of ${charts.length} charts`);
without.forEach(({ label, traces, names }, at) => {
  // A chart without this trace does not change.
  check(traces < charts[at].traces || !names.includes(name), `${name} is still drawn: ${label}`);
});
await first.check();
await drawAll(page);
const again = await drawn(page);
again.forEach(({ label, traces }, at) => check(traces === charts[at].traces, `${name} is not drawn again: ${label}`));

// The keyboard sorts the trials, and the filter hides those that do not match.
if (await page.locator(".filter").count()) {
  const rows = page.locator("#trials tbody tr");
  const numbers = () => rows.locator("th").allInnerTexts();
  const before = await numbers();
  const heading = page.locator("#trials thead button").first();
  await heading.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  check((await numbers()).join() === [...before].reverse().join(), "the second press of a heading does not reverse the trials");
  check((await page.locator("#trials [aria-sort=descending]").count()) === 1, "a sorted column has no aria-sort");
  await page.locator(".filter input").fill("no trial has these words");
  check((await page.locator("#trials tbody tr:visible").count()) === 0, "the filter hides no trial");
  check((await page.locator(".filter output").innerText()) === `0 of ${before.length} trials`, "the filter counts wrongly");
  await page.locator(".filter input").fill("");
  check((await page.locator("#trials tbody tr:visible").count()) === before.length, "an empty filter hides trials");
}

// The links of an index lead to existing files.
for (const link of await page.$$eval("#runs a", (links) => links.map((it) => it.href))) {
  check(existsSync(fileURLToPath(link)), `${link} does not exist`);
}

// The numbers can be saved as files.
for (const [format, has] of [["csv", kind === "paper" ? ",paper," : "p50"], ["json", numbers]]) {
  const saved = page.waitForEvent("download", { timeout: TIMEOUT });
  await page.locator(`[data-save=${format}]`).click();
  const download = await saved;
  check(download.suggestedFilename().endsWith(`.${format}`), `${format} is saved as ${download.suggestedFilename()}`);
  check(readFileSync(await download.path(), "utf8").includes(has), `the saved ${format} has no ${has}`);
}

// Open an address that turns a switch off, and turn it on again.
const view = await open(light, `#off=${encodeURIComponent(name)}`);
const shared = view.locator("#shown input").first();
check(!(await shared.isChecked()), "the page ignores the switch in its address");
await shared.check();

// The printed page has every chart, even those that the screen has not shown.
await view.emulateMedia({ media: "print" });
const isPrinted = () => [...document.querySelectorAll(".plot")].every((plot) => {
  const drawing = plot.querySelector(".main-svg");
  return drawing && drawing.getBoundingClientRect().width <= 345;
});
await view.waitForFunction(isPrinted).catch(() => check(false, "a chart is not drawn for paper, where two fit side by side on A4"));
(await drawn(view)).forEach(({ label, traces }, at) => check(traces === charts[at].traces, `a chart is not printed in full: ${label}`));
const pdf = (await view.pdf({ format: "A4", path: pictures && join(pictures, `${kind}.pdf`) })).toString("latin1");
const printed = pdf.match(/\/Type *\/Page\b/g).length;
console.log(`${printed} sheets of paper`);
check(!sheets || printed <= sheets, `the page prints to ${printed} sheets of paper`);
await view.emulateMedia({ media: "screen" });

// The page fits each screen, shows every verdict and is accessible, in both colour schemes. By default each width has one scheme.
// All pages share their style, so by default only the page of a run has the third width.
const views = [1280, 390, 1920].flatMap((width) => ["light", "dark"].map((colorScheme) => ({ width, colorScheme })));
const few = [views[0], views[3], views[4]].slice(0, kind === "run" ? 3 : 2);
await view.evaluate(axe);
for (const { width, colorScheme } of pictures || process.env.MUXBENCH_EVERY ? views : few) {
  await view.setViewportSize({ width, height: width < 400 ? 844 : 900 });
  const name = `${colorScheme} ${width}`;
  await view.emulateMedia({ colorScheme });
  await drawAll(view);
  await fits(view, name);
  const cut = await view.$$eval(".ranking[open] td:nth-child(2)", (cells) => cells.filter((cell) => cell.getBoundingClientRect().right > innerWidth).length);
  check(cut === 0, `${name}: ${cut} verdicts are cut off`);
  if (pictures) await view.screenshot({ path: join(pictures, `${kind}-${name.replace(" ", "-")}.png`), fullPage: true });
  const { violations, passes } = await view.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  violations.forEach((it) => check(false, `${name}: ${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`));
  check(passes.length > 10, `${name}: only ${passes.length} accessibility rules passed`);
}

await browser.close();
wrong.forEach((what) => console.log(`WRONG ${what}`));
console.log(wrong.length ? `${wrong.length} wrong` : "all well");
process.exit(wrong.length ? 1 : 0);
