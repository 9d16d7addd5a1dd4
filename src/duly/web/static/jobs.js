// What the pages about jobs do by themselves: completing a filter, choosing rows, following a log.

// The last word of a filter is completed; those before it stay.
const box = document.querySelector("[data-filter]");
if (box) {
  const words = [...box.list.options].map((option) => option.value);
  box.addEventListener("input", () => {
    const before = box.value.replace(/\S*$/, "");
    box.list.replaceChildren(...words.map((word) => new Option("", before + word)));
  });
}

// Rows that are chosen stay so while the list is kept up to date.
const bar = document.querySelector("[data-bar]");
const chosen = new Set();
const boxes = () => document.querySelectorAll("[data-choose]");
function showChosen() {
  if (!bar) return;
  const here = [...boxes()];
  for (const one of here) one.checked = chosen.has(one.value);
  const all = document.querySelector("[data-choose-all]");
  if (all) {
    all.checked = here.length > 0 && here.every((one) => one.checked);
    all.indeterminate = !all.checked && here.some((one) => one.checked);
  }
  bar.hidden = chosen.size === 0;
  bar.querySelector("[data-bar-count]").textContent = chosen.size;
}
if (bar) {
  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target.matches("[data-choose]")) chosen[target.checked ? "add" : "delete"](target.value);
    else if (target.matches("[data-choose-all]"))
      for (const one of boxes()) chosen[target.checked ? "add" : "delete"](one.value);
    else return;
    showChosen();
  });
  document.addEventListener("htmx:after:swap", showChosen);
  bar.addEventListener("click", (event) => {
    const target = event.target;
    if (target.matches("[data-bar-clear]")) chosen.clear();
    if (target.dataset.barDo) {
      const asked = new URLSearchParams({ do: target.dataset.barDo, ids: [...chosen].join(",") });
      htmx.ajax("GET", `${document.body.dataset.root}/jobs/bulk?${asked}`, { target: "#sheet-body", swap: "innerHTML" });
    }
    showChosen();
  });
}

// What was done to those chosen is done: none is chosen any more.
let doing = false;
document.addEventListener("submit", (event) => {
  doing = event.target.matches("[data-of-chosen]");
});
new MutationObserver((changes) => {
  const lines = changes.flatMap((change) => [...change.addedNodes]);
  if (!doing || !lines.some((line) => line.classList?.contains("good"))) return;
  doing = false;
  chosen.clear();
  showChosen();
}).observe(document.getElementById("toasts"), { childList: true });

// A log grows while somebody looks at it, and not while nobody does.
const LOOK = 1000;
const log = document.querySelector("[data-log]");
if (log) {
  const lines = log.querySelector("[data-log-lines]");
  const search = log.querySelector("[data-log-search]");
  const follow = log.querySelector("[data-log-follow]");
  const said = log.querySelector("[data-log-said]");
  let last = 0;
  let over = false;

  const fits = (line) => line.textContent.toLowerCase().includes(search.value.toLowerCase());
  function tell() {
    const all = lines.children.length;
    const seen = [...lines.children].filter((line) => !line.hidden).length;
    log.querySelector("[data-log-count]").textContent =
      all === 0 ? "" : seen === all ? all.toLocaleString("en") : `${seen} of ${all}`;
    said.textContent = all || !over ? (over ? "" : "Waiting for more …") : "No log output.";
    said.hidden = !said.textContent;
    lines.hidden = all === 0;
  }
  async function look() {
    if (document.hidden) return false;
    const answer = await fetch(`${log.dataset.log}?after=${last}`);
    if (!answer.ok) return false;
    const found = document.createElement("template");
    found.innerHTML = await answer.text();
    const mark = found.content.querySelector("[data-last]");
    const news = Number(mark.dataset.last) > last;
    last = Number(mark.dataset.last);
    over = "over" in mark.dataset;
    mark.remove();
    if (news) {
      if (search.value) for (const line of found.content.children) line.hidden = !fits(line);
      lines.append(found.content);
      if (follow.checked) lines.scrollTop = lines.scrollHeight;
    }
    tell();
    return news;
  }
  async function watch() {
    let news = false;
    try {
      news = await look();
    } catch {
      // The server is away: it is asked again.
    }
    if (!over || news) setTimeout(watch, news ? 50 : LOOK);
  }
  search.addEventListener("input", () => {
    for (const line of lines.children) line.hidden = !fits(line);
    tell();
  });
  lines.addEventListener("scroll", () => {
    follow.checked = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
  });
  follow.addEventListener("change", () => {
    if (follow.checked) lines.scrollTop = lines.scrollHeight;
  });
  log.querySelector("[data-log-times]").addEventListener("change", (event) => {
    lines.classList.toggle("without-times", !event.target.checked);
  });
  // A job that is retried says more: what is kept up to date beside the log tells that it runs.
  document.addEventListener("htmx:after:swap", () => {
    const ended = document.querySelector(".crumb .state:is(.succeeded,.failed,.cancelled,.expired)");
    if (over && !ended && document.querySelector(".crumb")) {
      over = false;
      watch();
    }
  });
  watch();
}
