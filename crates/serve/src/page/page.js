// The page of `hark serve`: search, results, playback.
//
// In: the box, the filters, the address bar, dropped recordings. Out: requests to the API that /openapi.json describes, and rows.
// `search` is the current question; the box, the panel, the chips and the address are views of it. `list` is what is shown, `sound`
// what is playing. The server reads the text (`-word` excludes); the page shows how it was read. Text from files reaches the page
// through `textContent` and attributes alone, never as markup. Order of this file: words and numbers, requests, search, hits,
// waveforms, playing, filters, keys, start.

const $ = (id) => document.getElementById(id);
const PAGE = 50;
const UPLOAD_PAGE = 200;
const TYPING_MS = 120;
const UPLOAD_TYPING_MS = 600;
const SPINNER_MS = 200;
const EXAMPLES = ["rain on a tin roof", "footsteps on gravel", "a door creaks and slams", "distant thunder", "crowd in a hall -speech"];
const number = new Intl.NumberFormat("en");

// What the browser remembers between visits. It may be refused (private windows), and then nothing is remembered.
const remembered = {
  get(name) {
    try { return localStorage.getItem(`hark.${name}`); } catch { return null; }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`hark.${name}`);
      else localStorage.setItem(`hark.${name}`, value);
    } catch { /* nothing is remembered */ }
  },
};

// ---------------------------------------------------------------- Words and numbers

/** Seconds as `0:05`, `12:30`, `1:02:03`; recordings under ten seconds get a tenth. */
function clock(seconds, tenths = false) {
  if (!Number.isFinite(seconds)) return "–:––";
  const whole = tenths ? Math.floor(seconds * 10) / 10 : Math.round(seconds);
  const h = Math.floor(whole / 3600);
  const m = Math.floor((whole % 3600) / 60);
  const s = tenths ? (whole % 60).toFixed(1).padStart(4, "0") : String(whole % 60).padStart(2, "0");
  return h ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

/** `90`, `1:30` or `1:02:03` as seconds; null for an empty text, NaN for one that is no time. */
function seconds(text) {
  const parts = text.trim().replace(",", ".").split(":");
  if (parts.length === 1 && !parts[0]) return null;
  if (parts.length > 3 || parts.some((part) => !/^\d+(\.\d+)?$/.test(part))) return NaN;
  return parts.reduce((sum, part) => sum * 60 + Number(part), 0);
}

const kilohertz = (rate) => `${rate / 1000} kHz`;
const channelName = (n) => ({ 1: "mono", 2: "stereo" })[n] ?? `${n} ch`;
const counted = (n, one, many) => `${number.format(n)} ${n === 1 ? one : many}`;

function hours(total) {
  if (total >= 36000) return `${number.format(Math.round(total / 3600))} hours`;
  if (total >= 3600) return `${(total / 3600).toFixed(1)} hours`;
  return counted(Math.round(total / 60), "minute", "minutes");
}

function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  const power = Math.min(units.length - 1, n > 0 ? Math.floor(Math.log2(n) / 10) : 0);
  return `${number.format(Math.round((n / 1024 ** power) * 10) / 10)} ${units[power]}`;
}

/** A folder without the library's root, and of long ones the last three parts. */
function shortFolder(folder) {
  const root = library.roots.find((r) => folder === r || folder.startsWith(r.endsWith("/") ? r : `${r}/`));
  const inner = root === undefined ? folder : folder.slice(root.length);
  const parts = inner.split("/").filter(Boolean);
  if (!parts.length) return folder.split("/").filter(Boolean).pop() ?? folder;
  return parts.length > 3 ? `…/${parts.slice(-3).join("/")}` : parts.join("/");
}

/** Text that the server reads as these words and exclusions. */
const typed = (q, not) => [q, ...not.map((term) => (/\s/.test(term) ? `-"${term}"` : `-${term}`))].filter(Boolean).join(" ");

/** Makes an element; children that are strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// Spoken for those who do not see the page, when typing has paused.
let saying = 0;
function say(text) {
  clearTimeout(saying);
  saying = setTimeout(() => { $("said").textContent = text; }, 500);
}

let toasting = 0;
function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  say(text);
  clearTimeout(toasting);
  toasting = setTimeout(() => { $("toast").hidden = true; }, 2500);
}

// ---------------------------------------------------------------- Requests

/** What went wrong, as a sentence for a person, and the status it came with (0: no answer). */
class Trouble extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

const aborted = () => new DOMException("a newer search has begun", "AbortError");

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(aborted()); }, { once: true });
  });
}

/** The server's own sentence, or one for the status. */
function sentence(status, body) {
  let told = "";
  try { told = JSON.parse(body).error ?? ""; } catch { /* an answer that is not the API's */ }
  if (status === 413) return `The recording is too large: the limit is ${bytes(library.limits.upload_bytes)}.`;
  if (status === 503) return "The server is busy. Try again in a moment.";
  return told ? told.charAt(0).toUpperCase() + told.slice(1) : `The server responded with status ${status}.`;
}

// Sends once; an XMLHttpRequest where a recording is sent, since only that tells how far the sending is.
async function send(path, { signal, body = null, progress } = {}) {
  const silent = "No response from the server. Is hark serve still running?";
  if (!body) {
    const response = await fetch(path, { signal, headers: { accept: "application/json" } }).catch((error) => {
      throw error.name === "AbortError" ? error : new Trouble(silent);
    });
    return { status: response.status, text: await response.text(), retry: response.headers.get("retry-after") };
  }
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("accept", "application/json");
    request.upload.onprogress = (event) => progress?.(event.lengthComputable ? event.loaded / event.total : null);
    request.upload.onload = () => progress?.(null);
    request.onload = () => resolve({ status: request.status, text: request.responseText, retry: request.getResponseHeader("retry-after") });
    request.onerror = () => reject(new Trouble("Upload failed: the server closed the connection."));
    request.onabort = () => reject(aborted());
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body);
  });
}

/** Asks the API; a server that is busy is asked once more, when it says. */
async function api(path, options = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const { status, text, retry } = await send(path, options);
    if (status === 503 && attempt === 0) {
      await pause(Math.min(5, Math.max(0.2, Number(retry) || 1)) * 1000, options.signal);
      continue;
    }
    if (status < 200 || status > 299) throw new Trouble(sentence(status, text), status);
    try { return JSON.parse(text); } catch { throw new Trouble("The server sent an invalid response.", status); }
  }
}

/** Shows what went wrong, with a way on; nothing for searches that a newer one has overtaken. */
function trouble(error, again = null) {
  if (error?.name === "AbortError") return;
  if (error?.status === 401) {
    askForToken();
    return;
  }
  const children = [make("span", {}, error.message)];
  if (again) {
    const button = make("button", { class: "line", type: "button" }, "Try again");
    button.addEventListener("click", again);
    children.push(button);
  }
  $("trouble").replaceChildren(...children);
}

function askForToken() {
  $("login-wrong").textContent = "";
  $("login").returnValue = "";
  if (!$("login").open) $("login").showModal();
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = $("token").value;
  try {
    const response = await fetch("/api/login", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }),
    });
    if (!response.ok) throw new Trouble(response.status === 401 ? "Wrong token." : sentence(response.status, await response.text()));
    $("token").value = "";
    $("login").close("in");
    start();
  } catch (error) {
    $("login-wrong").textContent = error instanceof Trouble ? error.message : "No response from the server.";
    $("token").select();
  }
});

$("login").addEventListener("close", () => {
  if ($("login").returnValue !== "in") trouble(new Trouble("This library requires a token."), askForToken);
});

// ---------------------------------------------------------------- Search

let library = {
  known: false, files: 0, seconds: 0, failures: 0, roots: [], folders: [], tags: [], rates: [], formats: [], channels: [],
  limits: { results: 1000, upload_bytes: 64 * 2 ** 20, query_bytes: 1000 },
};

const SINGLE = ["min_seconds", "max_seconds", "min_rate", "max_rate", "audio_format", "channels", "after", "before"];
const NO_FILTERS = { mode: "fused", windows: "one", folders: [], tags: [], ...Object.fromEntries(SINGLE.map((name) => [name, ""])) };

/**
 * Nothing asked. `earlier` is the text that was in the box before a sound replaced it, `dropped` the filters that were set then;
 * `typing`: the last word may be incomplete; `read`: the text as the server read it for the last answer, words and exclusions.
 */
