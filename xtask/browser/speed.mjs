// Opens a report's page in a browser without network access; prints the milliseconds until it answers a click.
// Arguments: the folder with the packages, the page's file.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

const [packages, file] = process.argv.slice(2);
const executablePath = process.env.PATH.split(delimiter).map((folder) => join(folder, "chromium")).find((it) => existsSync(it));
const { chromium } = createRequire(join(resolve(packages), "package.json"))("playwright-core");
const flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args: flags });
const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
await page.goto(pathToFileURL(resolve(file)).href);
// The page's address shows the click once the script has read the data.
const answered = await page.evaluate(() => {
  document.querySelector("#shown input").click();
  return location.hash.startsWith("#off=") ? performance.now() : NaN;
});
await page.locator(".plot").first().scrollIntoViewIfNeeded();
await page.locator(".plot .main-svg").first().waitFor({ state: "attached", timeout: 60000 });
await browser.close();
console.log(answered);
