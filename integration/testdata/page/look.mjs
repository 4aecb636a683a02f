// Looks at the admin port's page in a browser, and prints what it finds as JSON, a line for each step. After each line it
// waits for a line of its input. Arguments: the address of the admin port, the browser, and a folder for screenshots.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [address, executablePath, folder] = process.argv.slice(2);
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const complaints = []; // of the page: errors, and requests to elsewhere

async function open(options) {
  const page = await browser.newPage(options);
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
  page.on("request", (r) => { if (!r.url().startsWith(address) && !r.url().startsWith("data:")) complaints.push("asks " + r.url()); });
  return page;
}

async function say(step, value) {
  console.log(JSON.stringify({ step, value, complaints }));
  const { value: word, done } = await input.next();
  if (done) process.exit(0);
  return word;
}

// again says what there is until it is told to go on: pages change by themselves.
async function again(step, see) {
  while (await say(step, await see()) !== "next") await page.waitForTimeout(100);
}

const rows = (page, name) => page.getByRole("region", { name }).locator("tbody tr").evaluateAll((all) => all.map((r) => [...r.cells].map((c) => c.innerText.trim())));

const page = await open({ colorScheme: "light", viewport: { width: 1280, height: 900 } });
await page.goto(address, { waitUntil: "load" }); // the front page leads to the page for browsers
await page.locator("#verdict").waitFor();
await say("path", new URL(page.url()).pathname);

// The verdict and the problems change by themselves.
await again("overview", async () => ({ verdict: await page.locator("#verdict").innerText(), problems: await page.locator(".problem").allInnerTexts() }));
await page.screenshot({ path: folder + "/page-light.png", fullPage: true });

const link = page.locator(".problem a").first();
const node = await link.innerText();
await link.focus();
await page.keyboard.press("Enter"); // the keyboard is enough
await page.getByRole("heading", { name: node, level: 2 }).waitFor();
await say("client", { node, states: await page.locator("main .state").allInnerTexts(), text: await page.locator("main").innerText() });

await page.getByRole("link", { name: "Rejections" }).click();
await page.getByRole("heading", { name: "Rejections" }).waitFor();
await say("rejections", await rows(page, "Rejected now"));

await page.getByRole("link", { name: "Clients" }).click();
await page.getByRole("heading", { name: "Clients", exact: true }).waitFor();
await again("clients", () => rows(page, "Streams and polls"));

await page.getByRole("link", { name: "Upstreams" }).click();
await page.getByRole("heading", { name: "Upstreams" }).waitFor();
await say("upstreams", await page.locator("main").innerText());

await page.getByRole("link", { name: "Resources" }).click();
await page.getByLabel("Type").waitFor();
await page.getByLabel("Type").selectOption({ index: 1 });
await page.getByRole("button", { name: "Show" }).click();
await again("resources", () => rows(page, "Cached resources"));

await page.locator("main").focus();
await page.keyboard.press("/"); // leads to the search, and the keyboard is enough
await page.keyboard.type("O");
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Search: O" }).waitFor();
await again("search", async () => ({ clients: await rows(page, "Clients found"), resources: await rows(page, "Resources found") }));

await page.getByRole("link", { name: "Changes" }).click();
await page.getByRole("heading", { name: "Changes" }).waitFor();
await again("changes", () => rows(page, "What changed"));
await page.locator("tbody a").first().click();
await page.getByRole("region", { name: "Difference of" }).first().waitFor();
await say("difference", await page.getByRole("region", { name: "Difference of" }).first().locator("del, ins").allInnerTexts());

for (const [name, options] of [["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }], ["narrow", { viewport: { width: 390, height: 844 } }]]) {
  const other = await open(options);
  await other.goto(address + "/ui/");
  await other.locator("#verdict").waitFor();
  const wide = await other.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  if (wide) complaints.push(name + ": the page is wider than the window");
  await other.screenshot({ path: `${folder}/page-${name}.png`, fullPage: true });
  for (const [part, heading] of Object.entries({ clients: "Clients", rejections: "Rejections", changes: "Changes", resources: "Resources", upstreams: "Upstreams", "search?search=o": "Search: o" })) {
    await other.goto(address + "/ui/#/" + part);
    await other.getByRole("heading", { name: heading, exact: true }).waitFor();
    if (await other.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)) complaints.push(`${name}: ${part} is wider than the window`);
    await other.screenshot({ path: `${folder}/page-${part.split("?")[0]}-${name}.png`, fullPage: true });
  }
}
await say("done", null);
await browser.close();
process.exit(0);