const blank = () => ({
  ...NO_FILTERS, text: "", typing: false, read: { q: "", not: [] }, earlier: "", dropped: null, like: null, upload: null,
});

let search = blank();
// Recordings that were dropped, by the key that the history keeps. `kept` has them for when the page is loaded again.
const uploads = new Map();

/** Whether anything is searched for, rather than looked through. */
const asks = (what) => what.text.trim() !== "" || what.like !== null || what.upload !== null;

/** The parameters that the API and the address bar share. */
function filterParameters(what, into) {
  if (what.like) {
    into.set("like", what.like.id);
    if (what.like.start !== null) into.set("start", what.like.start);
  }
  if (what.mode !== "fused") into.set("mode", what.mode);
  if (what.windows !== "one") into.set("windows", what.windows);
  for (const folder of what.folders) into.append("folder", folder);
  for (const tag of what.tags) into.append("tag", tag);
  for (const name of SINGLE) if (what[name] !== "") into.set(name, what[name]);
  return into;
}

function parameters(what) {
  const into = new URLSearchParams();
  if (what.text.trim()) into.set("q", what.text);
  if (what.typing) into.set("prefix", "true");
  return filterParameters(what, into);
}

function address(what) {
  const into = new URLSearchParams();
  if (what.text.trim()) into.set("q", what.text.trim());
  const text = filterParameters(what, into).toString();
  return text ? `/?${text}` : "/";
}

/** What the address bar and the history ask for. */
function fromAddress() {
  const from = new URLSearchParams(location.search);
  const what = blank();
  what.text = from.get("q") ?? "";
  const start = from.get("start");
  if (/^\d+$/.test(from.get("like") ?? "")) {
    what.like = { id: from.get("like"), start: start !== null && Number.isFinite(Number(start)) ? Number(start) : null, name: history.state?.name ?? "" };
  }
  what.upload = uploads.get(history.state?.upload) ?? null;
  what.earlier = history.state?.earlier ?? "";
  what.dropped = history.state?.dropped ?? null;
  if (["meaning", "words"].includes(from.get("mode"))) what.mode = from.get("mode");
  if (from.get("windows") === "all") what.windows = "all";
  what.folders = from.getAll("folder");
  what.tags = from.getAll("tag");
  for (const name of SINGLE) what[name] = from.get(name) ?? "";
  return what;
}

/** Writes the search into the address bar: as a step that Back undoes, or in place of the last. */
function keep(push = false) {
  const { upload, like, earlier, dropped } = search;
  const state = { upload: upload?.id ?? null, earlier, dropped, name: upload?.name ?? like?.name ?? "" };
  history[push ? "pushState" : "replaceState"](state, "", address(search));
  const text = search.text.trim();
  document.title = text ? `${text} – hark` : search.like ? `like ${search.like.name} – hark` : "hark";
}

/** Changes what is asked, and asks. */
function change(what, { push = false, wait = 0, box = true } = {}) {
  search = { ...search, typing: "text" in what ? false : search.typing, ...what };
  if (!search.text.trim()) search.read = blank().read;
  if (box) $("q").value = search.text;
  keep(push);
  showSearch();
  ask(wait);
}

let ticket = 0;
let asking = null;
let debounce = 0;

/** Asks the server what `search` says, after `wait` milliseconds without another change. Whatever was asked before is dropped. */
function ask(wait = 0, forgive = true) {
  clearTimeout(debounce);
  ticket += 1;
  asking?.abort();
  asking = null;
  if (wait) debounce = setTimeout(answer, wait, forgive);
  else answer(forgive);
}

// `forgive`: whether an answer takes away what is said of an earlier failure.
async function answer(forgive) {
  const mine = ticket;
  const what = { ...search };
  asking = new AbortController();
  const spinner = setTimeout(busy, SPINNER_MS, true);
  try {
    const got = await request(what, 0, asking.signal);
    if (mine !== ticket) return;
    if (forgive) $("trouble").replaceChildren();
    what.read = search.read = got.query;
    showSearch();
    scrollTo(0, 0);
    show(what, got);
    showNotes(got.notes ?? []);
  } catch (error) {
    if (mine === ticket) refused(error, what);
  } finally {
    clearTimeout(spinner);
    if (mine === ticket) {
      asking = null;
      busy(false);
      progressOf(what.upload, 1);
    }
  }
}

// A search that failed. A recording that the server will not take is no longer searched by.
function refused(error, what) {
  if (what.upload && [413, 415, 422].includes(error.status)) {
    search = { ...search, upload: null, text: search.text || search.earlier };
    $("q").value = search.text;
    keep();
    showSearch();
    trouble(error);
    ask(1, false);
  } else if (what.like && error.status === 404) {
    trouble(new Trouble("This recording is no longer in the library.", 404));
  } else {
    trouble(error, error.status === 400 ? null : () => ask());
  }
}

function request(what, skip, signal) {
  const query = parameters(what);
  const limits = library.limits;
  if (new TextEncoder().encode(query.get("q") ?? "").length > limits.query_bytes) {
    return Promise.reject(new Trouble(`The query is too long: the limit is ${number.format(limits.query_bytes)} bytes.`, 400));
  }
  query.set("limit", Math.min(what.upload ? UPLOAD_PAGE : PAGE, limits.results));
  if (skip) query.set("skip", skip);
  if (!what.upload) return api(`/api/search?${query}`, { signal });
  if (what.upload.file.size > limits.upload_bytes) return Promise.reject(new Trouble(sentence(413, ""), 413));
  return api(`/api/search?${query}`, { signal, body: what.upload.file, progress: (share) => progressOf(what.upload, share) });
}

function busy(yes) {
  $("spinner").hidden = !yes;
  $("hits").toggleAttribute("data-waiting", yes);
  $("hits").setAttribute("aria-busy", String(yes));
  if (yes) say("Searching");
}

// ---------------------------------------------------------------- Hits

// What is shown: the search that it answers, a row for each hit, which row the keys act on, and whether a key has been there.
const list = { what: blank(), rows: [], more: false, best: 1, took: NaN, active: null, entered: false, loading: null };
const rowOf = new WeakMap();
let rowCount = 0;

const keyOf = (hit) => `${hit.file.id}@${hit.start ?? ""}`;

/** Shows an answer in place of the last. Rows of hits that were there already are kept, with their waveforms. */
function show(what, got) {
  const focused = $("hits").contains(document.activeElement);
  const old = new Map(list.rows.map((row) => [row.key, row]));
  list.loading?.abort();
  list.loading = null;
  list.what = what;
  list.more = got.more;
  list.entered = false;
  list.rows = got.hits.map((hit) => {
    const row = old.get(keyOf(hit));
    if (!row) return makeRow(hit);
    row.hit = { ...hit, file: row.hit.file };
    return row;
  });
  // Cosines of texts and sounds are small, and how small depends on the text: bars are drawn beside the best of the answer.
  list.best = Math.max(...got.hits.map((hit) => hit.meaning ?? 0), 1e-6);
  $("hits").replaceChildren(...sheaves(list.rows));
  list.rows.forEach(place);
  setActive(list.rows[0] ?? null);
  if (focused) (list.active?.article ?? $("hits")).focus({ preventScroll: true });
  markPlaying();
  afterHits(got);
  say($("summary").firstChild.textContent);
}

/** Adds the next page of the same answer. */
async function showMore() {
  if (!list.more || list.loading || asking) return;
  const loading = new AbortController();
  list.loading = loading;
  $("hits").setAttribute("aria-busy", "true");
  $("more").textContent = "Loading …";
  try {
    const got = await request(list.what, list.rows.length, loading.signal);
    if (loading.signal.aborted) return;
    const known = new Set(list.rows.map((row) => row.key));
    // The library may have grown between two pages, and then a hit comes twice.
    const fresh = got.hits.filter((hit) => !known.has(keyOf(hit))).map(makeRow);
    const from = list.rows.length;
    list.rows.push(...fresh);
    list.more = got.more && fresh.length > 0;
    $("hits").append(...sheaves(fresh));
    fresh.forEach((row, i) => place(row, from + i));
    markPlaying();
    afterHits(null);
    say(`${number.format(list.rows.length)} sounds shown`);
  } catch (error) {
    trouble(error, () => { $("trouble").replaceChildren(); showMore(); });
  } finally {
    if (list.loading === loading) {
      list.loading = null;
      $("hits").setAttribute("aria-busy", "false");
      $("more").textContent = "Show more";
      watchEnd();
    }
  }
}

