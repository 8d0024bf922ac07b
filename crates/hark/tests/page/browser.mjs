// Drives the page of a running `hark serve` with a real browser, and checks what a person would see and hear.
//
// Run through scripts/browser, which installs what this needs. Variables:
//   HARK_URL      the server, such as http://127.0.0.1:8000
//   HARK_EMPTY_URL  a server of a library called empty, which is; the check of its page is left out without it
//   HARK_QUERY    words that at least two recordings answer to
//   HARK_DROP     a recording to drop on the page
//   HARK_REPORT   a report.html of `hark reproduce`; the check of it is left out without it
//   HARK_TOKEN    the server's token, if it has one
//   HARK_SHOTS    a folder for screenshots; none are kept without it
//   CHROMIUM      the browser's program
//   HARK_MODULES  the folder whose node_modules has playwright-core and axe-core
// One line for each check; exit code 0 if all hold, 1 if not. Nothing waits for a fixed time: each check waits until the page is as
// it should be, and fails when that has not come true in WAIT milliseconds.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const given = (name) => {
  const value = process.env[name];
  if (!value) {
    console.error(`${name} is not set: browser.mjs says at its beginning what it needs`);
    process.exit(1);
  }
  return value;
};
const URL_ = given("HARK_URL").replace(/\/$/, "");
const EMPTY_URL = process.env.HARK_EMPTY_URL ?? "";
const QUERY = given("HARK_QUERY");
const DROP = given("HARK_DROP");
const REPORT = process.env.HARK_REPORT ?? "";
const TOKEN = process.env.HARK_TOKEN ?? "";
const SHOTS = process.env.HARK_SHOTS ?? "";
const WAIT = 60000;

const load = createRequire(path.join(given("HARK_MODULES"), "browser.cjs"));
const { chromium } = load("playwright-core");
const AXE = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath: given("CHROMIUM"),
  // Containers have no user namespaces and little shared memory; sound is played, and not heard.
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--mute-audio", "--autoplay-policy=no-user-gesture-required"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, colorScheme: "light" });
context.setDefaultTimeout(WAIT);
await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: URL_ });

// What must not happen, all the while: errors in the console, requests to other hosts, violations of the page's policy.
const complaints = [];
const foreign = [];
const audioAnswers = [];
let forgiven = null;
context.on("request", (request) => {
  const url = new URL(request.url());
  if (["http:", "https:", "ws:", "wss:"].includes(url.protocol) && ![URL_, EMPTY_URL].includes(url.origin)) foreign.push(request.url());
});
context.on("response", (response) => {
  if (/\/api\/files\/[^/]+\/audio/.test(response.url())) audioAnswers.push({ url: response.url(), status: response.status() });
});
const violations = [];
await context.exposeFunction("violated", (what) => violations.push(what));
await context.addInitScript(() => {
  document.addEventListener("securitypolicyviolation", (event) => window.violated(`${event.violatedDirective} ${event.blockedURI}`));
});
const page = await context.newPage();
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" && !forgiven?.test(message.text())) complaints.push(`${message.text()} (${message.location().url})`);
});

// ---------------------------------------------------------------- What the page shows

const rows = page.locator("article.hit");
const names = () => page.locator("article.hit .name").allTextContents();
const paths = () => page.locator("article.hit .name").evaluateAll((all) => all.map((one) => one.title));
const summary = () => page.locator("#summary").textContent();
const soundChip = page.locator("#chips .chip.sound");
const played = () => page.locator("#audio").evaluate((audio) => ({ at: audio.currentTime, paused: audio.paused, src: audio.getAttribute("src") }));
const activeIndex = () => rows.evaluateAll((all) => all.findIndex((one) => one.classList.contains("active")));
const api = (address) => page.evaluate(async (where) => (await fetch(where)).json(), address);

/** Waits until `test` gives true in the page; `what` says in the failure what did not come true. */
async function until(what, test, argument) {
  await page.waitForFunction(test, argument, { timeout: WAIT, polling: 50 }).catch(() => { throw new Error(`never came true: ${what}`); });
}

