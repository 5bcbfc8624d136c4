// A study's page: small multiples that change together, tables that sort and can be copied, and the commands behind every curve.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const OPEN = data.open, ALL = "all";
  const state = { promise: data.first, scale: "log", beside: true, hidden: new Set() };
  const privates = data.promises.filter((promise) => promise !== OPEN);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const mouse = matchMedia("(hover: hover) and (pointer: fine)").matches; // fingers scroll the page, they do not zoom a figure
  const faded = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");

  // ---- figures: what all of them have in common
  const ticks = (log, [low, high]) => ((log ? low > -0.5 : Math.max(-low, high) >= 1000) ? "~s" : "~g"); // 10k, but never 200m for 0.2

  function axis(side, scale, extra) {
    const log = scale === "log" && "log" in side;
    return {
      title: { text: side.title, standoff: 8 }, type: log ? "log" : "linear", range: log ? side.log : side.linear,
      dtick: log ? 1 : undefined, gridcolor: css("--grid"), linecolor: css("--edge"), zeroline: false, ticks: "",
      tickformat: ticks(log, log ? side.log : side.linear), automargin: true, ...extra,
    };
  }

  function frame() {
    const text = css("--muted");
    return {
      autosize: true, margin: { l: 46, r: 10, t: 6, b: 38 }, showlegend: false, dragmode: mouse ? "zoom" : false,
      modebar: { bgcolor: "rgba(0,0,0,0)", color: text, activecolor: css("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: text },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--edge"), font: { color: css("--ink"), size: 12 } },
    };
  }

  const config = (key) => ({
    responsive: true, displaylogo: false, displayModeBar: mouse ? "hover" : false,
    modeBarButtons: [["toImage", "resetScale2d"]], toImageButtonOptions: { filename: key, scale: 2 },
  });

  function visible(t) {
    if (state.hidden.has(t.agent)) return false;
    if (t.promise === null) return true;
    if (t.promise === OPEN && !state.beside) return false;
    return state.promise === ALL || t.promise === state.promise || t.promise === OPEN;
  }

  // All guarantees at once: the stricter, the stronger.
  const strength = (t) => (state.promise !== ALL || !privates.includes(t.promise) ? 1 : 1 - 0.65 * (privates.indexOf(t.promise) / Math.max(privates.length - 1, 1)));

  function curveTraces(drawing, log) {
    const floor = log ? 10 ** (drawing.y.log[0] - 2) : -Infinity;
    const bands = [], lines = [];
    for (const t of drawing.traces.filter(visible)) {
      const colour = css(t.colour), keep = t.y.map((y) => y !== null && !(log && y <= 0));
      if (t.low && (data.few || state.promise !== ALL)) {
        const at = t.x.map((_, i) => i).filter((i) => keep[i]), back = [...at].reverse();
        bands.push({
          x: [...at, ...back].map((i) => t.x[i]), y: [...at.map((i) => t.high[i]), ...back.map((i) => Math.max(t.low[i], floor))],
          fill: "toself", fillcolor: faded(colour, 0.13), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
        });
      }
      lines.push({
        x: t.x, y: t.y.map((y, i) => (keep[i] ? y : null)), name: t.label, mode: t.symbol ? "lines+markers" : "lines", opacity: strength(t),
        line: { color: colour, width: t.promise === null ? 1.6 : t.open ? 1.8 : 2.3, dash: t.dash, simplify: false },
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

  function linear(traces, y) { // what is shown fills the figure; bands, and averages over a handful of first users, may leave it
    const after = (t) => t.y.filter((_, i) => t.x[i] >= Math.min(y.from ?? 0, t.x.at(-1) / 10));
    const seen = traces.filter((t) => t.hoverinfo !== "skip").flatMap(after).filter((value) => value !== null);
    const low = seen.length ? Math.min(...seen) : 0, high = seen.length ? Math.max(...seen) : 1;
    const air = high - low > 1e-6 * Math.max(1, Math.abs(high)) ? 0.07 * (high - low) : 0.5; // constant up to rounding is constant
    return [y.zero ? 0 : low - air, high + air];
  }

  function levels(drawing) { // where learners are not: not yet at the optimum, no longer at the start
    const side = (name) => (name === "optimal" ? { x: 0, xanchor: "left", yanchor: "bottom" } : { x: 1, xanchor: "right", yanchor: "top" });
    return {
      shapes: (drawing.lines || []).map((line) => ({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: line.y, y1: line.y, layer: "below", line: { color: css("--neutral"), width: 1.2, dash: "dot" },
      })),
      annotations: (drawing.lines || []).map((line) => ({ xref: "paper", ...side(line.name), y: line.y, showarrow: false, text: line.label, font: { size: 12, color: css("--muted") } })),
    };
  }

  function draw(figure) {
    const key = figure.dataset.panel, drawing = data.panels[key], log = state.scale === "log" && "log" in drawing.y;
    const traces = drawing.kind === "curves" ? curveTraces(drawing, log) : privacyTraces(drawing);
    const x = { linear: [0, 1.05 * 10 ** drawing.x.log[1]], ...drawing.x }, y = { linear: linear(traces, drawing.y), ...drawing.y };
    const few = x.ticks ? { tickmode: "array", tickvals: x.ticks, ticktext: x.ticks.map(String), dtick: undefined } : {};
    const layout = {
      ...frame(), hovermode: "closest", hoverdistance: 24, ...levels(drawing),
      xaxis: axis(x, state.scale, few), yaxis: axis(y, state.scale, {}),
    };
    return Plotly.react(key, traces, layout, config(key)).then((div) => {
      if (div.dataset.listens || !box) return;
      div.dataset.listens = "yes";
      const curve = (event) => event.points[0]?.customdata?.[2];
      div.on("plotly_click", (event) => curve(event) && show(curve(event)));
      div.on("plotly_hover", (event) => div.classList.toggle("on-curve", Boolean(curve(event))));
      div.on("plotly_unhover", () => div.classList.remove("on-curve"));
    });
  }

  const all = () => Promise.all([...document.querySelectorAll("figure[data-panel]")].map(draw));

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

  const does = { pick, chip: toggle, copy, "copy-table": copyTable, close: () => box.close() };
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
  all().then(() => {
    if (location.hash) show(linked());
    document.documentElement.setAttribute("data-drawn", "yes");
  });
})();