/** What the server has to say about an answer: a folder that the library does not have, words that the model does not know. */
function showNotes(notes) {
  $("notes").textContent = notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}${note.endsWith("?") ? "" : "."}`).join(" ");
  $("notes").hidden = notes.length === 0;
}

function afterHits(got) {
  summarise(got);
  const none = list.rows.length === 0;
  $("nothing").hidden = !none;
  // A feed must have articles.
  $("hits").setAttribute("role", none ? "group" : "feed");
  if (none) explainNothing();
  $("welcome").hidden = asks(list.what) || filterChips(list.what).length > 0 || none;
  $("more").hidden = !list.more;
  $("export").hidden = none;
  linkExports();
  watchEnd();
}

function summarise(got) {
  const { q } = list.what.read;
  const n = list.rows.length;
  const amount = `${list.more ? "First " : ""}${counted(n, "sound", "sounds")}`;
  const { upload } = list.what;
  // Its name may have come after the search began.
  const like = list.what.like?.id === search.like?.id ? search.like : list.what.like;
  const words = q ? ` for “${q}”` : "";
  let text = `${amount}${words}`;
  if (upload) text = `${amount}${words} like ${upload.name}`;
  else if (like) text = `${amount}${words} like ${like.start === null ? "" : "that moment of "}${like.name}`;
  else if (!q && filterChips(list.what).length) text = `${amount}, by path`;
  else if (!q) text = list.more ? "All recordings, by path" : `${counted(n, "recording", "recordings")}, by path`;
  if (got) list.took = got.took_ms;
  $("summary").replaceChildren(text, make("small", {}, Number.isFinite(list.took) ? ` ${Math.max(1, Math.round(list.took))} ms` : ""));
}

function explainNothing() {
  const buttons = [];
  const way = (label, act) => {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", act);
    buttons.push(button);
  };
  let text = "No results.";
  let command = null;
  if (!library.files) {
    text = "This library is empty. Add a folder of recordings with this command, then reload the page:";
    command = library.name === "default" ? "hark index FOLDER" : `hark index FOLDER --name ${library.name}`;
  } else if (filterChips({ ...list.what, mode: "fused", windows: "one", text: "" }).length) {
    text = "No recording matches these filters.";
    way("Reset filters", resetFilters);
  } else if (list.what.mode === "words") {
    text = "No name, folder, tag, caption or metadata contains these words.";
    way("Match by meaning too", () => change({ mode: "fused" }));
  } else if (list.what.read.not.length) {
    text = "Every result is excluded.";
    way("Search without exclusions", () => change({ text: list.what.read.q }));
  }
  $("nothing").firstElementChild.replaceChildren(text, ...(command ? [" ", make("code", {}, command)] : []));
  $("nothing").lastElementChild.replaceChildren(...buttons);
}

function makeRow(hit) {
  const article = $("hit").content.firstElementChild.cloneNode(true);
  const part = (selector) => article.querySelector(selector);
  const { file } = hit;
  const id = `hit-${rowCount += 1}`;
  const row = { key: keyOf(hit), hit, article, canvas: part("canvas"), wave: part(".wave"), peaks: null, near: false };
  // Not `aria-labelledby`: what is far away is not laid out, and then gives no name.
  article.setAttribute("aria-label", file.name);
  article.setAttribute("aria-describedby", `${id}-facts ${id}-caption`);
  part(".facts").id = `${id}-facts`;
  part(".caption").id = `${id}-caption`;
  part(".name bdi").textContent = file.name;
  part(".name").title = file.path;
  part(".folder bdi").textContent = shortFolder(file.folder);
  part(".folder").title = file.folder;
  const captions = file.captions.length ? file.captions : [file.metadata?.title ?? file.metadata?.description ?? ""];
  part(".caption").textContent = captions[0];
  part(".caption").title = captions.join("\n");
  if (file.damage) part(".caption").prepend(make("span", { class: "damage", title: file.damage }, "Damaged, partly readable. "));
  const heard = file.heard.filter(({ name }) => !file.tags.includes(name));
  const chips = [...file.tags.map((tag) => [tag, "tag", tag]), ...heard.map((one) => [one.name, "tag heard", `heard: ${heardWhere(one)}`])];
  part(".tags").append(...chips.slice(0, 8).map(([tag, kind, title]) => make("button", {
    type: "button", class: kind, "data-do": "tag", "data-tag": tag, "aria-label": `Filter by tag ${tag}`, title,
  }, tag)));
  part(".form").textContent = `${kilohertz(file.rate)} · ${channelName(file.channels)}`;
  part(".form").title = `${file.container} ${file.codec}, ${bytes(file.size)}, ${file.date}`;
  part("[data-do=play]").setAttribute("aria-label", `Play ${file.name}`);
  part("[data-do=like]").setAttribute("aria-label", `More like ${file.name}`);
  part("[data-do=copy]").setAttribute("aria-label", `Copy the path of ${file.name}`);
  part("[data-do=save]").setAttribute("aria-label", `Download ${file.name}`);
  part("[data-do=about]").setAttribute("aria-label", `About ${file.name}`);
  part("[data-do=save]").href = `/api/files/${encodeURIComponent(file.id)}/audio?download=1`;
  for (const control of article.querySelectorAll("button, a")) control.tabIndex = -1;
  rowOf.set(article, row);
  return row;
}

/** Rows in sheaves: the browser and the observers then look at some sheaves, and not at thousands of rows. */
function sheaves(rows) {
  const all = [];
  for (let from = 0; from < rows.length; from += PAGE) {
    const some = rows.slice(from, from + PAGE);
    const sheaf = make("div", { class: "sheaf", role: "none" }, ...some.map((row) => row.article));
    sheaf.style.setProperty("--rows", some.length);
    around.observe(sheaf);
    all.push(sheaf);
  }
  return all;
}

/** Fills what depends on the answer rather than on the file: place, moment, how it matched. */
function place(row, index) {
  const { hit, article } = row;
  const moment = hit.start !== null && hit.end !== null;
  article.setAttribute("aria-posinset", index + 1);
  article.setAttribute("aria-setsize", list.more ? -1 : list.rows.length);
  const length = clock(hit.file.seconds, hit.file.seconds < 10);
  article.querySelector(".moment").replaceChildren(...(moment
    ? [make("span", { class: "hidden" }, "Matched at "), make("b", {}, `${clock(hit.start)}–${clock(hit.end)}`), ` of ${length}`]
    : [length]));
  const bars = article.querySelector(".bars").children;
  bars[0].style.setProperty("--share", Math.min(1, Math.max(0, (hit.meaning ?? 0) / list.best)).toFixed(3));
  bars[1].style.setProperty("--share", Math.min(1, Math.max(0, hit.words ?? 0)).toFixed(3));
  const told = [];
  if (hit.meaning !== null) told.push(`meaning ${hit.meaning.toFixed(2)}`);
  if (hit.words !== null) told.push(`words ${Math.round(hit.words * 100)} %`);
  const match = article.querySelector(".match");
  match.hidden = told.length === 0;
  match.title = told.join(", ");
  match.lastElementChild.textContent = `Matched by ${told.join(", ")}`;
  for (const tag of article.querySelectorAll(".tag")) tag.setAttribute("aria-pressed", String(search.tags.includes(tag.dataset.tag)));
  if (row.near) draw(row);
}

/** Makes a row the one that keys act on: it alone, with its controls, is in the order of Tab. */
function setActive(row) {
  if (list.active === row) return;
  for (const [which, on] of [[list.active, false], [row, true]]) {
    if (!which) continue;
    which.article.classList.toggle("active", on);
    for (const control of [which.article, ...which.article.querySelectorAll("button, a")]) control.tabIndex = on ? 0 : -1;
  }
  list.active = row;
}

let audition = 0;
/** Goes to the hit that is `by` further on; at the end of the list more are fetched. */
async function walk(by) {
  if (!list.rows.length) return;
  const at = list.rows.indexOf(list.active);
  let to = list.entered ? at + by : Math.max(0, at);
  if (to >= list.rows.length) {
    await showMore();
    to = Math.min(to, list.rows.length - 1);
  }
  const row = list.rows[Math.max(0, to)];
  list.entered = true;
  setActive(row);
  row.article.focus({ preventScroll: true });
  row.article.scrollIntoView({ block: "nearest" });
  if ($("walk").checked) {
    clearTimeout(audition);
    audition = setTimeout(() => { if (list.active === row) play(row); }, 90);
  }
}

$("hits").addEventListener("focusin", (event) => {
  const row = rowOf.get(event.target.closest(".hit"));
  if (!row) return;
  list.entered = true;
  setActive(row);
});

$("hits").addEventListener("click", (event) => {
  const article = event.target.closest(".hit");
  const row = article && rowOf.get(article);
  if (!row) return;
  list.entered = true;
  setActive(row);
  const control = event.target.closest("[data-do]");
  const act = {
    play: () => toggle(row), seek: () => play(row, timeAt(row, event)), like: () => moreLike(row), copy: () => copyPath(row),
    about: () => aboutRow(row), tag: () => toggleIn("tags", control.dataset.tag),
  };
  act[control?.dataset.do]?.();
});

/** Searches the whole library for what sounds alike: filters that led to a sound would hide most of what is like it. */
function moreLike(row) {
  const { file, start, end } = row.hit;
  // A moment is named by its middle: the windows of a recording overlap, and each has its own.
  const middle = start === null ? null : (start + end) / 2;
  const { windows } = search;
  const narrowed = filterChips({ ...search, windows: "one" }).length > 0;
  const dropped = narrowed ? Object.fromEntries(Object.keys(NO_FILTERS).map((name) => [name, search[name]])) : search.dropped;
  change({
    ...NO_FILTERS, windows, dropped, like: { id: String(file.id), start: middle, name: file.name }, upload: null, text: "",
    earlier: search.text || search.earlier,
  }, { push: true });
  if (narrowed) say("The filters were removed. Restore filters puts them back.");
}

async function copyPath(row) {
  const { path } = row.hit.file;
  try {
    await navigator.clipboard.writeText(path);
  } catch {
    // Pages that are not from this machine and not encrypted may not use the clipboard; the older way still works there.
    const field = make("textarea", { class: "hidden", "aria-hidden": "true" });
    const before = document.activeElement;
    field.value = path;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
    if (!done) { toast("The browser blocked copying."); return; }
  }
  toast("Path copied");
}

/** What is heard, how strongly, and in which moments. */
function heardWhere({ name, score, starts }) {
  const moments = starts.length > 1 || starts[0] > 0 ? ` at ${starts.slice(0, 12).map((start) => clock(start)).join(", ")}${starts.length > 12 ? ", …" : ""}` : "";
  return `${name} ${score.toFixed(2)}${moments}`;
}

function aboutRow(row) {
  const { file } = row.hit;
  const facts = [
    ["Path", file.path], ["Length", clock(file.seconds, true)],
    ["Format", `${file.container}, ${file.codec}, ${kilohertz(file.rate)}, ${counted(file.channels, "channel", "channels")}`],
    ["Size", bytes(file.size)], ["Date", file.date], ["Damage", file.damage], ["Tags", file.tags.join(", ")],
    ["Heard", file.heard.map(heardWhere).join("\n")],
    ["Captions", file.captions.join("\n")], ...Object.entries(file.metadata ?? {}),
  ];
  $("about-title").textContent = file.name;
  $("about-facts").replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
  $("about").showModal();
}

// Fetches the next page before the end of the list is reached. A recording that was dropped would have to be sent and heard once
// more for it, which is left to the button.
const ending = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting) && !list.what.upload) showMore();
}, { rootMargin: "0px 0px 1200px" });

// An observer tells of changes alone: it is asked anew after each page, which may be shorter than the window.
function watchEnd() {
  ending.unobserve($("more"));
  if (list.more) ending.observe($("more"));
}

$("more").addEventListener("click", async () => {
  const next = list.rows.length;
  await showMore();
  list.rows[next]?.article.focus({ preventScroll: true });
});

// ---------------------------------------------------------------- Export

const FORMATS = ["csv", "json", "m3u"];
const amountChosen = () => document.querySelector("input[name=amount]:checked").value;

function linkExports() {
  const most = library.limits.results;
  const shown = Math.min(list.rows.length, most);
  const few = list.more && shown < most && !list.what.upload;
  if (!few) document.querySelector("input[name=amount][value=shown]").checked = true;
  $("amount-most").hidden = !few;
  $("amount-shown").textContent = `The ${number.format(shown)} shown`;
  $("amount-most-text").textContent = `First ${number.format(most)}`;
  const query = parameters(list.what);
  query.set("limit", amountChosen() === "most" ? most : Math.max(1, shown));
  for (const format of FORMATS) {
    query.set("format", format);
    $(`export-${format}`).href = `/api/export?${query}`;
    $(`export-${format}`).download = `hark.${format}`;
  }
}

/** A cell of CSV. A spreadsheet would run one that begins like a formula. */
function cell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
}

// What was found by a dropped recording is known to this page alone, so the page writes the file.
function writeExport(format) {
  const hits = list.rows.map((row) => row.hit);
  const flat = (text) => text.replace(/[\r\n]+/g, " ");
  if (format === "json") return JSON.stringify({ query: { sound: list.what.upload.name }, hits }, null, 1);
  if (format === "m3u") {
    const entry = ({ file }) => [`#EXTINF:${Math.round(file.seconds)},${flat(file.name)}`, flat(file.path)];
    return ["#EXTM3U", ...hits.flatMap(entry), ""].join("\n");
  }
  const rows = hits.map(({ rank, score, start, end, file }) => [
    rank, score, file.path, start, end, file.seconds, file.rate, file.channels, file.date, file.tags.join("; "),
    file.heard.map(({ name }) => name).join("; "), file.captions.join("; "),
  ]);
  const head = ["rank", "score", "path", "start", "end", "seconds", "rate", "channels", "date", "tags", "heard", "captions"];
  return `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

for (const format of FORMATS) {
  $(`export-${format}`).addEventListener("click", (event) => {
    $("export").open = false;
    if (!list.what.upload) return;
    event.preventDefault();
    const type = { csv: "text/csv", json: "application/json", m3u: "audio/x-mpegurl" }[format];
    const url = URL.createObjectURL(new Blob([writeExport(format)], { type }));
    make("a", { href: url, download: `hark.${format}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  });
}
$("export").addEventListener("change", linkExports);
document.addEventListener("pointerdown", (event) => {
  if (!$("export").contains(event.target)) $("export").open = false;
});