/** Does something that asks the server, and waits until its answer is shown. */
async function answered(act, matches = () => true) {
  const answer = page.waitForResponse((response) => {
    const url = new URL(response.url());
    return url.pathname === "/api/search" && response.status() === 200 && matches(url.searchParams);
  });
  await act();
  const got = await (await answer).json();
  await until("the answer is shown", (files) => {
    const shown = [...document.querySelectorAll("article.hit .name")].map((one) => one.title);
    return files.every((file, i) => shown[i] === file) && document.getElementById("hits").getAttribute("aria-busy") === "false";
  }, got.hits.map((hit) => hit.file.path));
  return got;
}

const type = (text) => answered(() => page.locator("#q").fill(text), (query) => (query.get("q") ?? "") === text);

/** Opens the page anew. The page before it is left first, so that an answer to it is not taken for one to this. */
async function begin(address = "/") {
  await page.goto("about:blank");
  return answered(() => page.goto(URL_ + address));
}

async function shot(name) {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
}

/** A file with these bytes is dropped on the page, as the system would. */
async function drop(name, bytes) {
  const transfer = await page.evaluateHandle(({ called, base64 }) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], called));
    return data;
  }, { called: name, base64: bytes.toString("base64") });
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent("main", event, { dataTransfer: transfer });
}

/** The faults that axe finds, as one line each. */
async function faults() {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const line = (fault, node) => `${fault.id}: ${node.target.join(" ")}: ${(node.failureSummary ?? "").replaceAll("\n", " ")}`;
  return found.violations.flatMap((fault) => fault.nodes.map((node) => line(fault, node).slice(0, 240)));
}

/** Rows of a CSV file as RFC 4180 has it. */
function csv(text) {
  const table = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    table.at(-1).push(quoted === undefined ? plain : quoted.replaceAll("\"\"", "\""));
    if (end !== ",") table.push([]);
  }
  return table.filter((row) => row.length > 1);
}

/** A spreadsheet must not run a cell: the server puts an apostrophe before those that look like formulas. */
const defused = (text) => (/^[=+\-@\t]/.test(text) ? `'${text}` : text);

// ---------------------------------------------------------------- Checks

const checks = [];
const check = (name, run) => checks.push({ name, run });

if (TOKEN) {
  check("asks for the token, refuses a wrong one, opens with the right one", async () => {
    forgiven = /401/;
    await page.goto(URL_);
    await page.locator("#login[open]").waitFor();
    await page.locator("#token").fill(`${TOKEN}x`);
    await page.locator("#login-form button").click();
    await until("a wrong token is refused", () => document.getElementById("login-wrong").textContent !== "");
    await answered(async () => {
      await page.locator("#token").fill(TOKEN);
      await page.locator("#login-form button").click();
    });
    assert.equal(await page.locator("#login[open]").count(), 0);
    forgiven = null;
  });
}

check("shows the library, examples and recordings before anything is typed", async () => {
  await begin();
  const library = await api("/api/library");
  const line = await page.locator("#library").textContent();
  assert.ok(line.includes(new Intl.NumberFormat("en").format(library.files)), `‘${line}’ tells how many recordings there are`);
  assert.ok(line.includes(library.model), `‘${line}’ names the model`);
  assert.ok(await rows.count() > 0, "recordings are shown");
  assert.ok(await page.locator("#examples button").count() > 0, "examples are shown");
});

