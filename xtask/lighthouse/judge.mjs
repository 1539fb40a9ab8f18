// Judges pages by Lighthouse in a browser that reaches only this process. Prints for each page its scores for accessibility and best
// practices, and the failed audits.
// Arguments: the folder with the packages, the folder of the pages, the lowest score, and the pages' paths in that folder.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { delimiter, extname, join, normalize, resolve } from "node:path";
import { tmpdir } from "node:os";
import { pathToFileURL } from "node:url";

const [packages, folder, least, ...pages] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { default: lighthouse, desktopConfig } = await load("lighthouse");
const { launch } = await load("chrome-launcher");

const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2" };
const server = createServer((request, response) => {
  const path = join(folder, normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname)));
  if (!existsSync(path) || !extname(path)) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(path)] || "application/octet-stream" }).end(readFileSync(path));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

const chromePath = process.env.CHROMIUM || process.env.PATH.split(delimiter).map((it) => join(it, "chromium")).find((it) => existsSync(it));
const userDataDir = mkdtempSync(join(tmpdir(), "lighthouse-"));
const chrome = await launch({
  chromePath, userDataDir, logLevel: "silent",
  chromeFlags: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ],
});
let failed = 0;
for (const page of pages) {
  for (const [device, config] of [["desktop", desktopConfig], ["mobile", undefined]]) {
    const url = `http://127.0.0.1:${server.address().port}/${page.split("/").map(encodeURIComponent).join("/")}`;
    const options = { port: chrome.port, logLevel: "silent", onlyCategories: ["accessibility", "best-practices"] };
    const { lhr } = await lighthouse(url, options, config);
    const scores = Object.values(lhr.categories).map((it) => [it.title, Math.round(100 * it.score)]);
    const isLow = lhr.runtimeError || scores.some(([, score]) => !(score >= Number(least)));
    failed += isLow ? 1 : 0;
    console.log(`${isLow ? "LOW " : ""}${page} (${device}): ${scores.map(([title, score]) => `${title} ${score}`).join(", ")}${lhr.runtimeError ? ` ${lhr.runtimeError.message}` : ""}`);
    for (const audit of Object.values(lhr.audits).filter((it) => it.score !== null && it.score < 1 && it.scoreDisplayMode === "binary")) {
      const places = (audit.details?.items || []).slice(0, 3).map((it) => it.node?.snippet || it.description || it.url || "");
      console.log(`  ${audit.id}: ${audit.title}: ${places.join(" | ").slice(0, 400)}`);
    }
  }
}
await chrome.kill();
server.close();
rmSync(userDataDir, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