// ---------------------------------------------------------------- Waveforms

let colours = {};
/** Colours for the canvas, which knows no custom properties: an element is asked what they come to in this theme. */
function readColours() {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  for (const name of ["wave", "wave-match", "wave-played", "wave-window", "wave-cursor"]) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
}

// Waveforms are drawn a little before they are seen, and forgotten when they are far: thousands of canvases would fill the memory.
function setNear(row, near) {
  row.near = near;
  if (near) draw(row);
  else row.canvas.width = row.canvas.height = 0;
}

const nearby = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) setNear(rowOf.get(target), isIntersecting);
}, { rootMargin: "300px 0px" });

// Rows are watched in the sheaves around the window alone.
const around = new IntersectionObserver((entries) => {
  for (const { target: sheaf, isIntersecting } of entries) {
    for (const article of sheaf.children) {
      const row = rowOf.get(article);
      if (isIntersecting) nearby.observe(article);
      else {
        nearby.unobserve(article);
        if (row.near) setNear(row, false);
      }
    }
  }
}, { rootMargin: "900px 0px" });

// All waveforms have one size. It is measured once, since asking each of many rows would lay them all out again and again.
let waveSize = null;

function sizeOfWaves(row) {
  waveSize ??= { width: Math.round(row.canvas.clientWidth * devicePixelRatio), height: Math.round(row.canvas.clientHeight * devicePixelRatio) };
  if (!waveSize.width || !waveSize.height) waveSize = null;
  return waveSize ?? { width: 0, height: 0 };
}

function drawAll() {
  waveSize = null;
  readColours();
  for (const row of list.rows) if (row.near) draw(row);
}

