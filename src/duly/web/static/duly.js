// Keyboard shortcuts, menus, dialogs and copy buttons. Pages can be read without scripts.

const root = document.body.dataset.root;
const sheet = document.getElementById("sheet");
const keys = document.getElementById("keys");

// Display preferences are kept in cookies, which the server reads.
const local = document.querySelector("[data-local]");
if (local) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!local.value) local.value = zone;
  local.textContent = `local (${local.value})`;
}
for (const choice of document.querySelectorAll("[data-keep]")) {
  choice.addEventListener("change", () => {
    const path = root || "/";
    document.cookie = `${choice.dataset.keep}=${choice.value}; path=${path}; max-age=31536000; samesite=lax`;
    location.reload();
  });
}

// While the server does not answer, a warning says that the page is out of date.
const main = document.getElementById("main");
const away = document.getElementById("away");
function lost(status) {
  if (status === 401 || status === 403) return location.reload();
  if (!away.hidden) return;
  away.hidden = false;
  away.querySelector("b").textContent = new Date().toLocaleTimeString();
  document.body.classList.add("old");
}
document.addEventListener("htmx:sse:error", (event) => lost(event.detail.status));
// htmx opens a stream again that was open once. A first request that fails is repeated here.
function lostAtFirst(status) {
  lost(status);
  setTimeout(() => htmx.ajax("GET", main.getAttribute("hx-sse:connect"), { source: main }), 3000);
}
document.addEventListener("htmx:before:response", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  if (sourceElement !== main || response.raw.ok) return;
  event.preventDefault();
  lostAtFirst(response.status);
});
document.addEventListener("htmx:sse:after:connection", () => {
  away.hidden = true;
  document.body.classList.remove("old");
});
// The item of this page was removed: go to its list.
document.addEventListener("gone", () => {
  const [list] = location.pathname.slice(root.length + 1).split("/");
  location.assign(`${root}/${list}`);
});
document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx?.sourceElement === main) lostAtFirst();
  if (event.detail.ctx?.request?.method !== "GET" && event.detail.ctx?.request?.action)
    say("The server did not answer; it may have been done.", "bad");
});

// A timeline that is wider than the window opens at the present, not at its oldest hour.
for (const drawing of document.querySelectorAll("[data-now]")) {
  const present = drawing.querySelector("svg .now")?.getBoundingClientRect();
  drawing.addEventListener("scroll", () => keepNames(drawing));
  if (present) drawing.scrollLeft += present.left - drawing.getBoundingClientRect().left - drawing.clientWidth * 0.75;
}
// The names of lanes stay visible while the timeline is scrolled, and after an update.
function keepNames(drawing) {
  const scale = (drawing.querySelector("svg")?.getScreenCTM().a ?? 1) || 1;
  for (const name of drawing.querySelectorAll("text.lane"))
    name.setAttribute("transform", `translate(${drawing.scrollLeft / scale} 0)`);
}
document.addEventListener("htmx:after:swap", () => document.querySelectorAll("[data-now]").forEach(keepNames));

// A form in a dialog. Success closes it; an error is shown in it.
document.addEventListener("htmx:after:swap", () => {
  const filled = document.getElementById("sheet-body").childElementCount > 0;
  if (filled && !sheet.open) sheet.showModal();
});
sheet.addEventListener("close", () => document.getElementById("sheet-body").replaceChildren());
function shut() {
  // Emptied first: content that arrives meanwhile would open it again.
  document.getElementById("sheet-body").replaceChildren();
  sheet.close();
}
document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-close],[data-copy],[data-help]");
  // A click outside closes a dialog without input.
  const written = [...sheet.querySelectorAll("input, select, textarea")].some(differs);
  if (event.target === keys || (event.target === sheet && !written)) event.target.close();
  if (!target) {
    for (const menu of document.querySelectorAll("details[data-menu][open]"))
      if (!menu.contains(event.target)) menu.open = false;
    return;
  }
  if ("close" in target.dataset) target.closest("dialog").close();
  if ("help" in target.dataset) keys.showModal();
  if ("copy" in target.dataset)
    navigator.clipboard?.writeText(target.dataset.copy).then(() => {
      // A success message would close the dialog, and with it a secret that is shown only once.
      if (sheet.open) target.textContent = "Copied";
      else say("Copied.");
    });
});

