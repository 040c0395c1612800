/* Progress: every candidate and the running best, over attempts, time or cost; failures in lanes below, since they have no speed. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const AXES = [["step", "attempts"], ["time", "time"], ["cost", "cost"]];
  const X_TITLES = { step: "attempts, in the order of asking", time: "time since the start of the run", cost: "money spent on answers so far, US dollars" };

  function mountProgress(mount) {
    const compact = mount.dataset.compact !== undefined;
    const LANE_PX = compact ? 9 : 14;
    const saved = (key, fallback) => (compact ? fallback : ask.state.get(key, fallback));
    let xKind = saved("x", "step");
    let yKind = saved("y", "");
    let xs = new Float64Array(0);
    let lanes = [];
    let best = [];
    let range = [0.5, 1.5];
    let hidden = new Set();
    let chosen = -1;
    let crowded = false;
    const logY = () => yKind === "log" || (!yKind && range[1] / range[0] > 8);
    const toY = (value) => (logY() ? Math.log10(value) : value);
    const speeds = () => ask.data.col.geomean || [];

    function prepare() {
      const { n, col } = ask.data;
      const codes = ask.familyCodes();
      if (xs.length < n) xs = new Float64Array(n * 2);
      let low = Infinity;
      let high = -Infinity;
      let cost = 0;
      const used = new Set();
      for (let row = 0; row < n; row++) {
        cost += col.cost_usd[row] > 0 ? col.cost_usd[row] : 0;
        xs[row] = xKind === "step" ? col.number[row] : xKind === "time" ? col.at[row] : cost;
        const value = col.geomean[row];
        if (value > 0) {
          if (value < low) low = value;
          if (value > high) high = value;
        } else used.add(codes[col.verdict[row]]);
      }
      lanes = [...ask.families.keys()].filter((family) => used.has(family)).reverse();
      best = ask.bestRows();
      range = low <= high ? [Math.min(low, 1), Math.max(high, 1, goal() || 0)] : [0.5, 1.5];
      figure.margins.bottom = 48 + lanes.length * LANE_PX + (lanes.length ? 10 : 0);
      const last = n ? xs[n - 1] : 0;
      const most = xKind === "step" ? Math.max(last, 1) : Math.max(last, 1e-9);
      const [bottom, top] = [toY(range[0]), toY(range[1])];
      const room = Math.max((top - bottom) * 0.06, 1e-3);
      figure.setHome({ x0: -most * 0.015, x1: most * 1.015, y0: bottom - room, y1: top + room });
    }
    const goal = () => parseFloat(mount.dataset.goal) || 0;

    const laneY = (lane) => figure.plot.y + figure.plot.h + 10 + (lane + 0.5) * LANE_PX;
    const place = (row, codes) => {
      const value = speeds()[row];
      if (value > 0) return figure.py(toY(value));
      const lane = laneY(lanes.indexOf(codes[ask.data.col.verdict[row]]));
      return crowded ? lane + spread(row) : lane;
    };
    const spread = (row) => (((row * 40503) & 1023) / 1023 - 0.5) * (LANE_PX - 4); // so that how dense they are shows
    const visible = (row, codes) => !hidden.has(ask.families[codes[ask.data.col.verdict[row]]]);

    function xTicks() {
      const { x0, x1 } = figure.view;
      const wanted = figure.plot.w / 110;
      if (xKind === "step") return ask.ticks(Math.max(0, x0), x1, wanted).filter(Number.isInteger).map((v) => [v, ask.format.count(v)]);
      if (xKind === "cost") return ask.ticks(Math.max(0, x0), x1, wanted).map((v) => [v, "$" + v]);
      const [unit, word] = x1 - x0 > 7200 ? [3600, "h"] : x1 - x0 > 180 ? [60, "min"] : [1, "s"];
      return ask.ticks(Math.max(0, x0) / unit, x1 / unit, wanted).map((v) => [v * unit, v + " " + word]);
    }
    function yTicks() {
      const { y0, y1 } = figure.view;
      const wanted = Math.max(3, figure.plot.h / 56);
      return logY() ? ask.logTicks(y0, y1, wanted).map(([at, v]) => [at, v + "×"]) : ask.ticks(y0, y1, wanted).filter((v) => v >= 0).map((v) => [v, +v.toPrecision(6) + "×"]);
    }

    /** The first row at or after x; the rows' x never fall. */
    function firstAt(x) {
      let low = 0;
      let high = ask.data.n;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (xs[middle] < x) low = middle + 1;
        else high = middle;
      }
      return low;
    }

    function drawPoints(pen) {
      const { verdict, flags } = ask.data.col;
      const codes = ask.familyCodes();
      const [from, until] = [Math.max(0, firstAt(figure.view.x0) - 1), Math.min(ask.data.n, firstAt(figure.view.x1) + 1)];
      const many = until - from;
      crowded = many > 3000;
      const radius = (many > 20000 ? 1.25 : many > 3000 ? 1.9 : many > 400 ? 2.8 : 4) * (compact ? 0.8 : 1);
      const opacity = many > 20000 ? 0.5 : many > 3000 ? 0.7 : 0.9;
      const colours = ask.families.map((name) => ask.rgb("f-" + name));
      const raster = new ask.Raster({ plot: { ...figure.plot, h: figure.height - figure.plot.y - 38 }, scale: figure.scale });
      const shown = codes.map((family) => (hidden.has(ask.families[family]) ? 0 : 1));
      const [kx, bx, ky, by] = figure.scales;
      const geomean = speeds();
      const logarithmic = logY();
      const laneOf = codes.map((family) => lanes.indexOf(family)); // -1, of families without a lane, is 255 here and never asked for
      const lowest = laneY(0);
      const [top, bottom] = [figure.plot.y, figure.plot.y + figure.plot.h];
      const accepted = [];
      for (let row = from; row < until; row++) {
        if (!shown[verdict[row]]) continue;
        if (flags[row] & 1) {
          accepted.push(row);
          continue;
        }
        const value = geomean[row];
        const code = verdict[row];
        if (value > 0) {
          const y = (logarithmic ? Math.log10(value) : value) * ky + by;
          if (y <= bottom && y >= top) raster.put(xs[row] * kx + bx, y, colours[codes[code]], radius, opacity * 0.75);
        } else {
          const lane = lowest + laneOf[code] * LANE_PX;
          const y = crowded ? lane + spread(row) : lane;
          raster.put(xs[row] * kx + bx, y, colours[codes[code]], radius, many > 20000 ? 0.22 : opacity);
        }
      }
      for (const row of accepted) {
        const y = place(row, codes);
        if (y <= bottom && y >= top) raster.put(xs[row] * kx + bx, y, colours[codes[verdict[row]]], radius * 1.35, 1);
      }
      raster.flush(pen);
      window.evolveState.drawnPoints = raster.drawn;
    }

    function clipped(pen, draw) {
      const { x, y, w, h } = figure.plot;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      draw();
      pen.restore();
    }

    function level(pen, value, colour, dash) {
      const y = figure.py(toY(value));
      pen.strokeStyle = ask.colour(colour);
      pen.lineWidth = 1.25;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(figure.plot.x, y);
      pen.lineTo(figure.plot.x + figure.plot.w, y);
      pen.stroke();
      pen.setLineDash([]);
    }

    /** What the lines are, beside their right ends, none on top of another. */
    function drawWords(pen) {
      const { x, y, w, h } = figure.plot;
      const words = [[1, "baseline", "text-soft", 0]];
      if (goal()) words.push([goal(), "goal " + ask.format.ratio(goal()), "goal", 0]);
      if (best.length) words.push([speeds()[best[best.length - 1]], "best " + ask.format.ratio(speeds()[best[best.length - 1]]), "accent-text", 600]);
      const placed = words.map(([value, text, colour, weight]) => ({ y: figure.py(toY(value)), text, colour, weight })).filter((one) => one.y >= y - 2 && one.y <= y + h + 2);
      placed.sort((a, b) => a.y - b.y).forEach((one, k) => (one.at = k ? Math.max(one.y, placed[k - 1].at + 16) : one.y));
      pen.textAlign = "left";
      pen.textBaseline = "middle";
      for (const one of placed) {
        pen.font = ask.font(12, one.weight);
        pen.fillStyle = ask.colour(one.colour);
        pen.fillText(one.text, x + w + 6, one.at);
      }
    }

    function drawBest(pen) {
      const { low, high } = ask.data.col;
      const end = figure.px(ask.data.n ? xs[ask.data.n - 1] : 0);
      const path = (of) => best.map((row) => [figure.px(xs[row]), figure.py(toY(Math.max(of[row], 1e-9)))]);
      const stairs = (points, back) => {
        points.forEach(([x, y], at) => {
          const next = at + 1 < points.length ? points[at + 1][0] : end;
          if (!back) {
            if (at) pen.lineTo(x, y);
            else pen.moveTo(x, y);
            pen.lineTo(next, y);
          }
        });
        if (back) for (let at = points.length - 1; at >= 0; at--) {
          pen.lineTo(at + 1 < points.length ? points[at + 1][0] : end, points[at][1]);
          pen.lineTo(points[at][0], points[at][1]);
        }
      };
      if (best.every((row) => low[row] > 0 && high[row] > 0)) {
        pen.fillStyle = ask.colour("accent");
        pen.globalAlpha = 0.14;
        pen.beginPath();
        stairs(path(high), false);
        stairs(path(low), true);
        pen.closePath();
        pen.fill();
        pen.globalAlpha = 1;
      }
      pen.strokeStyle = ask.colour("accent");
      pen.lineWidth = 2;
      pen.beginPath();
      stairs(path(speeds()), false);
      pen.stroke();
      const points = path(speeds());
      pen.fillStyle = ask.colour("surface");
      for (const [x, y] of points.length < 200 ? points : points.slice(-1)) {
        pen.beginPath();
        pen.arc(x, y, compact ? 2.5 : 3.5, 0, 7);
        pen.fill();
        pen.stroke();
      }
    }

    function draw(pen) {
      ask.axes(pen, figure, { x: [], y: yTicks() }, { y: compact ? "" : "times as fast as the baseline" });
      drawPoints(pen);
      clipped(pen, () => {
        level(pen, 1, "text-faint", [5, 4]);
        if (goal()) level(pen, goal(), "goal", [2, 3]);
        if (best.length) drawBest(pen);
      });
      drawWords(pen);
      const foot = { plot: { ...figure.plot, h: figure.height - figure.plot.y - 38 }, height: figure.height, px: (x) => figure.px(x) };
      ask.axes(pen, foot, { x: xTicks(), y: [] }, { x: X_TITLES[xKind] });
      pen.font = ask.font(11);
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      lanes.forEach((family, lane) => {
        pen.fillStyle = ask.colour("text-soft");
        if (!compact) pen.fillText(LANE_WORDS[ask.families[family]], figure.plot.x - 8, laneY(lane));
      });
      if (!ask.data.n) {
        pen.fillStyle = ask.colour("text-soft");
        pen.font = ask.font(15);
        pen.textAlign = "center";
        pen.fillText("Nothing was tried yet. The first candidates appear here by themselves.", figure.plot.x + figure.plot.w / 2, figure.height / 2);
      }
    }
    const LANE_WORDS = { ok: "correct", slower: "too slow", build: "not built", crash: "stopped", wrong: "wrong", cheat: "cheats", unsettled: "unsettled", none: "no verdict" };

    function ring(pen, row, colour) {
      const codes = ask.familyCodes();
      pen.strokeStyle = ask.colour(colour);
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(figure.px(xs[row]), place(row, codes), 7, 0, 7);
      pen.stroke();
    }
    function mark(pen) {
      if (chosen >= 0 && chosen < ask.data.n) ring(pen, chosen, "text");
      if (figure.hover >= 0) ring(pen, figure.hover, "accent");
    }

    function hit(x, y) {
      const codes = ask.familyCodes();
      const reach = (7 / figure.plot.w) * (figure.view.x1 - figure.view.x0);
      const until = firstAt(figure.x(x) + reach);
      let found = -1;
      let nearest = 64;
      for (let row = firstAt(figure.x(x) - reach); row < until; row++) {
        if (!visible(row, codes)) continue;
        const away = (figure.px(xs[row]) - x) ** 2 + (place(row, codes) - y) ** 2;
        if (away <= nearest) [nearest, found] = [away, row];
      }
      return found;
    }

    function choose(row) {
      chosen = row;
      window.evolveState.selected = row >= 0 ? ask.idOf(row) : null;
      if (!compact) ask.state.set({ step: row >= 0 ? ask.data.col.number[row] : null });
      if (row >= 0) figure.say("Step " + ask.data.col.number[row] + ", " + (ask.verdictOf(row) || "no verdict") + ", " + ask.format.ratio(speeds()[row]));
      figure._mark();
    }
    const open = (row) => ask.idOf(row) && location.assign(ask.candidatePage(ask.idOf(row)));
    function key(event) {
      if (event.key === "Enter" && chosen >= 0) return open(chosen), true;
      if (event.key !== "." && event.key !== ",") return false;
      if (best.length) choose(best[Math.max(0, Math.min(best.length - 1, (best.includes(chosen) ? best.indexOf(chosen) : best.length) + (event.key === "." ? 1 : -1)))]);
      return true;
    }
    function csv() {
      const { n, col } = ask.data;
      const rows = [["step", "candidate", "verdict", "speedup", "low", "high", "at_s", "cost_usd", "accepted"]];
      for (let row = 0; row < n; row++) rows.push([col.number[row], ask.idOf(row), ask.verdictOf(row), col.geomean[row], col.low[row], col.high[row], col.at[row], col.cost_usd[row], col.flags[row] & 1]);
      return ask.csv(rows);
    }

    const figure = new ask.Figure(mount, {
      name: "progress", title: "Speed of every candidate and the running best", lock: compact ? "x" : "", margins: { left: compact ? 48 : 76, right: 92, top: compact ? 12 : 30 },
      draw, mark, hit, tip: ask.tipOf, choose, open, key, csv,
    });
    if (compact) figure.stage.classList.add("stage-compact");
    else {
      const legend = el("div", { class: "chips", role: "group", "aria-label": "Verdicts" });
      figure.tools.append(
        ask.choice("Across", AXES, xKind, (value) => {
          xKind = value;
          ask.state.set({ x: value === "step" ? null : value });
          figure.moved = false;
          prepare();
        }),
        ask.choice("Scale", [["linear", "linear"], ["log", "logarithmic"]], logY() ? "log" : "linear", (value) => {
          yKind = value;
          ask.state.set({ y: value });
          figure.moved = false;
          prepare();
        }), legend);
      hidden = ask.legend(legend, () => figure.redraw());
    }
    prepare();
    if (!compact && ask.state.get("step", null) !== null) choose(ask.rowOfStep(Number(ask.state.get("step", -1))));
    ask.onchange(prepare);
  }

  ask.progress = mountProgress;
})();