function peaksOf(row) {
  if (!row.peaks) {
    let text = "";
    try { text = atob(row.hit.file.peaks ?? ""); } catch { /* drawn as silence */ }
    row.peaks = Int8Array.from(text, (c) => (c.charCodeAt(0) << 24) >> 24);
  }
  return row.peaks;
}

// Field recordings are quiet. A power below one lifts them off the zero line and still shows which of two is louder.
const lift = (value) => Math.sign(value) * Math.abs(value / 127) ** 0.7;

/** Lowest and highest sample of each device pixel, one fill for each colour: outside of the moment, within it, played. */
function draw(row) {
  const { canvas, hit } = row;
  const { width, height } = sizeOfWaves(row);
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  const length = hit.file.seconds || 1;
  const moment = hit.start !== null && hit.end !== null;
  const [from, to] = moment ? [hit.start, hit.end].map((t) => Math.round((t / length) * width)) : [0, 0];
  const at = sound?.row === row ? Math.round((audio.currentTime / length) * width) : -1;
  if (moment) {
    context.fillStyle = colours["wave-window"];
    context.fillRect(from, 0, to - from, height);
  }
  const peaks = peaksOf(row);
  const columns = peaks.length >> 1;
  const paths = { "wave": new Path2D(), "wave-match": new Path2D(), "wave-played": new Path2D() };
  const middle = height / 2;
  const reach = middle - devicePixelRatio;
  for (let x = 0; x < width; x += 1) {
    const first = Math.floor((x * columns) / width);
    const last = Math.max(first + 1, Math.ceil(((x + 1) * columns) / width));
    let low = 0;
    let high = 0;
    for (let i = first; i < last && i < columns; i += 1) {
      low = Math.min(low, peaks[2 * i]);
      high = Math.max(high, peaks[2 * i + 1]);
    }
    const top = Math.floor(middle - lift(high) * reach);
    const bottom = Math.ceil(middle - lift(low) * reach);
    const path = x < at ? "wave-played" : moment && x >= from && x < to ? "wave-match" : "wave";
    paths[path].rect(x, top, 1, Math.max(1, bottom - top));
  }
  for (const [name, path] of Object.entries(paths)) {
    context.fillStyle = colours[name];
    context.fill(path);
  }
  if (moment) {
    context.fillStyle = colours["wave-match"];
    const edge = Math.max(1, Math.round(devicePixelRatio));
    context.fillRect(from, 0, edge, height);
    context.fillRect(to - edge, 0, edge, height);
  }
  if (at >= 0) {
    context.fillStyle = colours["wave-cursor"];
    const thick = Math.max(2, Math.round(2 * devicePixelRatio));
    context.fillRect(Math.min(width - thick, Math.max(0, at - thick / 2)), 0, thick, height);
  }
}

function timeAt(row, event) {
  const box = row.wave.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * row.hit.file.seconds;
}

// Under the pointer: a line and the time at it.
const peek = make("span", { class: "peek", "aria-hidden": "true" });
$("hits").addEventListener("pointermove", (event) => {
  const wave = event.pointerType === "mouse" && event.target.closest(".wave");
  if (!wave) { peek.remove(); return; }
  const row = rowOf.get(wave.closest(".hit"));
  const box = wave.getBoundingClientRect();
  if (peek.parentNode !== wave) wave.append(peek);
  peek.style.setProperty("--at", `${event.clientX - box.left}px`);
  peek.classList.toggle("left", event.clientX - box.left > box.width - 60);
  peek.dataset.time = clock(timeAt(row, event), row.hit.file.seconds < 60);
});
$("hits").addEventListener("pointerleave", () => peek.remove());

// ---------------------------------------------------------------- Playing

const audio = $("audio");
// What is heard: its hit, its row if that is shown, the address it comes from.
let sound = null;

const audioAddress = (file, wav) => `/api/files/${encodeURIComponent(file.id)}/audio${wav ? "?as=wav" : ""}`;

/** Plays a row from a time; without one from the moment that matched. */
function play(row, at = row.hit.start ?? 0) {
  const { file } = row.hit;
  const begin = at < file.seconds - 0.05 ? at : 0;
  if (sound?.hit.file.id !== file.id) load(row.hit, !file.playable, begin);
  else audio.currentTime = begin;
  Object.assign(sound, { hit: row.hit, begin });
  resume();
  markPlaying();
}

// A time that is set before anything has arrived is where playback begins, so the browser asks for those bytes.
function load(hit, wav, begin) {
  sound = { hit, row: null, wav, begin };
  audio.src = audioAddress(hit.file, wav);
  audio.currentTime = begin;
  $("now-name").textContent = hit.file.name;
  $("now-length").textContent = clock(hit.file.seconds);
  $("position").max = hit.file.seconds;
  $("player").hidden = false;
  document.documentElement.classList.add("hearing");
}

function resume() {
  audio.play().catch((error) => {
    if (error.name === "NotAllowedError") toast("Click once to allow playback.");
  });
}

/** Plays a row, pauses it, or goes on with it. */
function toggle(row) {
  if (sound && sound.hit.file.id === row.hit.file.id && sound.row === row) {
    if (audio.paused) resume();
    else audio.pause();
  } else {
    play(row);
  }
}

function stop() {
  if (!sound) return;
  sound = null;
  audio.pause();
  audio.removeAttribute("src");
  audio.load();
  if ($("player").contains(document.activeElement)) (list.active?.article ?? $("hits")).focus({ preventScroll: true });
  $("player").hidden = true;
  document.documentElement.classList.remove("hearing");
  markPlaying();
}

function seekBy(by) {
  if (!sound) return;
  audio.currentTime = Math.min(Math.max(0, audio.currentTime + by), Math.max(0, (audio.duration || sound.hit.file.seconds) - 0.05));
  paint();
}

let heardRow = null;
/** Finds the row of what is heard and says so on it and in the player. */
function markPlaying() {
  const key = sound && keyOf(sound.hit);
  const row = sound
    ? list.rows.find((r) => r.key === key) ?? list.rows.find((r) => r.hit.file.id === sound.hit.file.id) ?? null
    : null;
  const before = heardRow;
  heardRow = row;
  if (sound) sound.row = row;
  if (before && before !== row) {
    setPlaying(before, false);
    if (before.near) draw(before);
  }
  if (row) setPlaying(row, !audio.paused);
  const playing = sound !== null && !audio.paused;
  $("toggle").setAttribute("aria-label", playing ? "Pause" : "Play");
  $("toggle").querySelector("use").setAttribute("href", playing ? "#i-pause" : "#i-play");
  paint();
}

function setPlaying(row, playing) {
  row.article.classList.toggle("playing", playing);
  if (!playing) row.article.classList.remove("waiting");
  const button = row.article.querySelector(".play");
  button.setAttribute("aria-label", `${playing ? "Pause" : "Play"} ${row.hit.file.name}`);
  button.querySelector("use").setAttribute("href", playing ? "#i-pause" : "#i-play");
}

let painted = -1;
/** Shows where playing is: in the player, and on the waveform when that moves by a pixel. */
function paint() {
  if (!sound) return;
  const at = audio.currentTime;
  const row = sound.row;
  const label = `${clock(Math.floor(at))}`;
  if ($("now-at").textContent !== label) {
    $("now-at").textContent = label;
    $("position").setAttribute("aria-valuetext", `${label} of ${clock(sound.hit.file.seconds)}`);
  }
  if (document.activeElement !== $("position") || !seeking) $("position").value = at;
  const pixel = row?.near ? Math.round((at / row.hit.file.seconds) * row.canvas.width) : -1;
  if (row?.near && (pixel !== painted || audio.paused)) draw(row);
  painted = pixel;
}

function tick() {
  paint();
  if (sound && !audio.paused) requestAnimationFrame(tick);
}

audio.addEventListener("play", () => { markPlaying(); requestAnimationFrame(tick); });
audio.addEventListener("pause", markPlaying);
audio.addEventListener("ended", markPlaying);
audio.addEventListener("seeked", paint);
audio.addEventListener("loadedmetadata", () => {
  // Browsers that forget the time that was set too early are told once more.
  if (sound && Math.abs(audio.currentTime - sound.begin) > 0.3) audio.currentTime = sound.begin;
});
audio.addEventListener("waiting", () => {
  const row = sound?.row;
  setTimeout(() => { if (row && sound?.row === row && audio.readyState < 3) row.article.classList.add("waiting"); }, SPINNER_MS);
});
audio.addEventListener("playing", () => sound?.row?.article.classList.remove("waiting"));