check("answers as one types", async () => {
  await begin();
  const before = await names();
  const asked = [];
  const listen = (request) => { if (request.url().includes("/api/search")) asked.push(new URL(request.url()).searchParams.get("q")); };
  page.on("request", listen);
  await answered(() => page.locator("#q").pressSequentially(QUERY), (query) => query.get("q") === QUERY);
  assert.equal(asked.at(-1), QUERY, "the last question is what was typed");
  await type("");
  asked.length = 0;
  // Letters that come at once, by a fast typist or a slow machine, are one question.
  await answered(() => page.locator("#q").evaluate((box, text) => {
    for (let end = 1; end <= text.length; end += 1) {
      box.value = text.slice(0, end);
      box.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
  }, QUERY), (query) => query.get("q") === QUERY);
  page.off("request", listen);
  assert.deepEqual(asked, [QUERY], "typing is waited for");
  assert.ok(await rows.count() >= 2, "at least two hits");
  assert.notDeepEqual(await names(), before, "hits are others than before");
  assert.match(await summary(), new RegExp(`sounds? for “${QUERY.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}”`));
  assert.equal(new URL(page.url()).searchParams.get("q"), QUERY, "the address bar keeps the search");
  assert.ok((await rows.first().locator(".match .hidden").textContent()).includes("meaning"), "how it matched is told in words");
  await until("the result is announced", (words) => document.getElementById("said").textContent.includes(words), QUERY);
  await shot("light");
});

check("never shows an older answer after a newer one", async () => {
  await begin();
  // The first question is held back until the second has been answered.
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  const first = QUERY.slice(0, 1);
  await page.route((url) => url.pathname === "/api/search" && url.searchParams.get("q") === first, async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  const sent = page.waitForRequest((request) => new URL(request.url()).searchParams.get("q") === first);
  await page.locator("#q").fill(first);
  await sent;
  await type(QUERY);
  const after = await names();
  release();
  await page.unrouteAll({ behavior: "wait" });
  assert.deepEqual(await names(), after);
  assert.ok((await summary()).includes(QUERY));
});

check("a server that is busy is asked once more", async () => {
  await begin();
  let refused = 0;
  forgiven = /503/;
  await page.route((url) => url.pathname === "/api/search", (route) => {
    refused += 1;
    return refused === 1 ? route.fulfill({ status: 503, headers: { "retry-after": "0" }, json: { error: "busy" } }) : route.continue();
  });
  await type(QUERY);
  await page.unrouteAll({ behavior: "wait" });
  forgiven = null;
  assert.equal(refused, 2);
  assert.equal(await page.locator("#trouble").textContent(), "");
});

check("a minus excludes, and its chip takes that back", async () => {
  await begin();
  const got = await type(`${QUERY} -zzqq -"no such thing"`);
  assert.equal(got.query.q, QUERY);
  assert.deepEqual(got.query.not, ["zzqq", "no such thing"]);
  const chip = (text) => page.locator("#chips .chip", { hasText: text });
  await chip("without no such thing").waitFor();
  await answered(() => chip("without zzqq").locator("button").click(), (query) => query.get("q") === `${QUERY} -"no such thing"`);
  assert.equal(await page.locator("#q").inputValue(), `${QUERY} -"no such thing"`);
  await until("the chip is gone", () => !document.getElementById("chips").textContent.includes("zzqq"));
});

check("the last word is a prefix only while it is typed", async () => {
  await begin();
  const beginning = QUERY.slice(0, -1);
  const prefix = (query) => query.get("q") === beginning && query.get("prefix") === "true";
  const typed = await answered(() => page.locator("#q").fill(beginning), prefix);
  assert.ok(typed.hits.some((hit) => hit.words !== null), "the beginning of a word finds it");
  const entered = await answered(() => page.locator("#q").press("Enter"), (query) => query.get("q") === beginning && !query.has("prefix"));
  assert.ok(entered.hits.every((hit) => hit.words === null), "a complete word finds itself alone");
});

check("draws waveforms, sharp on the screen", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  await until("the first waveform is drawn", () => {
    const canvas = document.querySelector("article.hit canvas");
    if (!canvas?.width || Math.abs(canvas.width - canvas.clientWidth * devicePixelRatio) > 1) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, i) => i % 4 === 3 && value > 0);
  });
});

check("plays, with a request for a part of the file", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  audioAnswers.length = 0;
  const { hits: [hit] } = await api(`/api/search?q=${encodeURIComponent(QUERY)}&limit=1`);
  await rows.first().locator(".play").click();
  await until("playing moves on", (start) => {
    const audio = document.getElementById("audio");
    return audio.error === null && audio.currentTime > start + 0.2;
  }, hit.start ?? 0);
  assert.ok(audioAnswers.some((answer) => answer.status === 206), `answered 206: ${JSON.stringify(audioAnswers)}`);
  assert.match(await rows.first().locator(".play").getAttribute("aria-label"), /^Pause /);
  assert.ok(await page.locator("#player").isVisible());
  await shot("playing");
  await page.locator("#toggle").click();
  await until("it pauses", () => document.getElementById("audio").paused);
});

