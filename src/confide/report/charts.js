// Draws charts as SVG, from what `Chart.to_json` (charts.py) says of them.
"use strict";
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = { solid: null, dash: "8 5", dot: "1.5 4", dashdot: "8 4 1.5 4" };
  const NEAR = 24; // pixels between the pointer and what it points at
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const mouse = matchMedia("(hover: hover) and (pointer: fine)");

  function element(parent, name, facts = {}, text = null) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(facts)) if (value !== null) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    parent.append(made);
    return made;
  }

  // ---- numbers
  function spoken(value, digits = 4) { // 4 digits, and large numbers spelled out
    if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e9)) {
      return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });
    }
    return value.toExponential(digits - 1);
  }

  function tickText(value) { // 10k, but never 200m for 0.2
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(6))}${unit}`;
    }
    return Math.abs(value) < 1e-3 && value !== 0 ? value.toExponential(0) : String(Number(value.toPrecision(6)));
  }

  function evenTicks(low, high, most) {
    const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
    const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
    return Array.from({ length: count }, (_, i) => (first + i) * step);
  }

  function powers(low, high, most) { // on a short axis also 2 and 5 times a power of ten
    const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9), step = Math.max(1, Math.ceil((last - first + 1) / most));
    const whole = [];
    for (let power = first; power <= last; power += step) whole.push(10 ** power);
    if (whole.length > 2) return whole;
    const all = [];
    for (let power = Math.floor(low); power <= last; power += 1) all.push(...[1, 2, 5].map((factor) => factor * 10 ** power));
    return all.filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
  }

  // ---- axes: `ends` are in units of the axis, which are powers of ten on a logarithmic one
  function axis(side, log, ends, most) {
    const ticks = side.ticks.length ? side.ticks : log ? powers(...ends, most) : evenTicks(...ends, most);
    const unit = (value) => (log ? Math.log10(value) : value);
    const inside = ticks.filter((tick) => unit(tick) >= ends[0] - 1e-9 && unit(tick) <= ends[1] + 1e-9);
    return { log, ends, unit, ticks: inside, back: (at) => (log ? 10 ** at : at) };
  }

  function linearEnds(side, shown, xs) { // what is shown fills the chart; bands, and averages over a handful of first users, may leave it
    const seen = [];
    for (const one of shown.series) {
      const x = xs[one.at], from = Math.min(side.settled, x.at(-1) / 10);
      one.y.forEach((y, i) => { if (y !== null && x[i] >= from) seen.push(y); });
    }
    seen.push(...shown.levels.map((level) => level.y));
    const low = seen.length ? Math.min(...seen) : 0, high = seen.length ? Math.max(...seen) : 1;
    const air = high - low > 1e-6 * Math.max(1, Math.abs(high)) ? 0.07 * (high - low) : 0.5; // constant up to rounding is constant
    return [side.bottom ?? low - air, side.top ?? high + air];
  }

  // ---- one chart
  // options: scale ("log" or "linear"), visible(series or level), label(series), bands, open(row), shapes of markers
  function draw(div, chart, options) {
    const width = div.clientWidth, height = div.clientHeight;
    if (!width || !height) return; // not laid out yet: the page draws again when it is
    const shown = { series: chart.series.filter(options.visible), levels: chart.levels.filter(options.visible) };
    const log = options.scale === "log", zoom = div.zoom ?? {};
    const logX = log && chart.x.log !== null, logY = log && chart.y.log !== null;
    const largest = Math.max(...chart.xs.map((x) => x.at(-1)), 1);
    const x = axis(chart.x, logX, zoom.x ?? (logX ? chart.x.log.map(Math.log10) : [0, 1.02 * largest]), Math.max(2, Math.floor(width / 75)));
    const y = axis(chart.y, logY, zoom.y ?? (logY ? chart.y.log.map(Math.log10) : linearEnds(chart.y, shown, chart.xs)), Math.max(2, Math.floor(height / 45)));
    const labels = y.ticks.map(tickText);
    // Curves of one agent under several guarantees are labelled at their ends.
    const ends = shown.series.filter((one) => !one.points && options.label(one));
    const endLabels = width > 300 ? ends.map((one) => ({ one, text: options.label(one) })) : [];
    const room = Math.max(0, ...endLabels.map(({ text }) => 7 + 6.4 * text.length));
    const left = 30 + 7 * Math.max(2, ...labels.map((label) => label.length)), right = width - 10 - room, top = 8, bottom = height - 42;
    const across = (value) => left + ((x.unit(value) - x.ends[0]) / (x.ends[1] - x.ends[0])) * (right - left);
    const up = (value) => bottom - ((y.unit(value) - y.ends[0]) / (y.ends[1] - y.ends[0])) * (bottom - top);
    const muted = css("--muted"), font = getComputedStyle(document.body).fontFamily;

    div.replaceChildren();
    const svg = element(div, "svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": font, "font-size": 12.5, "aria-hidden": "true" });
    svg.dataset.scale = logY ? "log" : "linear";
    const clip = `clip-${div.id}`;
    element(element(svg, "clipPath", { id: clip }), "rect", { x: left, y: top, width: right - left, height: bottom - top });
    for (const [i, tick] of y.ticks.entries()) {
      element(svg, "line", { x1: left, x2: right, y1: up(tick), y2: up(tick), stroke: css("--grid") });
      element(svg, "text", { x: left - 6, y: up(tick) + 4, "text-anchor": "end", fill: muted }, labels[i]);
    }
    for (const tick of x.ticks) {
      element(svg, "line", { x1: across(tick), x2: across(tick), y1: top, y2: bottom, stroke: css("--grid") });
      element(svg, "text", { x: across(tick), y: bottom + 17, "text-anchor": "middle", fill: muted }, tickText(tick));
    }
    element(svg, "path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: css("--edge") });
    element(svg, "text", { x: (left + right) / 2, y: height - 7, "text-anchor": "middle", fill: muted }, chart.x.title);
    const turned = { x: 13, y: (top + bottom) / 2, transform: `rotate(-90 13 ${(top + bottom) / 2})`, "text-anchor": "middle", fill: muted };
    element(svg, "text", turned, chart.y.title);
    const inside = element(svg, "g", { "clip-path": `url(#${clip})` });

    const targets = []; // what can be pointed at: [x, y] in pixels, a series, and the number of a point
    for (const level of shown.levels) {
      if (logY && level.y <= 0) continue;
      const at = up(level.y), stroke = css(level.colour);
      const line = element(inside, "g", { class: "level" });
      line.dataset.name = level.name;
      element(line, "line", { x1: left, x2: right, y1: at, y2: at, stroke, "stroke-width": 1.5, "stroke-dasharray": DASHES[level.dash] });
      if (level.text) {
        const place = level.left ? { x: left + 4, y: at - 5, "text-anchor": "start" } : { x: right - 4, y: at + 14, "text-anchor": "end" };
        element(inside, "text", { class: "level-text", fill: muted, "font-size": 12, ...place }, level.text);
      }
      if (level.name) targets.push({ one: level, points: [[left, at], [right, at]], lines: [`${spoken(level.y)}`] });
    }
    const bands = element(inside, "g");
    for (const one of shown.series) {
      const given = chart.xs[one.at], stroke = css(one.colour), group = element(inside, "g", { class: "series" });
      group.dataset.name = one.name;
      const keep = given.map((_, i) => i).filter((i) => one.y[i] !== null && !(logY && one.y[i] <= 0) && !(logX && given[i] <= 0));
      const points = keep.map((i) => [across(given[i]), up(one.y[i])]), path = points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");
      const floor = logY ? 10 ** (y.ends[0] - 1) : -Infinity; // zero has no logarithm
      if (one.low && !one.points && options.bands) {
        const edge = (ends, order) => order.map((i) => `${across(given[i]).toFixed(1)} ${up(Math.max(ends[i] ?? one.y[i], floor)).toFixed(1)}`);
        const around = [...edge(one.high, keep), ...edge(one.low, [...keep].reverse())].join("L");
        if (keep.length) element(bands, "path", { class: "band", d: `M${around}Z`, fill: stroke, "fill-opacity": 0.13 });
      }
      if (one.low && one.points) {
        for (const i of keep) {
          const [a, low, high] = [across(given[i]), up(Math.max(one.low[i], floor)), up(one.high[i])];
          element(group, "path", { class: "ends", d: `M${a} ${low}V${high}M${a - 4} ${low}h8M${a - 4} ${high}h8`, stroke, fill: "none", "stroke-width": 1.3 });
        }
      }
      if (points.length) element(group, "path", { class: "line", d: `M${path}`, fill: "none", stroke, "stroke-width": 1.3 * one.width, "stroke-dasharray": DASHES[one.dash], "stroke-linejoin": "round" });
      const every = one.points ? 1 : Math.max(1, Math.ceil(points.length / 7));
      const marks = one.marker === null ? [] : points.filter((_, i) => i % every === 0);
      const size = one.points ? 5 : 4;
      for (const [a, b] of marks) element(group, "path", { d: options.shapes[one.marker], fill: stroke, transform: `translate(${a.toFixed(1)} ${b.toFixed(1)}) scale(${size})` });
      const said = (i) => {
        const ends = one.low && one.low[i] !== null ? ` (${spoken(one.low[i], 3)} to ${spoken(one.high[i], 3)})` : "";
        const where = one.points ? `${chart.x.title} = ${spoken(given[i])}` : `after ${spoken(given[i], 15)} ${chart.x.title}`;
        return [`${spoken(one.y[i])}${ends}`, where];
      };
      targets.push({ one, points, keep, said });
      const label = endLabels.find((each) => each.one === one);
      if (label && points.length) label.at = points.at(-1);
    }
    writeLabels(svg, endLabels.filter(({ at }) => at), [top, bottom]);
    listen(div, svg, { chart, options, targets, box: { left, right, top, bottom }, x, y, redraw: () => draw(div, chart, options) });
  }

  // Labels stand at the ends of their curves, one below the other where they would overlap.
  function writeLabels(svg, labels, [top, bottom]) {
    const LINE = 13;
    const ordered = [...labels].sort((one, other) => one.at[1] - other.at[1]);
    let lowest = top - LINE;
    for (const label of ordered) {
      label.y = Math.max(Math.min(label.at[1], bottom), lowest + LINE);
      lowest = label.y;
    }
    // Labels that were pushed below the chart push those above them up again.
    let highest = bottom + LINE;
    for (const label of ordered.reverse()) {
      label.y = Math.min(label.y, highest - LINE);
      highest = label.y;
    }
    // A halo keeps a label readable where a level crosses it.
    const halo = { stroke: css("--card"), "stroke-width": 3, "paint-order": "stroke" };
    for (const { one, text, at, y } of ordered) element(svg, "text", { class: "end-label", x: at[0] + 6, y: y + 4, fill: css(one.colour), "font-size": 11.5, ...halo }, text);
  }

  // ---- the pointer
  function nearest(targets, [px, py]) { // of all lines the nearest one, and of it the nearer end of its nearest part
    let best = { distance: NEAR };
    for (const target of targets) {
      const { points } = target;
      for (let i = 0; i < points.length; i += 1) {
        const [ax, ay] = points[i], [bx, by] = target.one.points ? points[i] : points[Math.min(i + 1, points.length - 1)];
        const length = (bx - ax) ** 2 + (by - ay) ** 2;
        const share = length ? Math.min(Math.max(((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / length, 0), 1) : 0;
        const distance = Math.hypot(px - ax - share * (bx - ax), py - ay - share * (by - ay));
        if (distance < best.distance) best = { distance, target, index: share > 0.5 ? Math.min(i + 1, points.length - 1) : i, at: [ax + share * (bx - ax), ay + share * (by - ay)] };
      }
    }
    return best.target ? best : null;
  }

  function listen(div, svg, drawn) {
    const { targets, box, options } = drawn;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    div.append(tip);
    const dot = element(svg, "circle", { class: "pointed", r: 5, fill: "none", stroke: css("--ink"), "stroke-width": 1.5, visibility: "hidden" });
    const rowOf = (found) => {
      const { rows, points } = found.target.one;
      return points ? rows[found.target.keep[found.index]] : rows[0];
    };
    const place = (event) => {
      const edge = svg.getBoundingClientRect();
      return [event.clientX - edge.left, event.clientY - edge.top];
    };

    function point(event) {
      const found = nearest(targets, place(event)), row = found && rowOf(found);
      tip.hidden = !found;
      dot.setAttribute("visibility", found ? "visible" : "hidden");
      div.classList.toggle("on-curve", Boolean(row && options.open));
      if (!found) return;
      const { target } = found, [a, b] = target.keep ? target.points[found.index] : found.at;
      dot.setAttribute("cx", a);
      dot.setAttribute("cy", b);
      const name = document.createElement("b");
      name.textContent = target.one.name;
      const lines = target.keep ? target.said(target.keep[found.index]) : target.lines;
      tip.replaceChildren(name, ...lines.map((line) => Object.assign(document.createElement("span"), { textContent: line })));
      const wide = tip.offsetWidth, tall = tip.offsetHeight;
      tip.style.left = `${Math.max(0, Math.min(a + 12, div.clientWidth - wide))}px`;
      tip.style.top = `${b - tall - 10 < 0 ? b + 14 : b - tall - 10}px`;
    }

    let start = null, frame = null, dragged = false;
    const inside = ([a, b]) => [Math.min(Math.max(a, box.left), box.right), Math.min(Math.max(b, box.top), box.bottom)];
    svg.addEventListener("pointerdown", (event) => {
      dragged = false;
      if (mouse.matches && event.pointerType === "mouse" && event.button === 0) start = inside(place(event));
    });
    svg.addEventListener("pointermove", (event) => {
      if (!start) return point(event);
      const end = inside(place(event));
      dragged = Math.abs(end[0] - start[0]) > 8 && Math.abs(end[1] - start[1]) > 8;
      frame ??= element(svg, "rect", { fill: css("--accent"), "fill-opacity": 0.12, stroke: css("--accent") });
      const [a, b] = [Math.min(start[0], end[0]), Math.min(start[1], end[1])];
      for (const [key, value] of Object.entries({ x: a, y: b, width: Math.abs(end[0] - start[0]), height: Math.abs(end[1] - start[1]) })) frame.setAttribute(key, value);
    });
    svg.addEventListener("pointerup", (event) => {
      const end = inside(place(event)), from = start;
      start = null;
      frame?.remove();
      frame = null;
      if (!from || !dragged) return;
      const units = (ends, low, high, [a, b]) => [a, b].map((at) => ends[0] + ((at - low) / (high - low)) * (ends[1] - ends[0])).sort((one, other) => one - other);
      div.zoom = { x: units(drawn.x.ends, box.left, box.right, [from[0], end[0]]), y: units(drawn.y.ends, box.bottom, box.top, [from[1], end[1]]) };
      drawn.redraw();
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      dot.setAttribute("visibility", "hidden");
      start = null;
      frame?.remove();
      frame = null;
    });
    const whole = () => {
      div.zoom = null;
      drawn.redraw();
    };
    svg.addEventListener("dblclick", whole);
    if (div.zoom) {
      const button = document.createElement("button");
      [button.type, button.className, button.textContent] = ["button", "whole", "Show all"];
      button.addEventListener("click", whole);
      div.append(button);
    }
    svg.addEventListener("click", (event) => {
      const found = dragged ? null : nearest(targets, place(event));
      if (found && options.open && rowOf(found)) options.open(rowOf(found));
      else if (found) point(event);
    });
  }

  // ---- a picture of a chart, as it is shown
  async function save(div, name) {
    const svg = div.querySelector("svg").cloneNode(true), { width, height } = svg.viewBox.baseVal;
    svg.querySelector(".pointed")?.remove();
    const picture = new Image(), canvas = document.createElement("canvas");
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
    await picture.decode();
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const brush = canvas.getContext("2d");
    brush.fillStyle = css("--card");
    brush.fillRect(0, 0, canvas.width, canvas.height);
    brush.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const link = document.createElement("a");
    [link.href, link.download] = [canvas.toDataURL("image/png"), `${name}.png`];
    link.click();
  }

  return { draw, save };
})();
