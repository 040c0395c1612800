/* A grid of coloured cells: speed by colour, a hollow dot where the interval holds 1, the number where there is room for it. */
(function () {
  "use strict";
  const ask = window.ask;
  const ROW_PX = 24;
  const MOST_CELL_PX = 92;
  const linear = (part) => ((part / 255 + 0.055) / 1.055) ** 2.4;
  /** Relative luminance of a colour, 0 to 1 (WCAG 2; the straight part near black is left out). */
  const luminance = (r, g, b) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);

  /** A heat map in `mount`. `model()` gives {rows: [text], columns: [text], cell(row, column): {value, low, high, note} or null,
      tip(row, column): node, open(column, row), rule: rows that have a line below}; it is asked again after every `update()`. */
  ask.heat = function (mount, { name, title, left, xTitle, model, csv }) {
    let now = model();
    let at = [0, 0];
    const index = (row, column) => row * now.columns.length + column;
    const split = (found) => [Math.floor(found / now.columns.length), found % now.columns.length];

    function size() {
      const { rows, columns } = now;
      figure.stage.style.height = Math.max(120, rows.length * ROW_PX + figure.margins.top + figure.margins.bottom) + "px";
      figure.setHome({ x0: 0, x1: Math.max(columns.length, (figure.width - left - 16) / MOST_CELL_PX), y0: 0, y1: Math.max(1, rows.length) });
    }

    function draw(pen) {
      const { rows, columns, cell, rule } = now;
      const { x, y, w, h } = figure.plot;
      const [wide, tall] = [figure.px(1) - figure.px(0), figure.py(1) - figure.py(0)];
      pen.font = ask.font(12);
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      let drawn = 0;
      rows.forEach((text, row) => {
        const py = figure.py(row + 0.5);
        if (py < y - 1 || py > y + h + 1) return;
        pen.fillStyle = ask.colour(row < (rule || 0) ? "text" : "text-soft");
        const letters = Math.floor((left - 16) / 6.4);
        pen.fillText(text.length > letters ? "…" + text.slice(text.length - letters + 1) : text, x - 8, py);
      });
      pen.textAlign = "center";
      const every = Math.max(1, Math.ceil(Math.max(...columns.map((text) => text.length), 1) * 7 / wide));
      columns.forEach((text, column) => {
        const px = figure.px(column + 0.5);
        if (column % every || px < x || px > x + w) return;
        pen.fillStyle = ask.colour("text-soft");
        pen.fillText(text, px, y - 12);
      });
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      for (let row = 0; row < rows.length; row++) for (let column = 0; column < columns.length; column++) {
        const [px, py] = [figure.px(column), figure.py(row)];
        if (px > x + w || px + wide < x || py > y + h || py + tall < y) continue;
        const found = cell(row, column);
        const gap = Math.min(1, wide / 6);
        if (!found) {
          pen.fillStyle = ask.colour("sunken");
          pen.fillRect(px + gap, py + 1, wide - 2 * gap, tall - 2);
          continue;
        }
        drawn++;
        const [r, g, b] = found.value > 0 ? ask.ramp(Math.log2(found.value)) : ask.rgb("ramp-none");
        pen.fillStyle = `rgb(${r | 0},${g | 0},${b | 0})`;
        pen.fillRect(px + gap, py + 1, wide - 2 * gap, tall - 2);
        const ink = luminance(r, g, b) > 0.2 ? "#0b0d10" : "#ffffff"; // the one with more contrast
        pen.fillStyle = pen.strokeStyle = ink;
        const text = found.note || (found.value > 0 ? found.value.toFixed(wide > 46 ? 3 : 2) : "");
        if (wide > text.length * 7 + 4 && tall > 13) pen.fillText(text, px + wide / 2, py + tall / 2);
        if (found.low < 1 && found.high > 1 && wide > 5) {
          pen.lineWidth = 1;
          pen.beginPath();
          pen.arc(px + wide - Math.min(7, wide / 2), py + 6, 2, 0, 7);
          pen.stroke();
        }
      }
      if (rule) {
        pen.fillStyle = ask.colour("surface");
        pen.fillRect(x, figure.py(rule) - 1.5, w, 3);
      }
      pen.restore();
      pen.fillStyle = ask.colour("text-faint");
      pen.textAlign = "left";
      pen.fillText(xTitle, x, figure.height - 10);
      window.evolveState.drawnPoints = drawn;
    }
    function outline(pen, row, column, colour) {
      pen.strokeStyle = ask.colour(colour);
      pen.lineWidth = 2;
      pen.strokeRect(figure.px(column), figure.py(row), figure.px(1) - figure.px(0), figure.py(1) - figure.py(0));
    }
    function mark(pen) {
      if (document.activeElement === figure.stage) outline(pen, at[0], at[1], "text");
      if (figure.hover >= 0) outline(pen, ...split(figure.hover), "accent");
    }
    function hit(px, py) {
      const [row, column] = [Math.floor(figure.y(py)), Math.floor(figure.x(px))];
      const { plot } = figure;
      const inside = px >= plot.x && px <= plot.x + plot.w && py >= plot.y && py <= plot.y + plot.h;
      return inside && row >= 0 && row < now.rows.length && column >= 0 && column < now.columns.length && now.cell(row, column) ? index(row, column) : -1;
    }
    function key(event) {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Enter") return now.open(at[1], at[0]), true;
      if (!step || !now.columns.length) return false;
      at = [Math.max(0, Math.min(now.rows.length - 1, at[0] + step[0])), Math.max(0, Math.min(now.columns.length - 1, at[1] + step[1]))];
      const found = now.cell(...at);
      window.evolveState.selected = now.rows[at[0]] + " / " + now.columns[at[1]];
      figure.say(now.rows[at[0]] + ", " + now.columns[at[1]] + ": " + (found ? ask.format.ratio(found.value) : "not measured"));
      figure._mark();
      return true;
    }
    const figure = new ask.Figure(mount, {
      name, title, down: true, margins: { left, right: 16, top: 28, bottom: 28 }, draw, mark, hit, tip: (found) => now.tip(...split(found)), key, csv,
      open: (found) => now.open(split(found)[1], split(found)[0]), choose: (found) => {
        if (found >= 0) at = split(found);
        figure.stage.focus();
        figure._mark();
      },
    });
    figure.tools.append(ask.el("span", { class: "chips-inner dim" }, "half as fast", ask.el("i", { class: "ramp" }), "twice as fast"));
    size();
    return { figure, update: () => {
      now = model();
      size();
    } };
  };
})();