check("plays from where the waveform is clicked", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const { hits } = await api(`/api/search?q=${encodeURIComponent(QUERY)}&limit=2`);
  const wave = rows.nth(1).locator(".wave");
  const box = await wave.boundingBox();
  await page.evaluate(() => {
    window.begun = null;
    document.getElementById("audio").addEventListener("playing", (event) => { window.begun ??= event.target.currentTime; });
  });
  await wave.click({ position: { x: box.width * 0.6, y: box.height / 2 } });
  await until("it plays", () => window.begun !== null);
  const begun = await page.evaluate(() => window.begun);
  const expected = hits[1].file.seconds * 0.6;
  // A click falls on a pixel, and the browser may have played a little before it says that it plays.
  const slack = hits[1].file.seconds / box.width + 0.3;
  assert.ok(Math.abs(begun - expected) <= slack, `began at ${begun} s, clicked at ${expected} s`);
});

check("keys: walk, seek, pause, stop, search, help", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  await page.locator("#q").press("ArrowDown");
  assert.equal(await activeIndex(), 0);
  await page.keyboard.press("j");
  assert.equal(await activeIndex(), 1);
  assert.ok(await rows.nth(1).evaluate((row) => row === document.activeElement), "the focus goes with it");
  assert.equal(await page.locator("article.hit[tabindex='0']").count(), 1, "one hit is in the order of Tab");
  await page.keyboard.press("ArrowUp");
  assert.equal(await activeIndex(), 0);
  await page.keyboard.press("Enter");
  await until("Enter plays", () => !document.getElementById("audio").paused && document.getElementById("audio").currentTime > 0);
  await page.keyboard.press("Space");
  await until("Space pauses", () => document.getElementById("audio").paused);
  await page.locator("#audio").evaluate((audio) => { audio.currentTime = 0; });
  await page.keyboard.press("Shift+ArrowRight");
  const { at } = await played();
  assert.ok(at > 0 && at <= 1.01, `Shift and right: at ${at} s`);
  await page.keyboard.press("ArrowLeft");
  assert.equal((await played()).at, 0);
  await page.keyboard.press("Escape");
  assert.equal((await played()).src, null, "Escape stops");
  await page.keyboard.press("?");
  await page.locator("#help[open]").waitFor();
  await shot("help");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  assert.ok(await page.locator("#q").evaluate((box) => box === document.activeElement), "/ goes to the box");
  await answered(() => page.keyboard.press("Escape"), (query) => !query.has("q"));
  assert.equal(await page.locator("#q").inputValue(), "", "Escape clears");
});

check("plays as one walks, if asked to", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  await page.locator("#walk").check();
  await page.locator("#q").press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const second = (await names())[1];
  await until("the second hit plays", (name) => !document.getElementById("audio").paused && document.getElementById("now-name").textContent === name, second);
  await page.locator("#stop").click();
  await page.locator("#walk").uncheck();
});

check("more like this, taken back by its chip and by Back", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const before = await names();
  const like = () => answered(() => rows.first().locator("[data-do=like]").click(), (query) => query.has("like"));
  const got = await like();
  assert.ok((await soundChip.textContent()).includes(before[0]), "the chip names the sound");
  assert.ok(!got.hits.some((hit) => hit.file.id === got.query.like), "a sound is not like itself");
  assert.notDeepEqual(await names(), before, "hits are others than before");
  await answered(() => soundChip.locator("button").click(), (query) => query.get("q") === QUERY);
  assert.deepEqual(await names(), before, "without the chip all is as before");
  assert.equal(await soundChip.count(), 0);
  await like();
  await answered(() => page.goBack(), (query) => query.get("q") === QUERY);
  assert.deepEqual(await names(), before, "Back too");
});

