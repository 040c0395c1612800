/* What figures are made of: ticks and axes, the raster of very many points, the legend by verdict, the tooltip of a candidate. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;

  /** Round numbers from low to high, about `wanted` of them. */
  ask.ticks = function (low, high, wanted) {
    const raw = (high - low) / Math.max(1, wanted);
    if (!(raw > 0)) return [];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((k) => k * power >= raw) * power;
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step / 1e6 ? 0 : +value.toPrecision(12));
    return found;
  };

  /** Round numbers between 10^low and 10^high, as [logarithm, value]. */
  ask.logTicks = function (low, high, wanted) {
    if (high - low < 0.7) return ask.ticks(10 ** low, 10 ** high, wanted).filter((v) => v > 0).map((v) => [Math.log10(v), v]);
    const digits = high - low < 2.5 ? [1, 2, 5] : [1];
    const step = Math.max(1, Math.ceil((high - low) / 8));
    const found = [];
    for (let power = Math.floor(low); power <= high; power += step) {
      for (const digit of digits) {
        const at = power + Math.log10(digit);
        if (at >= low && at <= high) found.push([at, +(digit * 10 ** power).toPrecision(6)]);
      }
    }
    return found;
  };

  ask.font = (size, weight) => (weight ? weight + " " : "") + size + "px " + ask.colour("font");

  /** Grid lines, tick labels and titles. `ticks` are {x: [[at, text]], y: [[at, text]]}, `titles` {x, y}. */
  ask.axes = function (pen, figure, ticks, titles) {
    const { x, y, w, h } = figure.plot;
    pen.font = ask.font(12);
    pen.lineWidth = 1;
    pen.setLineDash([]);
    pen.strokeStyle = ask.colour("line-soft");
    pen.beginPath();
    for (const [at] of ticks.y) {
      const py = Math.round(figure.py(at)) + 0.5;
      pen.moveTo(x, py);
      pen.lineTo(x + w, py);
    }
    pen.stroke();
    pen.fillStyle = ask.colour("text-soft");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [at, text] of ticks.y) pen.fillText(text, x - 8, figure.py(at));
    pen.textAlign = "center";
    pen.textBaseline = "top";
    let until = -Infinity;
    for (const [at, text] of ticks.x) {
      const px = figure.px(at);
      if (px - text.length * 3.5 < until) continue;
      pen.fillText(text, px, y + h + 8);
      until = px + text.length * 3.5 + 8;
    }
    pen.fillStyle = ask.colour("text-faint");
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    if (titles.x) pen.fillText(titles.x, x + w, figure.height - 2);
    pen.textAlign = "left";
    pen.textBaseline = "top";
    if (titles.y) pen.fillText(titles.y, 4, y - 26);
    pen.strokeStyle = ask.colour("line");
    pen.beginPath();
    pen.moveTo(x, y + h + 0.5);
    pen.lineTo(x + w, y + h + 0.5);
    pen.stroke();
  };

  /** How much of each pixel a disc of this radius covers, in 0..255. */
  function stamp(radius) {
    const size = (Math.ceil(radius + 0.5) - 1) * 2 + 1;
    const cover = new Uint8Array(size * size);
    const middle = (size - 1) / 2;
    for (let j = 0; j < size; j++) for (let i = 0; i < size; i++) cover[j * size + i] = 255 * Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(i - middle, j - middle)));
    return { size, cover };
  }

  /** A picture of discs: put(x, y, [r, g, b], radius, opacity) in pixels of the figure; flush(pen) brings it onto the pen.
      One pass over bytes, since a canvas call for each of 100,000 points takes half a second. */
  let kept = null;
  class Raster {
    constructor(figure) {
      const { x, y, w, h } = figure.plot;
      this.scale = figure.scale;
      Object.assign(this, { x, y, w, h, drawn: 0 });
      this.width = Math.max(1, Math.round(w * this.scale));
      this.height = Math.max(1, Math.round(h * this.scale));
      if (!kept || kept.width !== this.width || kept.height !== this.height) kept = new ImageData(this.width, this.height);
      else kept.data.fill(0);
      this.image = kept; // one raster is drawn at a time, so they share their bytes
      this.bytes = this.image.data;
      this.stamps = new Map();
    }
    put(px, py, colour, radius, opacity) {
      const key = Math.round(radius * this.scale * 4);
      let shape = this.stamps.get(key);
      if (!shape) this.stamps.set(key, (shape = stamp(key / 4)));
      const { size, cover } = shape;
      const left = Math.round((px - this.x) * this.scale) - (size >> 1);
      const top = Math.round((py - this.y) * this.scale) - (size >> 1);
      if (!(left > -size && left < this.width && top > -size && top < this.height)) return;
      this.drawn++;
      const bytes = this.bytes;
      const r = colour[0]; // no destructuring in here: it costs an iterator a point until the engine has optimised it
      const g = colour[1];
      const b = colour[2];
      const share = (opacity * 256) | 0;
      const until = Math.min(size, this.height - top);
      const from = Math.max(0, -left);
      const to = Math.min(size, this.width - left);
      for (let j = Math.max(0, -top); j < until; j++) {
        let at = ((top + j) * this.width + left + from) * 4;
        for (let i = from; i < to; i++, at += 4) {
          const above = (cover[j * size + i] * share) >> 8;
          if (above === 0) continue;
          const there = bytes[at + 3];
          if (there === 0) {
            bytes[at] = r;
            bytes[at + 1] = g;
            bytes[at + 2] = b;
            bytes[at + 3] = above;
            continue;
          }
          const all = above + (((255 - above) * there + 127) / 255 | 0);
          const mix = ((above << 8) / all) | 0;
          bytes[at] += ((r - bytes[at]) * mix) >> 8;
          bytes[at + 1] += ((g - bytes[at + 1]) * mix) >> 8;
          bytes[at + 2] += ((b - bytes[at + 2]) * mix) >> 8;
          bytes[at + 3] = all;
        }
      }
    }
    flush(pen) {
      const canvas = el("canvas", { width: this.width, height: this.height });
      canvas.getContext("2d").putImageData(this.image, 0, 0);
      if (pen.picture) pen.picture(canvas, this.x, this.y, this.w, this.h);
      else pen.drawImage(canvas, this.x, this.y, this.w, this.h);
    }
  }
  ask.Raster = Raster;

  /** The families with a colour for each verdict code, as the rows carry them: [index of the family], 256 long. */
  ask.familyCodes = function () {
    const codes = new Uint8Array(256);
    (ask.data.names.verdicts || ask.verdicts).forEach((name, code) => (codes[code] = ask.families.indexOf(ask.familyOf(name))));
    return codes;
  };

  /** Buttons with the number of rows of each family; pressing one hides or shows it. Kept in the URL as hide=wrong.build */
  ask.legend = function (mount, changed) {
    const hidden = new Set(ask.state.get("hide", "").split(".").filter(Boolean));
    const update = () => {
      const codes = ask.familyCodes();
      const counts = new Uint32Array(ask.families.length);
      const { verdict } = ask.data.col;
      for (let row = 0; row < ask.data.n; row++) counts[codes[verdict[row]]]++;
      const buttons = [...ask.families].reverse().filter((name) => counts[ask.families.indexOf(name)]).map((name) => el("button", {
        type: "button", class: "chip", "aria-pressed": String(!hidden.has(name)), title: "Hide or show", "data-family": name,
        onclick: () => {
          if (!hidden.delete(name)) hidden.add(name);
          ask.state.set({ hide: [...hidden].join(".") });
          update();
          changed();
        },
      }, el("i", { class: "dot f-" + name }), ask.familyWords[name], el("b", {}, ask.format.count(counts[ask.families.indexOf(name)]))));
      const focused = mount.contains(document.activeElement) && document.activeElement.dataset.family;
      mount.replaceChildren(...buttons);
      if (focused) mount.querySelector(`[data-family="${focused}"]`)?.focus();
    };
    update();
    ask.onchange(update);
    return hidden;
  };

  /** A choice of one out of several, as a row of buttons. `choices` are [[value, word]]. */
  ask.choice = function (label, choices, value, chosen) {
    const buttons = choices.map(([key, word]) => el("button", { type: "button", "aria-pressed": String(key === value), onclick: () => {
      buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(choices[at][0] === key)));
      chosen(key);
    } }, word));
    return el("div", { class: "segments", role: "group", "aria-label": label }, el("span", { class: "segments-label" }, label), ...buttons);
  };
})();
