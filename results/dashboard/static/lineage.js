/* Lineage: every step as a node under its parent, the way to the best as a line, the question on each edge. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const MOST_EDGES = 4000;
  const MOST_LABELS = 250;
  const LAYER_COLOURS = 8;

  function mountLineage(mount) {
    const tree = {};
    const hidden = new Set();
    let across = ask.state.get("across", "generation");
    let colourBy = ask.state.get("colour", "verdict");
    let chosen = -1;
    let kin = [];
    let heirs = [];
    let best = [];
    let path = [];
    const panel = el("aside", { class: "panel", "aria-label": "Selected candidate" });
    const holder = el("div", { class: "figure-main" });
    mount.classList.add("with-panel");
    mount.replaceChildren(holder, panel);

    const X = (row) => places()[row];
    const parentOf = (row) => (ask.data.col.parent[row] < row ? ask.data.col.parent[row] : -1);
    const unit = () => (figure.px(1) - figure.px(0));

    function prepare() {
      const { n, col } = ask.data;
      ask.layoutTree(tree);
      best = [];
      path = [];
      for (let row = 0; row < n; row++) if (col.flags[row] & ask.FLAG.best) path.push(row);
      best = path.slice(-1);
      const wide = across === "generation" ? Math.max(tree.deepest || 0, 1) + 0.9 : Math.max(n ? col.number[n - 1] : 1, 1);
      figure.setHome({ x0: -wide * 0.02 - (across === "generation" ? 0.1 : 0), x1: wide * 1.02, y0: -1, y1: Math.max(tree.height + 0.5, 8) });
      if (chosen >= 0) follow();
    }
    function follow() {
      kin = ask.ancestry(chosen);
      heirs = [];
      ask.descendants(tree, chosen, (row) => heirs.push(row));
    }

    /** The way from a parent to its child: along the trunk beside the parent, then across. */
    function edge(pen, row) {
      const above = parentOf(row);
      if (above < 0) return;
      const [x0, y0, x1, y1] = [figure.px(X(above)), figure.py(tree.y[above]), figure.px(X(row)), figure.py(tree.y[row])];
      pen.moveTo(x0, y0);
      if (Math.abs(y1 - y0) > 0.5) {
        const trunk = x0 + Math.min(across === "generation" ? unit() * 0.2 : 14, (x1 - x0) * 0.8);
        const bend = Math.min(6, Math.abs(y1 - y0) / 2, Math.abs(x1 - trunk) / 2);
        pen.lineTo(trunk - bend, y0);
        pen.quadraticCurveTo(trunk, y0, trunk, y0 + bend * Math.sign(y1 - y0));
        pen.lineTo(trunk, y1 - bend * Math.sign(y1 - y0));
        pen.quadraticCurveTo(trunk, y1, trunk + bend, y1);
      }
      pen.lineTo(x1, y1);
    }
    function edges(pen, rows, colour, width) {
      pen.strokeStyle = ask.colour(colour);
      pen.lineWidth = width;
      pen.setLineDash([]);
      pen.beginPath();
      rows.forEach((row) => edge(pen, row));
      pen.stroke();
    }

    const places = () => (across === "generation" ? tree.x : ask.data.col.number);

    /** Rows whose node or edge may be seen, those with children first where there are too many. */
    function inView() {
      const { x0, x1, y0, y1 } = figure.view;
      const { parent } = ask.data.col;
      const xs = places();
      const { y: ys, kids } = tree;
      const found = [];
      const leaves = [];
      for (let row = 0; row < ask.data.n; row++) {
        const inner = kids[row] > 0;
        if (inner ? found.length > MOST_EDGES : leaves.length > MOST_EDGES) continue;
        const above = parent[row] < row && parent[row] >= 0 ? parent[row] : row;
        if (xs[row] < x0 || xs[above] > x1) continue;
        const y = ys[row];
        const fromY = ys[above];
        if ((y < y0 && fromY < y0) || (y > y1 && fromY > y1)) continue;
        (inner ? found : leaves).push(row);
      }
      return found.length + leaves.length <= MOST_EDGES ? found.concat(leaves) : found.slice(0, MOST_EDGES);
    }

    function colours() {
      const { col } = ask.data;
      if (colourBy === "layer") {
        const found = [...Array(LAYER_COLOURS).keys()].map((k) => ask.rgb("layer-" + k));
        const none = ask.rgb("f-none");
        return (row) => (col.layer[row] === ask.NO_CODE ? none : found[col.layer[row] % LAYER_COLOURS]);
      }
      if (colourBy === "speed") {
        const none = ask.rgb("ramp-none");
        return (row) => (col.geomean[row] > 0 ? ask.ramp(Math.log2(col.geomean[row])) : none);
      }
      const codes = ask.familyCodes();
      const found = ask.families.map((name) => ask.rgb("f-" + name));
      return (row) => found[codes[col.verdict[row]]];
    }

    function drawNodes(pen) {
      const { n, col } = ask.data;
      const codes = ask.familyCodes();
      const rowHeight = figure.py(1) - figure.py(0);
      const radius = Math.max(1, Math.min(5, rowHeight * 0.36, across === "generation" ? unit() * 0.033 + 0.6 : 5));
      const colour = colours();
      const raster = new ask.Raster(figure);
      const { x0, x1, y0, y1 } = figure.view;
      const [kx, bx, ky, by] = figure.scales;
      const xs = places();
      const { y: ys, kids } = tree;
      const { flags, verdict } = col;
      const shown = codes.map((family) => (hidden.has(ask.families[family]) ? 0 : 1));
      const later = [];
      for (let row = 0; row < n; row++) {
        const x = xs[row];
        const y = ys[row];
        if (x < x0 || x > x1 || y < y0 - 1 || y > y1 + 1 || !shown[verdict[row]]) continue;
        if (kids[row] > 0 || flags[row] & 1) later.push(row);
        else raster.put(x * kx + bx, y * ky + by, colour(row), radius, 0.85);
      }
      for (const row of later) raster.put(xs[row] * kx + bx, ys[row] * ky + by, colour(row), Math.min(6, radius * 1.35), 1);
      raster.flush(pen);
      window.evolveState.drawnPoints = raster.drawn;
    }

    function drawLabels(pen, rows) {
      const rowHeight = figure.py(1) - figure.py(0);
      if (across !== "generation" || unit() < 96 || rowHeight < 11) return;
      const { plot } = figure;
      pen.save();
      pen.beginPath();
      pen.rect(plot.x, plot.y, plot.w, plot.h);
      pen.clip();
      pen.font = ask.font(11);
      pen.textBaseline = "bottom";
      let count = 0;
      for (const row of rows) {
        if (!tree.kids[row] && tree.x[row] % 1) continue;
        if (++count > MOST_LABELS) break;
        const [x, y] = [figure.px(X(row)), figure.py(tree.y[row])];
        const speed = ask.data.col.geomean[row];
        pen.fillStyle = ask.colour("text");
        pen.textAlign = "left";
        if (speed > 0) pen.fillText(ask.format.ratio(speed), x - 4, y - 6);
        const entry = ask.entryOf(row);
        const above = parentOf(row);
        if (!entry || above < 0) continue;
        const room = unit() * 0.78 - 46;
        pen.fillStyle = ask.colour("text-soft");
        pen.textAlign = "right";
        const letters = Math.floor(room / 5.6);
        if (letters > 5) pen.fillText(entry.length > letters ? entry.slice(0, letters - 1) + "…" : entry, x - 10, y - 4);
      }
      pen.restore();
    }

    function draw(pen) {
      const ticks = ask.ticks(Math.max(0, figure.view.x0), figure.view.x1, figure.plot.w / 90).filter(Number.isInteger).map((v) => [v, ask.format.count(v)]);
      const { x, y, w, h } = figure.plot;
      pen.strokeStyle = ask.colour("line-soft");
      pen.lineWidth = 1;
      pen.beginPath();
      for (const [at] of ticks) {
        pen.moveTo(Math.round(figure.px(at)) + 0.5, y);
        pen.lineTo(Math.round(figure.px(at)) + 0.5, y + h);
      }
      pen.stroke();
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      const rows = inView();
      edges(pen, rows, "edge", 1);
      edges(pen, path, "accent", 2.5);
      pen.restore();
      drawNodes(pen);
      drawLabels(pen, rows);
      ask.axes(pen, figure, { x: ticks, y: [] }, { x: across === "generation" ? "generations from the seed" : "attempts, in the order of asking" });
      for (const row of best) star(pen, figure.px(X(row)), figure.py(tree.y[row]));
      if (!ask.data.n) {
        pen.fillStyle = ask.colour("text-soft");
        pen.font = ask.font(15);
        pen.textAlign = "center";
        pen.fillText("Nothing was tried yet. The tree grows here by itself.", x + w / 2, figure.height / 2);
      }
    }
    function star(pen, x, y) {
      const { plot } = figure;
      if (x < plot.x - 9 || x > plot.x + plot.w + 9 || y < plot.y - 9 || y > plot.y + plot.h + 9) return;
      pen.beginPath();
      for (let k = 0; k < 10; k++) {
        const [r, a] = [k % 2 ? 3.8 : 9, (k * Math.PI) / 5 - Math.PI / 2];
        if (k) pen.lineTo(x + r * Math.cos(a), y + r * Math.sin(a));
        else pen.moveTo(x + r * Math.cos(a), y + r * Math.sin(a));
      }
      pen.closePath();
      pen.fillStyle = ask.colour("accent");
      pen.strokeStyle = ask.colour("surface");
      pen.lineWidth = 2;
      pen.stroke();
      pen.fill();
    }

    function mark(pen) {
      const { x, y, w, h } = figure.plot;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      if (chosen >= 0) {
        edges(pen, heirs.slice(0, MOST_EDGES), "heirs", 1.5);
        edges(pen, kin.filter((row) => !(ask.data.col.flags[row] & ask.FLAG.best)), "text", 2);
        ring(pen, chosen, "text");
      }
      if (figure.hover >= 0) {
        edges(pen, [figure.hover], "accent", 2);
        ring(pen, figure.hover, "accent");
      }
      pen.restore();
    }
    function ring(pen, row, colour) {
      pen.strokeStyle = ask.colour(colour);
      pen.lineWidth = 2;
      pen.setLineDash([]);
      pen.beginPath();
      pen.arc(figure.px(X(row)), figure.py(tree.y[row]), 7.5, 0, 7);
      pen.stroke();
    }

    function hit(px, py) {
      const codes = ask.familyCodes();
      const [kx, bx, ky, by] = figure.scales;
      const xs = places();
      let found = -1;
      let nearest = 100;
      for (let row = 0; row < ask.data.n; row++) {
        const away = (xs[row] * kx + bx - px) ** 2 + (tree.y[row] * ky + by - py) ** 2;
        if (away < nearest && !hidden.has(ask.families[codes[ask.data.col.verdict[row]]])) [nearest, found] = [away, row];
      }
      return found;
    }

    function choose(row, quiet) {
      chosen = row;
      [kin, heirs] = [[], []];
      if (row >= 0) {
        follow();
        if (quiet) figure.redraw();
        else figure.centre(X(row), tree.y[row]);
        figure.say("Step " + ask.data.col.number[row] + ", " + (ask.verdictOf(row) || "no verdict") + ", " + ask.format.ratio(ask.data.col.geomean[row]));
      }
      window.evolveState.selected = row >= 0 ? ask.idOf(row) : null;
      if (!quiet) ask.state.set({ step: row >= 0 ? ask.data.col.number[row] : null });
      ask.kinPanel(panel, { row, kin, heirs: heirs.length, choose });
      figure._mark();
    }
    const open = (row) => ask.idOf(row) && location.assign(ask.candidatePage(ask.idOf(row)));

    /** The brothers and sisters of a row in the order in which they stand. */
    function beside(row, by) {
      const family = [];
      const above = parentOf(row);
      for (let child = above < 0 ? tree.roots : tree.first[above]; child >= 0; child = tree.next[child]) family.push(child);
      family.sort((a, b) => tree.y[a] - tree.y[b] || tree.x[a] - tree.x[b]);
      return family[Math.max(0, Math.min(family.length - 1, family.indexOf(row) + by))];
    }
    function key(event) {
      if (!ask.data.n) return false;
      if (event.key === "Home") return choose(tree.roots), true;
      if (event.key === "End" && best.length) return choose(best[0]), true;
      if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "Escape"].includes(event.key)) return false;
      if (event.key === "Escape") return choose(-1), true;
      if (chosen < 0) return choose(best.length ? best[0] : tree.roots), true;
      if (event.key === "Enter") open(chosen);
      else if (event.key === "ArrowLeft" && parentOf(chosen) >= 0) choose(parentOf(chosen));
      else if (event.key === "ArrowRight" && tree.kids[chosen]) choose(tree.lead[chosen]);
      else if (event.key === "ArrowUp") choose(beside(chosen, -1));
      else if (event.key === "ArrowDown") choose(beside(chosen, 1));
      return true;
    }
    function csv() {
      const { n, col } = ask.data;
      const rows = [["step", "candidate", "parent_step", "generation", "island", "verdict", "speedup", "question", "layer", "moment", "accepted", "best_path"]];
      for (let row = 0; row < n; row++) {
        rows.push([col.number[row], ask.idOf(row), col.parent[row] >= 0 ? col.number[col.parent[row]] : "", col.depth[row], col.island[row], ask.verdictOf(row), col.geomean[row],
          ask.entryOf(row), ask.nameOf("layers", col.layer[row]), ask.nameOf("moments", col.moment[row]), col.flags[row] & 1, col.flags[row] & ask.FLAG.best ? 1 : 0]);
      }
      return ask.csv(rows);
    }

    const figure = new ask.Figure(holder, {
      name: "lineage", title: "Family tree of all steps. Arrow keys walk through it, Enter opens a candidate, End goes to the best.", down: true,
      margins: { left: 12, right: 12, top: 8, bottom: 44 }, draw, mark, hit, tip: ask.tipOf, choose, open, key, csv,
    });
    const legend = el("div", { class: "chips", role: "group", "aria-label": "Legend" });
    const chips = el("span", { class: "chips-inner" });
    const scale = el("span", { class: "chips-inner" });
    legend.append(chips, scale);
    const showLegend = () => {
      chips.hidden = colourBy !== "verdict";
      scale.hidden = colourBy === "verdict";
      if (colourBy === "speed") scale.replaceChildren(el("span", { class: "soft" }, "half as fast"), el("i", { class: "ramp" }), el("span", { class: "soft" }, "twice as fast"));
      else scale.replaceChildren(...(ask.data.names.layers || []).map((name, k) => el("span", { class: "chip" }, el("i", { class: "dot layer-" + (k % LAYER_COLOURS) }), name)));
    };
    figure.tools.append(
      ask.choice("Across", [["generation", "generations"], ["attempt", "attempts"]], across, (value) => {
        across = value;
        ask.state.set({ across: value === "generation" ? null : value });
        figure.moved = false;
        prepare();
      }),
      ask.choice("Colour", [["verdict", "verdict"], ["speed", "speed"], ["layer", "layer asked about"]], colourBy, (value) => {
        colourBy = value;
        ask.state.set({ colour: value === "verdict" ? null : value });
        showLegend();
        figure.redraw();
      }), legend);
    const shared = ask.legend(chips, () => {
      hidden.clear();
      shared.forEach((name) => hidden.add(name));
      figure.redraw();
    });
    shared.forEach((name) => hidden.add(name));
    showLegend();
    prepare();
    const wanted = ask.state.get("step", null);
    choose(wanted !== null ? Math.max(-1, ask.rowOfStep(Number(wanted))) : mount.dataset.chosen ? ask.rowOfId(mount.dataset.chosen) : -1, true);
    ask.onchange(prepare);
  }

  ask.lineage = mountLineage;
})();