// Values that a form cannot express (null, numbers, lists) are sent as JSON: data-body is its text,
// and in a form with data-json each field has its type in data-as. Empty fields and unchanged forms
// are not sent.
document.addEventListener("htmx:before:request", (event) => {
  const { ctx } = event.detail;
  const from = ctx.sourceElement.closest("[data-body], [data-json]");
  if (!from || ctx.request.method === "GET") return;
  try {
    ctx.request.body = JSON.stringify("body" in from.dataset ? said(from) : written(from));
    ctx.request.headers["Content-Type"] = "application/json";
  } catch (error) {
    event.preventDefault();
    say(error.message, "bad");
  }
});
function said(button) {
  // Possible secrets never go into a URL: they are not sent for a preview, only on submit.
  const found = JSON.parse(button.dataset.body);
  const beside = document.querySelector(button.dataset.beside ?? ":not(*)");
  return beside?.value ? { ...found, [beside.name]: typed(beside) } : found;
}
function written(form) {
  const found = {};
  for (const field of [...form.elements].some(differs) ? form.elements : []) {
    if (!field.name || (field.value === "" && !("none" in field.dataset))) continue;
    const path = field.name.split(".");
    const last = path.pop();
    const within = path.reduce((into, part) => (into[part] ??= {}), found);
    within[last] = typed(field);
  }
  return found;
}
function differs(field) {
  if (!field.name) return false;
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.options) return [...field.options].some((one) => one.selected !== one.defaultSelected);
  return field.value !== field.defaultValue;
}
function typed(field) {
  if (field.type === "checkbox") return field.checked;
  if (field.value === "") return null;
  if (field.dataset.as !== "json") return field.value;
  try {
    return JSON.parse(field.value);
  } catch {
    throw new Error(`${field.name.split(".").pop()} is not JSON: texts in quotes, as "eu"`);
  }
}
// Only the browser knows its time zone.
document.addEventListener("htmx:before:request", (event) => {
  const { request } = event.detail.ctx;
  if (request.method === "GET" && event.detail.ctx.sourceElement.matches("[data-zoned]"))
    request.action += `&here=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}`;
});

// Success messages disappear by themselves; errors stay until they are clicked.
const toasts = document.getElementById("toasts");
new MutationObserver((changes) => {
  for (const change of changes)
    for (const toast of change.addedNodes) {
      if (toast.nodeType !== Node.ELEMENT_NODE) continue;
      toast.addEventListener("click", () => toast.remove());
      if (toast.classList.contains("good")) {
        setTimeout(() => toast.remove(), 5000);
        if (sheet.open) shut();
      } else if (sheet.open) document.getElementById("sheet-body").prepend(toast);
    }
}).observe(toasts, { childList: true });
function say(text, kind = "good") {
  const toast = document.createElement("p");
  toast.className = `toast ${kind}`;
  toast.textContent = text;
  toasts.append(toast);
}

// Keys. A row has data-row; Enter opens its first link, and a key presses the button with that
// data-key.
let going = false;
let place = -1; // index of the selected row, also after it is gone
let chosen = ""; // its id: rows may appear above it
const rows = () => [...document.querySelectorAll("[data-row]")];
const row = () => document.getElementById(chosen);
function choose(step) {
  const all = rows();
  if (!all.length) return;
  document.activeElement?.blur(); // so that Enter opens the row, and not the last button
  place = Math.max(0, Math.min(all.length - 1, place + step));
  chosen = all[place].id;
  all.forEach((one) => one.classList.toggle("chosen", one.id === chosen));
  all[place].scrollIntoView({ block: "nearest" });
}
function press(key) {
  const within = row() ?? document;
  const button =
    within.querySelector(`[data-key="${key}"]`) ?? document.querySelector(`[data-page] [data-key="${key}"]`);
  if (button && !button.disabled) button.click();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (sheet.open || keys.open) return;
  if (going) {
    going = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  switch (event.key) {
    case "/":
      event.preventDefault();
      (document.querySelector("[data-filter]") ?? document.querySelector("[data-search]"))?.focus();
      break;
    case "j": choose(1); break;
    case "k": choose(-1); break;
    case "g": going = true; break;
    case "?": keys.showModal(); break;
    case "r": case "x": case "p": press(event.key); break;
    case "Enter":
      if (document.activeElement.matches("body, main")) row()?.querySelector("a")?.click();
      break;
  }
});
// A row that a morph moved stays selected; if it is gone, the keys continue from its place.
document.addEventListener("htmx:after:swap", () => {
  const all = rows();
  const found = all.findIndex((one) => one.id === chosen);
  if (found >= 0) place = found;
  else chosen = "";
  all.forEach((one) => one.classList.toggle("chosen", one.id === chosen));
});
