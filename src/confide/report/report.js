// The page of a comparison: small multiples that change together, tables that sort and can be copied, and the commands behind every curve.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const OPEN = data.open, ALL = "all";
  const state = { promise: data.first, scale: "log", beside: true, hidden: new Set() };
  const privates = data.promises.filter((promise) => promise !== OPEN);

  // ---- charts
  function visible(one) {
    if (state.hidden.has(one.agent)) return false;
    if (one.promise === OPEN && !state.beside) return false;
    const chosen = state.promise === ALL || one.promise === state.promise;
    return one.promise === null || one.promise === OPEN || chosen;
  }

  // All guarantees at once: the stricter, the thicker, and each curve is labelled at its end.
  const label = (one) => (state.promise === ALL && privates.length > 1 && privates.includes(one.promise) ? data.labels[one.promise] : "");

  function draw(figure) {
    const key = figure.dataset.panel, div = document.getElementById(key);
    const bands = data.few || state.promise !== ALL;
    Charts.draw(div, data.charts[key], { scale: state.scale, visible, label, bands, open: box ? show : null, shapes: data.shapes });
  }

  const figures = [...document.querySelectorAll("figure[data-panel]")];
  const all = () => figures.forEach(draw);

  // ---- what is shown
  function rows(promise) { // reference policies stay beside whatever is chosen
    document.querySelectorAll("#table-results tbody tr").forEach((row) => {
      row.hidden = promise !== ALL && row.dataset.promise !== promise && row.dataset.promise !== "";
    });
  }

  function pick(button) {
    button.parentElement.querySelectorAll(".pick").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    if (button.dataset.kind === "rows") return rows(button.dataset.pick);
    state[button.dataset.kind] = button.dataset.pick;
    const ladders = [...document.querySelectorAll("[data-ladder]")];
    const wanted = ladders.some((one) => one.dataset.ladder === state.promise) ? state.promise : data.chosen;
    ladders.forEach((one) => { one.hidden = one.dataset.ladder !== wanted; });
    return all();
  }

  function toggle(chip) {
    const shown = chip.getAttribute("aria-pressed") !== "true", beside = "beside" in chip.dataset;
    if (beside) state.beside = shown;
    else if (shown) state.hidden.delete(chip.dataset.agent);
    else state.hidden.add(chip.dataset.agent);
    document.querySelectorAll("button.chip").forEach((one) => {
      const same = "beside" in one.dataset ? beside : !beside && one.dataset.agent === chip.dataset.agent;
      if (same) one.setAttribute("aria-pressed", String(shown));
    });
    return all();
  }

  const save = (button) => Charts.save(document.getElementById(button.dataset.chart), button.dataset.chart);

  // ---- the commands of a curve
  const box = document.getElementById("shown"), part = (name) => document.getElementById(`shown-${name}`);

  function show(curve) {
    const fold = document.getElementById(`commands-${curve}`);
    if (!fold || !box) return;
    part("title").textContent = fold.querySelector("summary").textContent;
    part("facts").textContent = fold.querySelector(".stated").textContent;
    part("commands").replaceChildren(...fold.querySelector("pre").cloneNode(true).childNodes);
    part("row").setAttribute("href", `#${curve}`);
    if (location.hash !== `#${curve}`) history.replaceState(null, "", `#${curve}`); // a link to it, without a jump
    if (!box.open) box.showModal();
  }

  const outside = ({ clientX: x, clientY: y }, edge = box.getBoundingClientRect()) => x < edge.left || x > edge.right || y < edge.top || y > edge.bottom;
  const rowPick = () => document.querySelector(`.pick[data-kind=rows][data-pick=${ALL}]`); // a row must be shown to be jumped to
  const linked = () => decodeURIComponent(location.hash.slice(1)).replace(/^commands-/, "");

  // ---- tables and copies
  const quoted = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const written = {
    csv: ({ heads, rows }) => [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n",
    markdown: ({ heads, rows }) => [heads, heads.map(() => "---"), ...rows].map((row) => `| ${row.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`).join("\n") + "\n",
  };

  async function put(button, text, element) {
    const said = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no clipboard for this page: select, and copy the old way
      const area = element ? null : document.body.appendChild(document.createElement("textarea"));
      if (area) { area.value = text; area.select(); } else getSelection().selectAllChildren(element);
      document.execCommand("copy");
      if (area) { area.remove(); button.focus(); }
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said === "Copied" ? "Copy" : said; }, 1600);
  }

  function copy(button) {
    const element = document.getElementById(button.dataset.copy);
    return put(button, element.textContent, element);
  }

  function copyTable(button) { // the rows that are shown, in their order
    const { table, as } = button.dataset, given = data.tables[table][as];
    const order = [...document.querySelectorAll(`#table-${table} tbody tr:not([hidden])`)].map((row) => Number(row.dataset.row));
    return put(button, written[as]({ heads: given.heads, rows: order.map((i) => given.rows[i]) }), null);
  }

  const does = { pick, chip: toggle, copy, "copy-table": copyTable, save, close: () => box.close() };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.curve"), button = event.target.closest("button");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      show(link.dataset.curve);
    }
    if (box && (event.target === part("row") || (event.target === box && outside(event)))) box.close();
    if (box && event.target === part("row")) rowPick()?.click();
    if (!button) return;
    Object.keys(does).filter((name) => button.classList.contains(name)).forEach((name) => does[name](button));
  });
  addEventListener("hashchange", () => { if (box && !box.open && location.hash.startsWith("#commands-")) show(linked()); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  const sizes = new ResizeObserver((changed) => changed.forEach(({ target }) => draw(target.closest("figure"))));
  figures.forEach((figure) => sizes.observe(document.getElementById(figure.dataset.panel)));
  all();
  if (location.hash) show(linked());
  document.documentElement.setAttribute("data-drawn", "yes");
})();