// What a browser cannot decode after all is asked for once more as WAV. If that fails too, the server says why.
audio.addEventListener("error", async () => {
  if (!sound) return;
  const failed = sound;
  if (!failed.wav && [3, 4].includes(audio.error?.code)) {
    const said = await refusal(audioAddress(failed.hit.file, false));
    if (sound !== failed) return;
    if (!said) {
      load(failed.hit, true, failed.begin);
      resume();
      markPlaying();
      return;
    }
    stop();
    trouble(new Trouble(`${failed.hit.file.name}: ${said}`));
    return;
  }
  const said = await refusal(audioAddress(failed.hit.file, failed.wav));
  if (sound !== failed) return;
  stop();
  trouble(new Trouble(`${failed.hit.file.name}: ${said ?? "cannot be played."}`));
});

/** The server's reason not to give a recording, or null if it gives it. */
async function refusal(path) {
  try {
    const response = await fetch(path, { headers: { range: "bytes=0-0" } });
    if (response.ok) { response.body?.cancel(); return null; }
    if (response.status === 401) askForToken();
    return sentence(response.status, await response.text());
  } catch {
    return "No response from the server.";
  }
}

let seeking = false;
$("position").addEventListener("pointerdown", () => { seeking = true; });
$("position").addEventListener("pointerup", () => { seeking = false; });
$("position").addEventListener("input", () => { if (sound) { audio.currentTime = Number($("position").value); paint(); } });
$("volume").addEventListener("input", () => {
  audio.volume = Number($("volume").value);
  remembered.set("volume", $("volume").value);
});
$("toggle").addEventListener("click", () => { if (audio.paused) resume(); else audio.pause(); });
$("stop").addEventListener("click", stop);
for (const [id, by] of [["previous", -1], ["next", 1]]) {
  $(id).addEventListener("click", () => {
    const at = list.rows.indexOf(sound?.row ?? list.active);
    const row = list.rows[at + by];
    if (!row) return;
    list.entered = true;
    setActive(row);
    row.article.scrollIntoView({ block: "nearest" });
    play(row);
    if (at + by >= list.rows.length - 3) showMore();
  });
}

// ---------------------------------------------------------------- Filters and chips

/** A value in or out of the folders or the tags. */
function toggleIn(name, value) {
  const has = search[name].includes(value);
  change({ [name]: has ? search[name].filter((other) => other !== value) : [...search[name], value] });
}

const resetFilters = () => change({ ...NO_FILTERS, dropped: null });
const restoreFilters = () => change({ ...search.dropped, dropped: null }, { push: true });

/** What narrows a search, as labels with what takes each away. */
function filterChips(what) {
  const chips = [];
  const range = (from, to, form, between) => {
    if (from && to) return between(form(from), form(to));
    return from ? `from ${form(from)}` : `up to ${form(to)}`;
  };
  if (what.mode !== "fused") chips.push([`by ${what.mode} only`, () => change({ mode: "fused" })]);
  if (what.windows !== "one") chips.push(["all moments", () => change({ windows: "one" })]);
  for (const folder of what.folders) chips.push([`in ${shortFolder(folder)}`, () => toggleIn("folders", folder)]);
  for (const tag of what.tags) chips.push([`tag ${tag}`, () => toggleIn("tags", tag)]);
  const dash = (a, b) => (a === b ? a : `${a}–${b}`);
  const length = (s) => clock(Number(s), Number(s) % 1 > 0);
  if (what.min_seconds || what.max_seconds) {
    chips.push([`length ${range(what.min_seconds, what.max_seconds, length, dash)}`, () => change({ min_seconds: "", max_seconds: "" })]);
  }
  if (what.min_rate || what.max_rate) {
    chips.push([range(what.min_rate, what.max_rate, kilohertz, dash), () => change({ min_rate: "", max_rate: "" })]);
  }
  if (what.audio_format) chips.push([what.audio_format, () => change({ audio_format: "" })]);
  if (what.channels) chips.push([channelName(what.channels), () => change({ channels: "" })]);
  if (what.after || what.before) {
    chips.push([`dated ${range(what.after, what.before, String, (a, b) => `${a} to ${b}`)}`, () => change({ after: "", before: "" })]);
  }
  return chips;
}

function chip(label, remove, extra = {}) {
  const close = make("button", { class: "plain", type: "button", "aria-label": `Remove: ${label}` }, icon("close"));
  close.addEventListener("click", () => {
    remove();
    ($("chips").querySelector("button") ?? $("hits")).focus({ preventScroll: true });
  });
  const mark = extra.sound ? [icon("like")] : [];
  const kind = extra.sound ? "chip sound" : "chip";
  return make("li", { class: kind, title: extra.title ?? label }, ...mark, make("span", {}, label), ...(extra.children ?? []), close);
}

/** Takes the sound away; the text and the filters that it replaced come back, unless there are others by now. */
function withoutSound() {
  const filters = filterChips(search).length ? {} : search.dropped ?? {};
  change({ ...filters, dropped: null, like: null, upload: null, text: search.text || search.earlier, earlier: "" }, { push: true });
}

/** Shows what is asked: in the chips and in the panel. */
function showSearch() {
  const narrowing = filterChips(search);
  const { q, not } = search.read;
  const excluded = not.map((term) => [`without ${term}`, () => change({ text: typed(q, not.filter((other) => other !== term)) })]);
  const chips = [...excluded, ...narrowing].map(([label, remove]) => chip(label, remove));
  const { like, upload } = search;
  if (like) {
    const moment = like.start === null ? "" : ` at ${clock(like.start)}`;
    chips.unshift(chip(`like ${like.name || `recording ${like.id}`}${moment}`, withoutSound, { sound: true }));
  }
  if (upload) {
    const progress = make("progress", { max: 1, "aria-label": "Uploading and analysing the recording", hidden: upload.done });
    chips.unshift(chip(`like ${upload.name}`, withoutSound, { sound: true, children: [progress], title: `${upload.name}, ${bytes(upload.file.size)}` }));
  }
  const panel = narrowing.length;
  if (panel > 1) {
    const all = make("button", { class: "plain", type: "button" }, "Reset filters");
    all.addEventListener("click", () => { resetFilters(); $("hits").focus({ preventScroll: true }); });
    chips.push(make("li", {}, all));
  }
  if (search.dropped) {
    const back = make("button", { class: "plain", type: "button" }, "Restore filters");
    back.addEventListener("click", () => { restoreFilters(); $("hits").focus({ preventScroll: true }); });
    const were = filterChips({ ...search.dropped, windows: "one" }).map(([label]) => label).join(", ");
    chips.push(make("li", { class: "dropped", title: were }, make("span", {}, "Filters removed for this search"), back));
  }
  $("chips").replaceChildren(...chips);
  $("count").textContent = panel;
  $("count").hidden = panel === 0;
  $("reset").disabled = panel === 0;
  const form = $("filters");
  form.elements.mode.value = search.mode;
  form.elements.windows.value = search.windows;
  for (const name of SINGLE) setField(form.elements[name], search[name]);
  showFolders();
  showTags();
}

// What is being typed stays as it is typed: `1:30` does not become 90 under the fingers. A rate or format that the library does not have
// (from an address) is added, so that what is asked is what is shown.
function setField(field, value) {
  if (field === document.activeElement && field.type === "text") return;
  const missing = field.type === "select-one" && ![...field.options].some((option) => option.value === value);
  const label = { audio_format: String, channels: channelName }[field.name] ?? ((rate) => kilohertz(Number(rate)));
  if (missing) field.append(make("option", { value }, label(value)));
  field.value = value;
  field.removeAttribute("aria-invalid");
}