check("more like this drops the filters, says so, and gives them back", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}&max_seconds=2&mode=words`);
  const before = await names();
  assert.ok(before.length > 0);
  const like = () => answered(() => rows.first().locator("[data-do=like]").click(), (query) => query.has("like"));
  const got = await like();
  const note = page.locator("#chips .dropped");
  assert.match(await note.textContent(), /Filters removed/);
  assert.match(await note.getAttribute("title"), /length up to 0:02/, "which ones is told");
  assert.ok(got.hits.some((hit) => hit.file.seconds > 2), "the whole library is searched");
  assert.ok(!new URL(page.url()).searchParams.has("max_seconds"));
  await page.reload();
  await note.waitFor();
  const narrow = await answered(() => note.locator("button").click(), (query) => query.has("like") && query.get("max_seconds") === "2");
  assert.ok(narrow.hits.every((hit) => hit.file.seconds <= 2));
  assert.equal(await note.count(), 0);
  await answered(() => page.goBack(), (query) => query.has("like") && !query.has("max_seconds"));
  await answered(() => soundChip.locator("button").click(), (query) => query.get("q") === QUERY && query.get("max_seconds") === "2");
  assert.deepEqual(await names(), before, "without the chip all is as before");
});

check("a dropped recording is searched by", async () => {
  await begin();
  const before = await names();
  await answered(() => drop(path.basename(DROP), readFileSync(DROP)));
  assert.ok((await soundChip.textContent()).includes(path.basename(DROP)), "the chip names the file");
  assert.ok(await rows.count() > 0);
  assert.notDeepEqual(await names(), before, "hits are others than before");
  await page.locator("#export summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#export-csv").click()]);
  const table = csv(readFileSync(await download.path(), "utf8"));
  assert.deepEqual(table.slice(1).map((row) => row[2]), (await paths()).map(defused), "what a dropped recording finds can be exported");
  await answered(() => soundChip.locator("button").click());
  assert.deepEqual(await names(), before);
});

/** The keys of the recordings that the browser keeps; `clear` removes them. */
const keptUploads = (clear = false) => page.evaluate((all) => new Promise((resolve, reject) => {
  const opening = indexedDB.open("hark", 1);
  opening.onerror = reject;
  opening.onsuccess = () => {
    const store = opening.result.transaction("uploads", "readwrite").objectStore("uploads");
    const keys = store.getAllKeys();
    if (all) store.clear();
    store.transaction.oncomplete = () => { opening.result.close(); resolve(keys.result); };
  };
}), clear);

check("a dropped recording survives a reload, and the page says when it cannot", async () => {
  await begin();
  for (let nth = 0; nth < 6; nth += 1) {
    const before = await keptUploads();
    await answered(() => drop(path.basename(DROP), readFileSync(DROP)));
    while ((await keptUploads()).at(-1) === before.at(-1)) await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  assert.equal((await keptUploads()).length, 4, "the newest are kept");
  const before = await names();
  await answered(() => page.reload());
  assert.ok((await soundChip.textContent()).includes(path.basename(DROP)), "the chip names the file");
  assert.deepEqual(await names(), before);
  await keptUploads(true);
  await page.reload();
  await until("it says so", () => /no longer in this browser. Drop it again/.test(document.getElementById("trouble").textContent));
  await rows.first().waitFor();
  assert.match(await page.locator("#trouble").textContent(), new RegExp(path.basename(DROP)), "the answer does not hide it");
  assert.equal(await soundChip.count(), 0);
});

check("files that could not be read are listed with the reasons", async () => {
  await begin();
  const { failures } = await api("/api/library");
  assert.ok(failures > 0, "the library has files that cannot be read");
  await page.locator("#unread", { hasText: `${failures} could not be read` }).click();
  await page.locator("#failures[open]").waitFor();
  const { files } = await api("/api/failures");
  assert.deepEqual(await page.locator("#failures-list dt").allTextContents(), files.map((file) => file.path));
  const reasons = await page.locator("#failures-list dd").allTextContents();
  assert.ok(reasons.length === failures && reasons.every((reason) => reason.length > 5), String(reasons));
  assert.deepEqual(await faults(), []);
  await shot("unread");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#failures[open]").count(), 0);
});

if (EMPTY_URL) {
  check("an empty library says how to fill it", async () => {
    await page.goto(EMPTY_URL);
    await page.locator("#nothing code", { hasText: /^hark index FOLDER --name empty$/ }).waitFor();
    assert.ok(await page.locator("#welcome").isHidden(), "no examples of what cannot be found");
    assert.deepEqual(await faults(), []);
    await shot("empty");
  });
}

check("a file that is no recording is refused in words", async () => {
  await begin();
  forgiven = /422|415/;
  await drop("notes.txt", Buffer.from("this is no recording\n".repeat(50)));
  await until("it says so", () => /cannot decode the recording/i.test(document.getElementById("trouble").textContent));
  assert.equal(await soundChip.count(), 0);
  forgiven = null;
});

check("filters narrow the hits, and chips take them back", async () => {
  await begin();
  const { hits } = await api("/api/search?limit=1000");
  const lengths = hits.map((hit) => hit.file.seconds).sort((a, b) => a - b);
  const limit = (lengths[0] + lengths.at(-1)) / 2;
  assert.ok(lengths[0] < lengths.at(-1), "the library has recordings of several lengths to tell apart");
  await page.locator("#panel").evaluate((panel) => { panel.open = true; });
  await type(QUERY);
  const all = await names();
  const got = await answered(() => page.locator("[name=max_seconds]").fill(String(limit)), (query) => query.has("max_seconds"));
  assert.ok(got.hits.every((hit) => hit.file.seconds <= limit));
  assert.ok(got.hits.length > 0);
  await page.locator("#chips .chip", { hasText: "length" }).waitFor();
  await shot("filters");
  await answered(() => page.locator("#chips .chip", { hasText: "length" }).locator("button").click(), (query) => !query.has("max_seconds"));
  assert.deepEqual(await names(), all);
  const [kind] = (await api("/api/library")).formats;
  const alike = await answered(() => page.locator("[name=audio_format]").selectOption(kind.value), (query) => query.has("audio_format"));
  assert.ok(alike.hits.length > 0 && alike.hits.every(({ file }) => [file.container, file.codec, file.codec.split(/[ _]/)[0]].includes(kind.value)));
  const single = await answered(() => page.locator("[name=channels]").selectOption({ index: 1 }), (query) => query.has("channels"));
  assert.equal(new Set(single.hits.map((hit) => hit.file.channels)).size, 1);
  await page.locator("#chips .chip", { hasText: kind.value }).waitFor();
  await answered(() => page.locator("#reset").click(), (query) => !query.has("audio_format") && !query.has("channels"));
  await answered(() => page.locator("#folder").fill("/no/such/folder").then(() => page.locator("#folder").press("Enter")), (query) => query.has("folder"));
  await until("it says that the folder is not there", () => /no recordings in \/no\/such\/folder/.test(document.getElementById("notes").textContent));
  await answered(() => page.locator("#reset").click(), (query) => !query.has("folder"));
  await until("and no longer", () => !/no recordings in/.test(document.getElementById("notes").textContent));
  const folder = await page.locator("#folders input").first().getAttribute("value");
  const inside = await answered(() => page.locator("#folders input").first().check(), (query) => query.has("folder"));
  assert.ok(inside.hits.length > 0 && inside.hits.every((hit) => hit.file.path.startsWith(`${folder.replace(/\/$/, "")}/`)), `all hits are in ${folder}`);
  await answered(() => page.locator("#reset").click(), (query) => !query.has("folder"));
  // Folders at any depth: found by name, and in the tree once the one above is open.
  const library = await api("/api/library");
  const root = library.roots[0];
  const deep = library.folders.map((one) => one.value).find((value) => value.slice(root.length).split("/").length > 2);
  assert.ok(deep, "the library has a folder in a folder");
  const box = page.locator(`#folders input[value="${deep}"]`);
  assert.equal(await box.count(), 0, "inner folders are closed at first");
  await page.locator(`#folders button.fold[value="${deep.slice(0, deep.lastIndexOf("/"))}"]`).click();
  assert.equal(await box.count(), 1, "and open by a click");
  await page.locator("#folder").fill(deep.slice(deep.lastIndexOf("/") + 1).toUpperCase());
  assert.equal(await box.count(), 1, "a folder is found by its name");
  await page.locator("#folder").fill("");
  if (await page.locator("#tags .tag").count()) {
    const tag = await page.locator("#tags .tag").first().textContent();
    const tagged = await answered(() => page.locator("#tags .tag").first().click(), (query) => query.has("tag"));
    assert.ok(tagged.hits.length > 0 && tagged.hits.every(({ file }) => file.tags.includes(tag) || file.heard.some(({ name }) => name === tag)), `all hits have the tag ${tag}`);
    assert.equal(await page.locator("#tags .tag").first().getAttribute("aria-pressed"), "true");
    await answered(() => page.locator("#reset").click(), (query) => !query.has("tag"));
  }
  const words = await answered(() => page.locator("[name=mode][value=words]").check({ force: true }), (query) => query.get("mode") === "words");
  assert.ok(words.hits.every((hit) => hit.meaning === null), "by words alone");
});

