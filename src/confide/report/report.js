// Draws the figures that Python wrote as data, in the page's own colours.
"use strict";
(() => {
  const drawings = JSON.parse(document.getElementById("figures").textContent);
  const hidden = new Map(); // world -> series that are not shown
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const mouse = matchMedia("(hover: hover) and (pointer: fine)").matches; // fingers scroll the page, they do not zoom a figure
  const faded = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");

  function traces(drawing, scale, skip) {
    const log = scale === "log" && "log" in drawing.y;
    const floor = log ? 10 ** (drawing.y.log[0] - 2) : -Infinity;
    const bands = [], lines = [];
    for (const t of drawing.traces) {
      const colour = css(t.colour), visible = !skip.has(t.series);
      const keep = t.y.map((y) => y !== null && !(log && y <= 0));
      if (t.low) {
        const at = t.x.map((_, i) => i).filter((i) => keep[i]), back = [...at].reverse();
        bands.push({
          x: [...at, ...back].map((i) => t.x[i]),
          y: [...at.map((i) => t.high[i]), ...back.map((i) => Math.max(t.low[i], floor))],
          fill: "toself", fillcolor: faded(colour, 0.16), line: { width: 0 }, mode: "lines", hoverinfo: "skip", visible,
        });
      }
      lines.push({
        x: t.x, y: t.y.map((y, i) => (keep[i] ? y : null)), name: t.label, mode: "lines", visible,
        line: { color: colour, width: t.series === null ? 1.6 : 2.4, dash: t.dash, simplify: false },
        customdata: t.low ? t.low.map((low, i) => [low, t.high[i]]) : undefined,
        hovertemplate: t.low ? "%{y:.4~g} (%{customdata[0]:.3~g} to %{customdata[1]:.3~g})" : "%{y:.4~g}",
      });
    }
    return [...bands, ...lines];
  }

  // 10k rather than 10000, but never 200m for 0.2
  const ticks = (log, [low, high]) => ((log ? low > -0.5 : Math.max(-low, high) >= 1000) ? "~s" : "~g");

  function axis(side, scale, extra) {
    const log = scale === "log" && "log" in side;
    return {
      title: { text: side.title, standoff: 8 }, type: log ? "log" : "linear", range: log ? side.log : side.linear,
      dtick: log ? 1 : undefined, gridcolor: css("--grid"), linecolor: css("--edge"), zeroline: false, ticks: "",
      tickformat: ticks(log, log ? side.log : side.linear), automargin: true, ...extra,
    };
  }

  function frame() { // what all figures have in common
    const text = css("--muted");
    return {
      autosize: true, margin: { l: 48, r: 14, t: 8, b: 40 }, showlegend: false, dragmode: mouse ? "zoom" : false,
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

  function layout(drawing, scale) {
    const text = css("--muted");
    const lines = (drawing.lines || []).map((line) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: line.y, y1: line.y, layer: "below",
      line: { color: css("--neutral"), width: 1.2, dash: "dot" },
    }));
    const labels = (drawing.lines || []).map((line) => ({ // where learners are not: not yet at the optimum, no longer at the start
      xref: "paper", ...(line.name === "optimal" ? { x: 0, xanchor: "left", yanchor: "bottom" } : { x: 1, xanchor: "right", yanchor: "top" }),
      y: line.y, showarrow: false, text: line.label, font: { size: 12, color: text },
    }));
    return {
      ...frame(), hovermode: "x unified",
      xaxis: axis(drawing.x, scale, { unifiedhovertitle: { text: "%{x:,.0f} users" } }),
      yaxis: axis(drawing.y, scale, {}),
      shapes: lines, annotations: labels,
    };
  }

  function draw(figure) {
    const key = figure.dataset.figure, scale = figure.querySelector(".scale[aria-pressed=true]").dataset.scale;
    const world = figure.closest("[data-world]").dataset.world;
    const skip = hidden.get(world) || new Set();
    return Plotly.react(key, traces(drawings[key], scale, skip), layout(drawings[key], scale), config(key));
  }

  function toggleSeries(chip) {
    const world = chip.closest("[data-world]"), series = Number(chip.dataset.series);
    if (!world) return;
    const skip = hidden.get(world.dataset.world) || new Set();
    const shown = skip.delete(series) || !skip.add(series);
    hidden.set(world.dataset.world, skip);
    world.querySelectorAll(`.chip[data-series="${series}"]`).forEach((one) => one.setAttribute("aria-pressed", String(shown)));
    world.querySelectorAll("figure").forEach(draw);
  }

  function setScale(button) {
    button.parentElement.querySelectorAll(".scale").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    draw(button.closest("figure"));
  }

  function sort(button) {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const column = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    head.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const compare = (a, b) => (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b));
    const unknown = (row) => Number(key(row) === ""); // last, whichever way
    [...body.rows].sort((a, b) => unknown(a) - unknown(b) || (up ? compare(a, b) : compare(b, a))).forEach((row) => body.append(row));
  }

  async function copy(button) {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text); // no clipboard for this page: select, and copy the old way
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  }

  window.confide = { data: drawings, css, mouse, faded, axis, frame, config }; // for the scripts of other pages
  const does = { chip: toggleSeries, scale: setScale, copy };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.closest("table.sortable")) sort(button);
    Object.keys(does).filter((name) => button.classList.contains(name)).forEach((name) => does[name](button));
  });
  const all = () => Promise.all([...document.querySelectorAll("figure[data-figure]")].map(draw));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  all().then(() => document.documentElement.setAttribute("data-drawn", "yes"));
})();