const FOLDERS_SHOWN = 80;
/** Folders whose inner folders are shown; those of the roots always are. */
const openFolders = new Set();
const nameOf = (folder) => folder.slice(folder.lastIndexOf("/") + 1) || folder;
const parentOf = (folder) => folder.slice(0, folder.lastIndexOf("/")) || "/";
const isTop = (folder) => library.roots.includes(folder) && !library.roots.some((root) => root !== folder && folder.startsWith(`${root.replace(/\/$/, "")}/`));
function depthOf(folder) {
  let depth = 0;
  for (let at = folder; !isTop(at) && at !== "/"; at = parentOf(at)) depth += 1;
  return depth;
}
function areOpenAbove(folder, isOpen) {
  for (let at = parentOf(folder); !isTop(at) && at !== "/"; at = parentOf(at)) if (!isOpen(at)) return false;
  return true;
}
function showFolders() {
  const parents = new Set(library.folders.map((folder) => parentOf(folder.value)));
  const wanted = $("folder").value.trim().toLowerCase();
  const counts = new Map(library.folders.map((folder) => [folder.value, folder.files]));
  const all = library.folders.map((folder) => folder.value);
  const isOpen = (value) => library.roots.includes(value) || openFolders.has(value);
  // While a name is typed, all folders that have it; else the tree, as far as it is open.
  const shown = all.filter((value) => wanted ? shortFolder(value).toLowerCase().includes(wanted) : isTop(value) || isOpen(parentOf(value)) && areOpenAbove(value, isOpen));
  const others = shown.filter((value) => !search.folders.includes(value) || !wanted);
  const chosenElsewhere = search.folders.filter((value) => !others.includes(value));
  const values = [...chosenElsewhere, ...others.slice(0, FOLDERS_SHOWN)];
  const focused = document.activeElement?.closest?.("#folders") ? document.activeElement.value : null;
  $("folders").replaceChildren(...values.map((value) => {
    const box = make("input", { type: "checkbox", value });
    box.checked = search.folders.includes(value);
    const files = counts.get(value);
    const amount = make("span", { class: "hint" }, files === undefined ? "" : number.format(files));
    const label = make("label", { title: value }, box, make("bdi", {}, wanted || isTop(value) || chosenElsewhere.includes(value) ? shortFolder(value) : nameOf(value)), amount);
    if (wanted || chosenElsewhere.includes(value)) return make("li", {}, label);
    const inner = parents.has(value) && !library.roots.includes(value);
    const open = isOpen(value);
    const toggle = inner ? [make("button", { type: "button", class: "fold", value, "aria-expanded": String(open), "aria-label": `Folders in ${nameOf(value)}` }, open ? "▾" : "▸")] : [];
    const item = make("li", { class: "branch" }, ...toggle, label);
    item.style.setProperty("--depth", String(depthOf(value)));
    return item;
  }));
  if (focused !== null) [...$("folders").querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  const left = others.length - FOLDERS_SHOWN;
  $("folders-more").hidden = left <= 0;
  $("folders-more").textContent = `${number.format(left)} more: type to search`;
}

const TAGS_SHOWN = 40;
function showTags() {
  const wanted = $("tag").value.trim().toLowerCase();
  $("tag").hidden = library.tags.length <= TAGS_SHOWN;
  const others = library.tags.filter((tag) => !search.tags.includes(tag) && tag.toLowerCase().includes(wanted)).slice(0, TAGS_SHOWN);
  // Chosen tags stay where they are when all tags are shown: a chip that jumps away from the pointer is hard to take back.
  const values = $("tag").hidden ? [...library.tags, ...search.tags.filter((tag) => !library.tags.includes(tag))] : [...search.tags, ...others];
  const focused = document.activeElement?.closest?.("#tags") ? document.activeElement.value : null;
  $("tags").replaceChildren(...values.map((value) => {
    const chosen = String(search.tags.includes(value));
    return make("button", { type: "button", class: "tag", value, "aria-pressed": chosen }, value);
  }));
  if (focused !== null) [...$("tags").children].find((tag) => tag.value === focused)?.focus();
}

$("filters").addEventListener("submit", (event) => event.preventDefault());
$("reset").addEventListener("click", resetFilters);
$("folder").addEventListener("input", showFolders);
$("folder").addEventListener("keydown", (event) => {
  const typed = $("folder").value.trim();
  if (event.key !== "Enter" || !typed) return;
  event.preventDefault();
  const matches = library.folders.filter((folder) => folder.value.toLowerCase().includes(typed.toLowerCase()));
  const value = typed.startsWith("/") || matches.length === 0 ? typed : matches[0].value;
  $("folder").value = "";
  if (!search.folders.includes(value)) toggleIn("folders", value);
});
$("folders").addEventListener("change", (event) => toggleIn("folders", event.target.value));
$("folders").addEventListener("click", (event) => {
  const toggle = event.target.closest("button.fold");
  if (!toggle) return;
  if (!openFolders.delete(toggle.value)) openFolders.add(toggle.value);
  showFolders();
  [...$("folders").querySelectorAll("button.fold")].find((button) => button.value === toggle.value)?.focus();
});
$("tag").addEventListener("input", showTags);
$("tags").addEventListener("click", (event) => {
  const tag = event.target.closest(".tag");
  if (tag) toggleIn("tags", tag.value);
});
$("filters").addEventListener("change", (event) => {
  const { name, value } = event.target;
  if (["mode", "windows", "min_rate", "max_rate", "audio_format", "channels", "after", "before"].includes(name)) change({ [name]: value });
});
$("filters").addEventListener("input", (event) => {
  const field = event.target;
  if (!["min_seconds", "max_seconds"].includes(field.name)) return;
  const value = seconds(field.value);
  field.setAttribute("aria-invalid", String(Number.isNaN(value)));
  if (!Number.isNaN(value)) change({ [field.name]: value === null ? "" : String(value) }, { wait: 250 });
});

// ---------------------------------------------------------------- Searching by a recording

/**
 * Dropped recordings, for when the page is loaded again: the newest few, for a day. They stay in this browser. Where the browser
 * refuses (private windows, a full disk), nothing is kept, and the page says so when it misses one.
 */
const KEPT_UPLOADS = 4;
const KEPT_MS = 24 * 3600 * 1000;
const kept = {
  /** What `act` gives for the store of recordings, or null if the browser has none. */
  async with(mode, act) {
    const ended = (request) => new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = request.onblocked = () => reject(request.error);
    });
    let database = null;
    try {
      const opening = indexedDB.open("hark", 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("uploads", { keyPath: "id" });
      database = await ended(opening);
      return await act(database.transaction("uploads", mode).objectStore("uploads"), ended);
    } catch {
      return null;
    } finally {
      database?.close();
    }
  },
  async put({ id, name, file }) {
    // The bytes, and not the file on disk, which may change or go.
    const bytes = await file.arrayBuffer().catch(() => null);
    if (!bytes) return;
    await this.with("readwrite", async (store, ended) => {
      // Keys begin with the time: the oldest come first.
      const ids = await ended(store.getAllKeys());
      const old = String(Date.now() - KEPT_MS);
      ids.filter((other, i) => i <= ids.length - KEPT_UPLOADS || other < old).forEach((other) => store.delete(other));
      await ended(store.put({ id, name, bytes }));
    });
  },
  get(id) {
    return this.with("readonly", (store, ended) => ended(store.get(id)));
  },
};

/** Takes the recording that the history names from what was kept; false if it is gone. */
async function recall() {
  const { upload: id, name } = history.state ?? {};
  if (!id || uploads.has(id)) return true;
  const found = await kept.get(id);
  if (!found) return false;
  uploads.set(id, { id, name, file: new File([found.bytes], name), done: false });
  return true;
}

/** Makes the search what the address bar and the history say, and asks. */
async function follow() {
  const { name } = history.state ?? {};
  const whole = await recall();
  search = fromAddress();
  $("q").value = search.text;
  showSearch();
  nameLike();
  if (whole) { ask(); return; }
  keep();
  trouble(new Trouble(`${name} is no longer in this browser. Drop it again to search by it.`));
  ask(1, false);
}

function searchBy(file) {
  const upload = { id: `${Date.now()}-${Math.random().toString(36).slice(2)}`, file, name: file.name || "recording", done: false };
  uploads.set(upload.id, upload);
  $("trouble").replaceChildren();
  change({ upload, like: null, text: "", earlier: search.text || search.earlier }, { push: true });
  if (file.size <= library.limits.upload_bytes) kept.put(upload);
}