check("what is heard is a tag to filter by", async () => {
  const begun = await begin(`/?q=${encodeURIComponent(QUERY)}`);
  if (!begun.hits.some((hit) => hit.file.heard.length)) return;
  const chip = rows.locator(".tag.heard").first();
  const name = await chip.textContent();
  assert.match(await chip.getAttribute("title"), /^heard: .* [01]\.\d\d/, "its title says how strongly");
  const tagged = await answered(() => chip.click(), (query) => query.get("tag") === name);
  assert.ok(tagged.hits.length > 0 && tagged.hits.every(({ file }) => file.heard.some((one) => one.name === name)), `${name} is heard in all hits`);
  await answered(() => page.locator("#reset").click(), (query) => !query.has("tag"));
});

check("one hit a file, or all moments", async () => {
  const once = await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const files = once.hits.map((hit) => hit.file.id);
  assert.equal(new Set(files).size, files.length, "no file comes twice");
  await page.locator("#panel").evaluate((panel) => { panel.open = true; });
  const all = await answered(() => page.locator("[name=windows][value=all]").check({ force: true }), (query) => query.get("windows") === "all");
  const library = await api("/api/library");
  if (library.windows > library.files) {
    const counts = new Map();
    for (const hit of all.hits) counts.set(hit.file.id, (counts.get(hit.file.id) ?? 0) + 1);
    assert.ok(Math.max(...counts.values()) > 1, "a long recording comes more than once");
    const at = all.hits.findIndex((hit) => hit.start !== null);
    assert.match(await rows.nth(at).locator(".moment").textContent(), /\d:\d\d–\d/, "the moment's time is shown");
  }
});

