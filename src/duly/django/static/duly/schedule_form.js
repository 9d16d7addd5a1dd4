// The form of a schedule: shows the fields of the chosen type, and what the typed fields mean.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const kind = document.getElementById("id_kind");
  const place = document.getElementById("duly-preview");
  if (!kind || !place) return;
  const form = kind.form;
  const examples = JSON.parse(kind.dataset.examples);

  function follow() {
    for (const field of form.querySelectorAll("[data-kinds]")) {
      const row = field.closest(".form-row");
      row.hidden = !field.dataset.kinds.split(" ").includes(kind.value);
    }
    document.getElementById("id_rule").placeholder = examples[kind.value] || "";
  }

  let latest = 0;
  async function preview() {
    const turn = ++latest;
    const typed = new URLSearchParams({pk: place.dataset.pk});
    for (const [name, value] of new FormData(form)) {
      if (name !== "args" && name !== "csrfmiddlewaretoken") typed.append(name, value);
    }
    const answer = await fetch(`${place.dataset.url}?${typed}`, {redirect: "error"}).catch(() => null);
    const shown = answer && answer.ok ? await answer.text() : "";
    if (turn === latest) place.innerHTML = shown;
  }

  let waiting;
  form.addEventListener("input", () => {
    follow();
    clearTimeout(waiting);
    waiting = setTimeout(preview, 200);
  });
  follow();
  preview();
});