/** How far sending is; null: it is sent, and the server listens. */
function progressOf(upload, share) {
  if (!upload) return;
  upload.done = share === 1;
  const bar = $("chips").querySelector("progress");
  if (!bar || search.upload !== upload) return;
  bar.hidden = upload.done;
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
}

$("pick").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  $("file").value = "";
  if (file) searchBy(file);
});

const carriesFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
let depth = 0;
addEventListener("dragenter", (event) => {
  if (!carriesFile(event)) return;
  event.preventDefault();
  depth += 1;
  $("dropping").hidden = false;
});
addEventListener("dragover", (event) => {
  if (!carriesFile(event)) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
});
addEventListener("dragleave", (event) => {
  if (!carriesFile(event)) return;
  depth = Math.max(0, depth - 1);
  if (!depth) $("dropping").hidden = true;
});
addEventListener("drop", (event) => {
  if (!carriesFile(event)) return;
  event.preventDefault();
  depth = 0;
  $("dropping").hidden = true;
  const [file] = event.dataTransfer.files;
  if (file) searchBy(file);
});

// ---------------------------------------------------------------- Box and keys

$("q").addEventListener("input", () => {
  // A dropped recording is sent again with every change, so that it waits for a longer pause.
  change({ text: $("q").value, typing: true }, { wait: search.upload ? UPLOAD_TYPING_MS : TYPING_MS, box: false });
});
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  // Enter says that the last word is complete.
  search.typing = false;
  ask();
});

addEventListener("popstate", follow);

/** Escape: stop what plays, or else clear what is asked. */
function escape() {
  if ($("export").open) { $("export").open = false; $("export").firstElementChild.focus(); }
  else if (sound) stop();
  else if (search.text) change({ text: "" });
  else if (search.like || search.upload) withoutSound();
}

const LETTERS = {
  "j": () => walk(1), "k": () => walk(-1), "/": () => { $("q").focus(); $("q").select(); }, "?": () => $("help").showModal(),
  "m": () => list.active && moreLike(list.active), "c": () => list.active && copyPath(list.active), "i": () => list.active && aboutRow(list.active),
};

const TYPES = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select";

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  const { key, target } = event;
  const act = keyAction(key, target, event.shiftKey);
  if (!act) return;
  event.preventDefault();
  act();
});

/** What a key does where the focus is, or nothing if it means something there already. */
function keyAction(key, target, shift) {
  if (key === "Escape") return escape;
  if (target === $("q")) return key === "ArrowDown" ? () => walk(0) : null;
  if (target.matches(TYPES)) return null;
  if (LETTERS[key] && $("keys").checked) return LETTERS[key];
  if (target.matches("input")) return null;
  if (key === "ArrowDown") return () => walk(1);
  if (key === "ArrowUp") return list.entered && list.rows.indexOf(list.active) === 0 ? () => $("q").focus() : () => walk(-1);
  if (key === "ArrowLeft" && sound) return () => seekBy(shift ? -1 : -5);
  if (key === "ArrowRight" && sound) return () => seekBy(shift ? 1 : 5);
  if (target.closest("button, a, summary")) return null;
  if (key === " " && sound && !audio.paused) return () => audio.pause();
  if (key === " " && list.active) return () => toggle(list.active);
  if (key === "Enter" && list.active) return () => play(list.active);
  return null;
}

$("open-help").addEventListener("click", () => $("help").showModal());
for (const id of ["help", "about", "failures"]) {
  // A click on the ground around a dialog closes it; the event's target is the dialog itself only there.
  $(id).addEventListener("click", (event) => { if (event.target === $(id)) $(id).close(); });
}

// ---------------------------------------------------------------- Theme, settings, start

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : prefersDark.matches);

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $("theme").setAttribute("aria-pressed", String(isDark()));
  drawAll();
}

$("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  // A choice that is the system's own is not kept: the page follows the system again.
  const kept = (theme === "dark") === prefersDark.matches ? null : theme;
  remembered.set("theme", kept);
  setTheme(kept);
});
prefersDark.addEventListener("change", () => setTheme(document.documentElement.dataset.theme));
matchMedia("(forced-colors: active)").addEventListener("change", drawAll);
// The list grows with every page; only its width changes the waveforms.
let listWidth = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === listWidth) return;
  listWidth = contentRect.width;
  drawAll();
}).observe($("hits"));
// Moved to a screen of another density, or zoomed.
addEventListener("resize", drawAll);

for (const id of ["walk", "keys"]) {
  const kept = remembered.get(id);
  if (kept !== null) $(id).checked = kept === "yes";
  $(id).addEventListener("change", () => remembered.set(id, $(id).checked ? "yes" : "no"));
}
const wide = matchMedia("(min-width: 60.01rem)");
$("panel").open = wide.matches && remembered.get("panel") !== "closed";
$("page").classList.toggle("folded", !$("panel").open);
$("panel").addEventListener("toggle", () => {
  $("page").classList.toggle("folded", !$("panel").open);
  if (wide.matches) remembered.set("panel", $("panel").open ? null : "closed");
});
const volume = Number(remembered.get("volume") ?? 1);
audio.volume = volume >= 0 && volume <= 1 ? volume : 1;
$("volume").value = audio.volume;
setTheme(["light", "dark"].includes(remembered.get("theme")) ? remembered.get("theme") : null);

for (const example of EXAMPLES) {
  const button = make("button", { type: "button" }, example);
  button.addEventListener("click", () => { change({ text: example }, { push: true }); $("q").focus(); });
  $("examples").append(button);
}

function showLibrary() {
  const failures = Array.isArray(library.failures) ? library.failures.length : library.failures;
  const parts = [library.name, counted(library.files, "recording", "recordings"), hours(library.seconds), library.model];
  $("library").textContent = parts.filter(Boolean).join(" · ");
  if (failures) {
    const unread = make("button", { type: "button", id: "unread", "aria-haspopup": "dialog" }, `${number.format(failures)} could not be read`);
    unread.addEventListener("click", showUnread);
    $("library").append(" · ", unread);
  }
  $("library").title = library.roots.join("\n");
  for (const name of ["min_rate", "max_rate"]) {
    const field = $("filters").elements[name];
    field.replaceChildren(field.options[0], ...library.rates.map((rate) => make("option", { value: rate }, kilohertz(rate))));
  }
  const choices = (name, values, label) => {
    const field = $("filters").elements[name];
    field.replaceChildren(field.options[0], ...values.map((value) => make("option", { value }, label(value))));
  };
  choices("audio_format", library.formats, String);
  choices("channels", library.channels, channelName);
  $("q").maxLength = library.limits.query_bytes;
}

/** The files that could not be read, each with the reason. */
async function showUnread() {
  let got;
  try {
    got = await api("/api/failures");
  } catch (error) {
    trouble(error, showUnread);
    return;
  }
  $("trouble").replaceChildren();
  $("failures-title").textContent = got.files.length === 1 ? "1 file could not be read" : `${number.format(got.files.length + got.left_out)} files could not be read`;
  $("failures-list").replaceChildren(...got.files.flatMap(({ path, reason }) => [make("dt", {}, make("bdi", {}, path)), make("dd", {}, reason)]));
  $("failures-more").hidden = got.left_out === 0;
  $("failures-more").textContent = `and ${number.format(got.left_out)} more`;
  $("failures").showModal();
}

/** The name of the recording that the address asks for the like of. */
async function nameLike() {
  const { like } = search;
  if (!like || like.name) return;
  try {
    const file = await api(`/api/files/${like.id}`);
    if (search.like?.id !== like.id) return;
    search.like = { ...search.like, name: file.name };
    keep();
    showSearch();
    if (list.what.like?.id === like.id) summarise(null);
  } catch { /* the search itself says what is wrong */ }
}

async function start() {
  try {
    const got = await api("/api/library");
    const values = (some) => (some ?? []).map((one) => one?.value ?? one);
    library = {
      ...library, ...got, known: true, roots: got.roots ?? [], tags: values(got.tags), limits: { ...library.limits, ...got.limits },
      rates: values(got.rates).map(Number).sort((a, b) => a - b),
      formats: values(got.formats), channels: values(got.channels),
      folders: (got.folders ?? []).map((one) => (typeof one === "string" ? { value: one } : one)),
    };
  } catch (error) {
    trouble(error, start);
    return;
  }
  $("trouble").replaceChildren();
  showLibrary();
  await follow();
}

start();