check("copies the path", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const [first, second] = await paths();
  await rows.first().locator("[data-do=copy]").click();
  await page.locator("#toast", { hasText: "copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), first);
  await page.keyboard.press("j");
  await page.keyboard.press("c");
  await page.waitForFunction(async (file) => await navigator.clipboard.readText() === file, second);
});

check("exports what is shown, as CSV", async () => {
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  await page.locator("#export summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#export-csv").click()]);
  const table = csv(readFileSync(await download.path(), "utf8"));
  assert.deepEqual(table[0].slice(0, 5), ["rank", "score", "path", "start", "end"]);
  assert.deepEqual(table.slice(1).map((row) => row[2]), (await paths()).map(defused));
});

check("more hits come when the end of the list is near", async () => {
  const got = await begin();
  if (!got.more) {
    assert.ok(await page.locator("#more").isHidden(), "nothing more, nothing offered");
    return;
  }
  const before = await rows.count();
  await page.locator("#more").scrollIntoViewIfNeeded();
  await until("more hits are shown", (n) => document.querySelectorAll("article.hit").length > n, before);
  const all = await paths();
  assert.equal(new Set(all).size, all.length, "no file comes twice");
});

check("all that can be used has a name; nothing that axe finds", async () => {
  // With a chip, so that chips are looked at too.
  await begin(`/?q=${encodeURIComponent(QUERY)}&windows=all`);
  await page.locator("#panel").evaluate((panel) => { panel.open = true; });
  await rows.first().locator(".play").click();
  await page.locator("#player").waitFor();
  assert.deepEqual(await faults(), []);
  // The tree as a screen reader gets it.
  const session = await context.newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const used = new Set(["button", "link", "textbox", "searchbox", "checkbox", "radio", "slider", "combobox", "article", "DisclosureTriangle", "feed"]);
  const nameless = nodes.filter((node) => !node.ignored && used.has(node.role?.value) && !node.name?.value).map((node) => node.role.value);
  assert.deepEqual(nameless, []);
  assert.ok(nodes.filter((node) => node.role?.value === "article").length > 0, "hits are in the tree");
  for (const landmark of ["banner", "search", "complementary", "main"]) {
    assert.ok(nodes.some((node) => node.role?.value === landmark), `there is a landmark ‘${landmark}’`);
  }
  await page.locator("#stop").click();
  await page.locator("#open-help").click();
  assert.deepEqual(await faults(), []);
  await page.keyboard.press("Escape");
});

