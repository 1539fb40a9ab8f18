// Draws the figures from the page's data, stores the hidden architectures in the page's address, and sorts and filters tables.
"use strict";
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = parse("data");
  const boxes = [...document.querySelectorAll("#shown input")];
  const plots = [...document.querySelectorAll(".plot")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const off = new Set();
  let printing = false;

  // The size of a printed chart: two fit side by side on A4 and letter. Scripts cannot read the paper's width.
  const PAPER = { width: 335, height: 170 };

  // The margins of a chart, and the largest distance between adjacent marks of one name on the axis, in pixels.
  const MARGINS = { l: 66, r: 8, t: 8, b: 46 };
  const STEP_MAX = 18;

  // Values with units, to three significant digits, as the program prints them.
  const digits = (v) => {
    const size = Math.abs(v);
    return v.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  };
  const unit = (v, step, names) => {
    let at = 0;
    while (Math.abs(v) >= step && at < names.length - 1) { v /= step; at += 1; }
    return `${digits(v)} ${names[at]}`;
  };
  const words = {
    time: (v) => unit(v / 1e3, 1e3, ["µs", "ms", "s"]),
    bandwidth: (v) => unit(v / 1e3, 1e3, ["kB/s", "MB/s", "GB/s"]),
    bytes: (v) => unit(v, 1024, ["B", "KiB", "MiB"]),
    share: (v) => `${digits(100 * v)} %`,
    times: (v) => `${v.toFixed(2)}x`,
    number: (v) => digits(v),
    nines: (v) => `${+(100 * (1 - 10 ** -v)).toFixed(4)} %`,
    names: (v) => digits(v),
  };

  function theme() {
    const night = dark.matches && !printing;
    return night
      ? { series: "dark", ink: "#e7eaee", grid: "#39414a", paper: "#14181d" }
      : { series: "light", ink: "#1b1f24", grid: "#d5d9de", paper: "#ffffff" };
  }

  // Returns a panel's own axes, or else the figure's.
  const axesOf = (chart, panel) => {
    const [x, y] = panel.axes || [chart.x, chart.y];
    return { x, y };
  };

  function hover(axes, series, point) {
    const [x, y, spread, verdict] = point;
    const lines = [`<b>${data.architectures[series.architecture]}</b>${series.of ? ` ${series.of}` : ""}`];
    if (axes.y.form === "names") {
      const interval = spread ? ` (${spread.map((it) => it.toFixed(3)).join(" to ")})` : "";
      return `${lines[0]}<br>${axes.x.label}: <b>${x.toFixed(3)}</b>${interval}`;
    }
    const value = words[axes.y.form];
    if (axes.x.form === "names") {
      lines.push(`${axes.x.ticks[x][1]} ${axes.x.label}`);
    } else {
      lines.push(`${axes.x.label}: ${words[axes.x.form](x)}`);
    }
    // A spread of three values (p1, p25, p75) lacks the p99, because the client may have caused it.
    if (spread && spread.length >= 3) {
      ["p1", "p25"].forEach((name, at) => lines.push(`${name} ${value(spread[at])}`));
      lines.push(`<b>p50 ${value(y)}</b>`);
      ["p75", "p99"].forEach((name, at) => lines.push(`${name} ${spread[at + 2] === undefined ? "?" : value(spread[at + 2])}`));
    } else {
      const interval = spread && spread.length === 2 ? ` (${value(spread[0])} to ${value(spread[1])})` : "";
      lines.push(`${axes.y.label}: <b>${value(y)}</b>${interval}`);
    }
    if (verdict && verdict !== "valid") lines.push(`not ranked: ${verdict}`);
    return lines.join("<br>");
  }

  // Returns Plotly's traces of one series: its bars, and its line with markers.
  function traces(chart, panel, series, look, width) {
    const style = data.styles[series.architecture];
    const colour = style[look.series];
    const axes = axesOf(chart, panel);
    const places = [...new Set(panel.series.map((it) => it.architecture))];
    const at = places.indexOf(series.architecture);
    const isBeside = chart.shape !== "line" && axes.x.form === "names";
    const span = axes.x.range[1] - axes.x.range[0];
    const step = Math.min(0.72 / places.length, (STEP_MAX * span) / width);
    const shift = isBeside ? (at + 0.5 - places.length / 2) * step : 0;
    const x = series.points.map((point) => point[0] + shift);
    const common = { visible: !off.has(series.architecture), meta: data.architectures[series.architecture], showlegend: false };
    const isAcross = chart.shape === "intervals";
    const bar = (low, high, width) => {
      const ends = series.points.flatMap((point) => (point[2] && point[2].length ? [low(point[2]), high(point[2]), null] : []));
      const at = (point, i) => (isAcross ? point[1] : x[i]);
      const places = series.points.flatMap((point, i) => (point[2] && point[2].length ? [at(point, i), at(point, i), null] : []));
      return {
        ...common, mode: "lines", hoverinfo: "skip", line: { color: colour, width },
        x: isAcross ? ends : places, y: isAcross ? places : ends,
      };
    };
    const bars = [];
    if (chart.shape === "percentiles") {
      bars.push(bar((it) => it[0], (it) => it[it.length - 1], 1.5), bar((it) => it[1], (it) => it[2], 6));
    } else if ((chart.shape === "points" || isAcross) && series.points.some((point) => point[2] && point[2].length)) {
      bars.push(bar((it) => it[0], (it) => it[1], 2));
    }
    const isValid = (point) => !point[3] || point[3] === "valid";
    return [...bars, {
      ...common,
      mode: chart.shape === "line" ? "lines" : "lines+markers",
      opacity: series.of ? 0.5 : 1,
      x, y: series.points.map((point) => point[1]),
      text: series.points.map((point) => hover(axes, series, point)),
      hovertemplate: "%{text}<extra></extra>",
      line: {
        color: colour, width: chart.shape !== "line" || series.of ? 1.2 : 2,
        dash: style.dash.length ? style.dash.map((it) => `${it}px`).join(",") : "solid",
      },
      marker: {
        symbol: style.marker, size: 9,
        color: series.points.map((point) => (isValid(point) ? colour : look.paper)),
        line: { color: colour, width: 1.5 },
      },
    }];
  }

  // Returns the paper's values: stars, or a horizontal or vertical line. On a logarithmic axis Plotly takes plain values,
  // but logarithms for the ends of the axis.
  function published(axes, it, look) {
    const architecture = it.architecture;
    const colour = architecture === undefined ? look.ink : data.styles[architecture][look.series];
    const [x, y] = it.points[0];
    const points = { level: axes.x.range.map((end) => [end, y]), limit: axes.y.range.map((end) => [x, end]) }[it.mark] || it.points;
    const value = (point) => {
      if (it.mark === "level") return words[axes.y.form](point[1]);
      if (it.mark === "limit") return `${axes.x.label}: ${words[axes.x.form](point[0])}`;
      const at = axes.x.form === "names" ? `${axes.x.ticks[point[0]][1]} ${axes.x.label}` : `${axes.x.label}: ${words[axes.x.form](point[0])}`;
      return `${at}<br>${axes.y.label}: <b>${words[axes.y.form](point[1])}</b>`;
    };
    return {
      visible: architecture === undefined || !off.has(architecture), showlegend: false,
      meta: architecture === undefined ? "paper" : data.architectures[architecture],
      mode: it.mark === "points" ? "lines+markers" : "lines",
      x: points.map((point) => point[0]), y: points.map((point) => point[1]),
      text: points.map((point) => `<b>paper: ${it.label}</b><br>${value(point)}`), hovertemplate: "%{text}<extra></extra>",
      line: { color: colour, width: 1.2, dash: it.mark === "points" ? "1px,4px" : "9px,3px" },
      marker: { symbol: "star", size: 10, color: colour },
    };
  }

  function axis(it, look, width) {
    // Show as many names as fit, always including the last.
    const longest = Math.max(1, ...it.ticks.map((tick) => tick[1].length));
    const every = it.form === "names" && width ? Math.ceil((it.ticks.length * (longest * 6.5 + 10)) / width) : 1;
    const ticks = it.ticks.filter((_, at) => (it.ticks.length - 1 - at) % every === 0);
    const place = (v) => (it.log ? Math.log10(v) : v);
    return {
      type: it.log ? "log" : "linear", range: it.range.map(place), fixedrange: true, zeroline: false,
      tickmode: "array", tickvals: ticks.map((tick) => tick[0]), ticktext: ticks.map((tick) => tick[1]),
      gridcolor: look.grid, linecolor: look.grid, showline: true, color: look.ink, tickfont: { size: 11 }, tickangle: 0,
      title: { text: it.label, font: { size: 12 }, standoff: 8 }, automargin: false,
    };
  }

  function draw(plot) {
    const chart = data.figures[plot.dataset.figure];
    const panel = chart.panels[plot.dataset.panel];
    const look = theme();
    const axes = axesOf(chart, panel);
    const isAcross = chart.shape === "intervals";
    const height = isAcross ? parseInt(plot.style.height, 10) : PAPER.height;
    const size = printing ? { ...PAPER, height } : { width: plot.clientWidth, height: plot.clientHeight };
    const names = isAcross ? Math.max(...axes.y.ticks.map((tick) => tick[1].length)) * 6.5 + 14 : 0;
    const margin = { ...MARGINS, l: Math.max(MARGINS.l, Math.min(names, size.width / 2)) };
    const width = Math.max(1, size.width - margin.l - margin.r);
    const layout = {
      margin, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, color: look.ink },
      xaxis: axis(axes.x, look, width), yaxis: axis(axes.y, look),
      hovermode: "closest", dragmode: false, hoverlabel: { bgcolor: look.paper, font: { color: look.ink } },
      ...size,
    };
    const faint = (series) => (series.of ? 0 : 1);
    const ordered = [...panel.series].sort((a, b) => faint(a) - faint(b));
    const printed = (panel.published || []).map((it) => published(axes, it, look));
    const best = { x: [1, 1], y: axes.y.range, mode: "lines", hoverinfo: "skip", showlegend: false, line: { color: look.ink, width: 1 } };
    const all = [...(isAcross ? [best] : []), ...printed, ...ordered.flatMap((series) => traces(chart, panel, series, look, width))];
    Plotly.react(plot, all, layout, { displayModeBar: false });
    plot.dataset.drawn = "";
  }

  // Draws charts near the visible part of the page at once, so that a picture of the page has them, and all others while the
  // browser is idle.
  const NEAR = 400;
  const idle = window.requestIdleCallback || ((act) => setTimeout(act, 20));
  const stale = new Set(plots);
  let isWaiting = false;
  const isNear = (plot) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return bottom > -NEAR && top < innerHeight + NEAR;
  };
  function drawNow(some) {
    some.forEach((plot) => { stale.delete(plot); draw(plot); });
  }
  function refresh() {
    drawNow([...stale].filter((plot) => printing || isNear(plot)));
    if (stale.size === 0 || isWaiting) return;
    isWaiting = true;
    idle(() => {
      isWaiting = false;
      drawNow([...stale].slice(0, 1));
      refresh();
    });
  }
  function change() {
    plots.forEach((plot) => { stale.add(plot); delete plot.dataset.drawn; });
    refresh();
  }

  // Hidden architectures by name: #off=mp,select
  function read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const names = (parts.get("off") || "").split(",");
    off.clear();
    boxes.forEach((box) => {
      box.checked = !names.includes(data.architectures[box.value]);
      if (!box.checked) off.add(Number(box.value));
    });
    select();
  }
  function write() {
    const names = [...off].sort((a, b) => a - b).map((at) => data.architectures[at]);
    const hash = names.length ? `#off=${names.map(encodeURIComponent).join(",")}` : "";
    history.replaceState(null, "", location.pathname + location.search + hash);
  }
  boxes.forEach((box) => box.addEventListener("change", () => {
    off[box.checked ? "delete" : "add"](Number(box.value));
    write();
    select();
    change();
  }));
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#off=")) { read(); change(); }
  });
  dark.addEventListener("change", change);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(change); }
  });
  const paper = (is) => {
    if (printing === is) return;
    printing = is;
    change();
  };
  matchMedia("print").addEventListener("change", (event) => paper(event.matches));
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));

  // Hides the rows of hidden architectures, and the trials that do not match the filter.
  const filter = document.querySelector(".filter");
  function select() {
    document.querySelectorAll("tr[data-architecture]").forEach((row) => { row.hidden = off.has(Number(row.dataset.architecture)); });
    if (!filter) return;
    const trials = [...document.querySelectorAll("#trials tbody tr")];
    const { verdict, words } = filter.elements;
    const wanted = words.value.trim().toLowerCase();
    trials.forEach((row) => {
      const isOff = row.dataset.architecture !== undefined && off.has(Number(row.dataset.architecture));
      const matches = (!verdict.value || row.className === verdict.value) && row.textContent.toLowerCase().includes(wanted);
      row.hidden = isOff || !matches;
    });
    filter.querySelector("output").value = `${trials.filter((row) => !row.hidden).length} of ${trials.length} trials`;
  }
  if (filter) {
    filter.hidden = false;
    filter.addEventListener("input", select);
    filter.addEventListener("submit", (event) => event.preventDefault());
  }

  // Sorts a table by a column on a click on its heading; a second click reverses the order.
  const collator = new Intl.Collator("en", { numeric: true });
  document.querySelectorAll("table.sortable").forEach((table) => table.querySelectorAll("thead th").forEach((heading, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const order = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      table.querySelectorAll("[aria-sort]").forEach((it) => it.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const text = (row) => row.cells[at].textContent;
      const rows = [...table.tBodies[0].rows].sort((a, b) => collator.compare(text(a), text(b)));
      table.tBodies[0].append(...(order === "ascending" ? rows : rows.reverse()));
    });
  }));

  // Saves the numbers as a file on a click.
  document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => {
    const raw = parse("raw");
    const kind = button.dataset.save;
    const [text, type, ending] = kind === "json"
      ? [JSON.stringify(raw.json, null, 2), "application/json", ".json"]
      : [raw[kind], "text/csv", kind === "csv" ? ".csv" : `-${kind}.csv`];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = raw.name + ending;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }));

  // Flame graphs: bars of functions on their callers, of one row or of the difference of two.
  document.querySelectorAll(".flames").forEach((place) => {
    const { functions, rows } = JSON.parse(place.querySelector("script").textContent);
    const [form, stage] = [place.querySelector("form"), place.querySelector(".flame")];
    const option = (label, value) => new Option(label, value);
    rows.forEach((row, at) => {
      form.row.append(option(row.label, at));
      form.base.append(option(row.label, at));
    });
    form.base.prepend(option("none", ""));
    form.base.value = "";
    const node = (name, caller) => ({ name, caller, own: 0, base: 0, calls: new Map() });
    const add = (root, row, field) => {
      const nodes = [root];
      row.calls.forEach(([caller, at, ns]) => {
        const from = nodes[caller];
        const call = from.calls.get(at) || node(functions[at], from);
        from.calls.set(at, call);
        nodes.push(call);
        for (let it = call; it; it = it.caller) it[field] += ns;
      });
    };
    const us = (ns) => `${(ns / 1e3).toFixed(Math.abs(ns) < 100 ? 3 : 2)} µs`;
    let shown;
    function paint() {
      const compares = form.base.value !== "";
      const size = (it) => compares ? (it.own + it.base) / 2 : it.own;
      const path = [];
      for (let it = shown; it; it = it.caller) path.unshift(it);
      const [bars, all] = [[], size(shown)];
      let depth = 0;
      const colour = (it) => {
        if (!compares) return it.name.endsWith("_[k]") ? "hsl(35 80% 72%)" : "hsl(95 40% 70%)";
        const part = Math.max(-1, Math.min(1, 8 * (it.own - it.base) / size(path[0])));
        return `hsl(${part > 0 ? 5 : 215} 75% ${88 - 33 * Math.abs(part)}%)`;
      };
      const bar = (it, level, left, width) => {
        const button = document.createElement("button");
        button.type = "button";
        const name = it.name.replace(/_\[k\]$/, "");
        const text = compares ? `${us(it.own)} - ${us(it.base)} = ${us(it.own - it.base)}` : us(it.own);
        [button.textContent, button.title] = [name, `${name}: ${text} per request`];
        Object.assign(button.style, { left: `${left}%`, width: `${width}%`, background: colour(it), bottom: `${1.15 * level}rem` });
        button.addEventListener("click", () => { shown = it; paint(); });
        bars.push(button);
        depth = Math.max(depth, level + 1);
      };
      const stack = (it, level, left) => {
        const width = 100 * size(it) / all;
        if (width < 0.15) return;
        bar(it, level, left, width);
        let from = left;
        [...it.calls.values()].sort((a, b) => a.name < b.name ? -1 : 1).forEach((call) => {
          stack(call, level + 1, from);
          from += 100 * size(call) / all;
        });
      };
      path.slice(0, -1).forEach((it, level) => bar(it, level, 0, 100));
      if (all > 0) stack(shown, path.length - 1, 0);
      stage.replaceChildren(...bars);
      stage.style.height = `${1.15 * depth}rem`;
      form.querySelector("output").textContent = compares ? `difference: ${us(path[0].own - path[0].base)}` : us(path[0].own);
    }
    function rebuild() {
      shown = node("all", null);
      add(shown, rows[form.row.value], "own");
      if (form.base.value !== "") add(shown, rows[form.base.value], "base");
      paint();
    }
    form.addEventListener("input", rebuild);
    rebuild();
  });
  read();
  refresh();
})();
