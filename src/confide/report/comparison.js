// The comparison's page: small multiples that change together, tables that can be copied, and the commands behind every curve.
"use strict";
(() => {
  const { css, mouse, faded, axis, frame, config, data } = window.confide;
  const OPEN = "no privacy", ALL = "all";
  const state = { promise: data.chosen, scale: "log", beside: true, hidden: new Set() };
  const privates = data.promises.filter((promise) => promise !== OPEN);
  const panels = () => [...document.querySelectorAll("figure[data-panel]")];

  function visible(t) {
    if (state.hidden.has(t.agent)) return false;
    if (t.promise === null || state.promise === ALL) return t.promise !== OPEN || state.beside;
    return t.promise === state.promise || (t.promise === OPEN && state.beside);
  }

  // All promises at once: the stricter, the stronger.
  const strength = (t) => (state.promise !== ALL || !privates.includes(t.promise) ? 1 : 1 - 0.65 * (privates.indexOf(t.promise) / Math.max(privates.length - 1, 1)));

  function curveTraces(drawing, log) {
    const floor = log ? 10 ** (drawing.y.log[0] - 2) : -Infinity;
    const bands = [], lines = [];
    for (const t of drawing.traces.filter(visible)) {
      const colour = css(t.colour), keep = t.y.map((y) => y !== null && !(log && y <= 0));
      if (t.low && state.promise !== ALL) {
        const at = t.x.map((_, i) => i).filter((i) => keep[i]), back = [...at].reverse();
        bands.push({
          x: [...at, ...back].map((i) => t.x[i]), y: [...at.map((i) => t.high[i]), ...back.map((i) => Math.max(t.low[i], floor))],
          fill: "toself", fillcolor: faded(colour, 0.13), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
        });
      }
      lines.push({
        x: t.x, y: t.y.map((y, i) => (keep[i] ? y : null)), name: t.label, mode: t.symbol && t.promise ? "lines+markers" : "lines", opacity: strength(t),
        line: { color: colour, width: t.promise === null ? 1.6 : t.dash === "dash" ? 1.7 : 2.3, dash: t.dash, simplify: false },
        marker: { symbol: t.symbol, size: 7, color: colour, maxdisplayed: 7 },
        customdata: t.x.map((_, i) => [t.low ? t.low[i] : null, t.low ? t.high[i] : null, t.curve]),
        hovertemplate: `<b>%{fullData.name}</b><br>%{y:.4~g}${t.low ? " (%{customdata[0]:.3~g} to %{customdata[1]:.3~g})" : ""}<br>after %{x:,.0f} users<extra></extra>`,
      });
    }
    return [...bands, ...lines];
  }

  function privacyTraces(drawing) {
    const made = [], [left, right] = drawing.x.log.map((power) => 10 ** power);
    const along = Array.from({ length: 25 }, (_, i) => left * (right / left) ** (i / 24)); // so that a level can be pointed at anywhere
    for (const t of drawing.traces.filter((one) => !state.hidden.has(one.agent))) {
      const colour = css(t.colour);
      if (t.level && (t.agent === null || state.beside)) {
        made.push({
          x: along, y: along.map(() => t.level.y), mode: "lines", name: t.agent === null ? t.label : `${t.label}, no privacy`,
          line: { color: colour, width: 1.6, dash: t.agent === null ? "dot" : "dash" }, customdata: along.map(() => [null, null, t.level.curve]),
          hovertemplate: "<b>%{fullData.name}</b><br>%{y:.4~g}<extra></extra>",
        });
      }
      if (!t.points.length) continue;
      const ends = t.low.some((low) => low !== null);
      made.push({
        x: t.x, y: t.y, name: t.label, mode: "lines+markers", line: { color: colour, width: 2.3 }, marker: { symbol: t.symbol, size: 9, color: colour },
        error_y: ends ? { type: "data", symmetric: false, array: t.high.map((high, i) => (high ?? t.y[i]) - t.y[i]), arrayminus: t.low.map((low, i) => t.y[i] - (low ?? t.y[i])), thickness: 1.3, width: 4, color: colour } : undefined,
        customdata: t.points.map((curve, i) => [t.low[i], t.high[i], curve]),
        hovertemplate: `<b>%{fullData.name}, ε = %{x}</b><br>%{y:.4~g}${ends ? " (%{customdata[0]:.3~g} to %{customdata[1]:.3~g})" : ""}<extra></extra>`,
      });
    }
    return made;
  }

  function linear(traces, zero) { // what is shown fills the figure; bands may leave it
    const seen = traces.filter((t) => t.hoverinfo !== "skip").flatMap((t) => t.y).filter((y) => y !== null);
    const low = seen.length ? Math.min(...seen) : 0, high = seen.length ? Math.max(...seen) : 1;
    const air = 0.07 * (high - low) || 0.5;
    return [zero ? 0 : low - air, high + air];
  }

  function draw(figure) {
    const key = figure.dataset.panel, drawing = data.panels[key], log = state.scale === "log" && "log" in drawing.y;
    const traces = drawing.kind === "curves" ? curveTraces(drawing, log) : privacyTraces(drawing);
    const x = { linear: [0, 1.05 * 10 ** drawing.x.log[1]], ...drawing.x }, y = { ...drawing.y, linear: linear(traces, drawing.y.zero) };
    const ticks = x.ticks ? { tickmode: "array", tickvals: x.ticks, ticktext: x.ticks.map(String), dtick: undefined } : {};
    const layout = {
      ...frame(), hovermode: "closest", hoverdistance: 24, margin: { l: 46, r: 10, t: 6, b: 38 },
      xaxis: axis(x, state.scale, ticks), yaxis: axis(y, state.scale, {}),
    };
    return Plotly.react(key, traces, layout, config(key)).then((div) => {
      if (div.dataset.listens) return;
      div.dataset.listens = "yes";
      const curve = (event) => event.points[0]?.customdata?.[2];
      div.on("plotly_click", (event) => curve(event) && show(curve(event)));
      div.on("plotly_hover", (event) => div.classList.toggle("on-curve", Boolean(curve(event))));
      div.on("plotly_unhover", () => div.classList.remove("on-curve"));
    });
  }

  const all = () => Promise.all(panels().map(draw));

  function rows(promise) { // reference play stays beside whatever is chosen
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

  const box = document.getElementById("shown"), part = (name) => document.getElementById(`shown-${name}`);

  function show(curve) {
    const fold = document.getElementById(`commands-${curve}`);
    if (!fold) return;
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

  const quoted = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const written = {
    csv: ({ heads, rows }) => [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n",
    markdown: ({ heads, rows }) => [heads, heads.map(() => "---"), ...rows].map((row) => `| ${row.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`).join("\n") + "\n",
  };

  async function copyTable(button) { // the rows that are shown, in their order
    const { table, as } = button.dataset, given = data.tables[table][as], said = button.textContent;
    const order = [...document.querySelectorAll(`#table-${table} tbody tr:not([hidden])`)].map((row) => Number(row.dataset.row));
    const text = written[as]({ heads: given.heads, rows: order.map((i) => given.rows[i]) });
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no clipboard for this page: the old way
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said; }, 1600);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.curve"), button = event.target.closest("button");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      show(link.dataset.curve);
    }
    if (button?.classList.contains("close") || event.target === part("row") || (event.target === box && outside(event))) box.close();
    if (event.target === part("row")) rowPick()?.click();
    if (button?.classList.contains("pick")) pick(button);
    if (button?.classList.contains("chip")) toggle(button);
    if (button?.classList.contains("copy-table")) copyTable(button);
  });
  addEventListener("hashchange", () => { if (!box.open && location.hash.startsWith("#commands-")) show(linked()); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  all().then(() => {
    if (location.hash) show(linked());
    document.documentElement.setAttribute("data-compared", "yes");
  });
})();