check("dark: by the system and by the toggle, which is remembered", async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  assert.notEqual(dark, light);
  assert.deepEqual(await faults(), []);
  await shot("dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.locator("#theme").click();
  assert.equal(await ground(), dark);
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  assert.equal(await ground(), dark, "it is remembered");
  await page.locator("#theme").click();
  assert.equal(await ground(), light);
});

check("fits a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await begin(`/?q=${encodeURIComponent(QUERY)}`);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0, "nothing is wider than the screen");
  const sizes = await rows.first().locator(":is(.play, .acts > *)").evaluateAll((all) => all.map((one) => {
    const { width, height } = one.getBoundingClientRect();
    return Math.min(width, height);
  }));
  assert.ok(sizes.length >= 4 && Math.min(...sizes) >= 40, `buttons are big enough for a thumb: ${sizes}`);
  await rows.first().locator(".play").click();
  await page.locator("#player").waitFor();
  assert.deepEqual(await faults(), []);
  await shot("phone");
  await page.locator("#stop").click();
  await page.setViewportSize({ width: 1280, height: 800 });
});

if (REPORT) {
  check("the report of a study fits the screen, and wide tables scroll in their own box", async () => {
    const width = () => page.evaluate(() => document.documentElement.scrollWidth);
    const boxes = () => page.locator(".scroll, .plot").evaluateAll((all) => all.map((box) => box.scrollWidth - box.clientWidth));
    await page.goto(`file://${REPORT}`);
    await page.locator("details").evaluateAll((all) => all.forEach((one) => { one.open = true; }));
    await shot("report");
    assert.equal(await width(), 1280);
    assert.deepEqual((await boxes()).filter((over) => over > 0), [], "nothing is cut at 1280 pixels");
    assert.ok((await page.locator("h1").textContent()).includes("x".repeat(200)), "not even a name without a blank");
    await page.setViewportSize({ width: 390, height: 844 });
    assert.equal(await width(), 390);
    assert.ok((await boxes()).some((over) => over > 0), "tables scroll");
    await page.setViewportSize({ width: 1280, height: 800 });
    assert.deepEqual(await faults(), []);
  });
}

check("no errors, no requests elsewhere, no violations of the policy", async () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(foreign, []);
  assert.deepEqual(violations, []);
  const policy = (await page.request.get(URL_)).headers()["content-security-policy"] ?? "";
  assert.ok(!/unsafe-inline|unsafe-eval/.test(policy) && /'self'/.test(policy), `the policy is strict: ‘${policy}’`);
});

let failed = 0;
for (const { name, run } of checks) {
  try {
    await run();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    forgiven = null;
    console.log(`FAIL  ${name}: ${String(error.message ?? error).replace(/\s+/g, " ").slice(0, 900)}`);
    await shot(`failed-${failed}`).catch(() => {});
    await page.unrouteAll({ behavior: "ignoreErrors" }).catch(() => {});
  }
}
await browser.close();
console.log(failed ? `${failed} of ${checks.length} checks failed` : `${checks.length} checks hold`);
process.exit(failed ? 1 : 0);
