/* A figure: canvas, tools, tooltip, zoom and pan by mouse, touch and keys, and its SVG and CSV. What it shows is its caller's matter. */
(function () {
  "use strict";
  const ask = window.ask;
  const figures = {};
  const el = ask.el;

  /** A figure in `mount`. `options`: {name, title, down (y grows downwards), margins {left, right, top, bottom}, lock ("x": only x
      is zoomed), draw(pen, figure), mark(pen, figure), hit(x, y), tip(row), choose(row), key(event), csv()}; `mark` draws what
      changes with the pointer, on a canvas of its own. */
  class Figure {
    constructor(mount, options) {
      Object.assign(this, { mount, options, hover: -1, view: { x0: 0, x1: 1, y0: 0, y1: 1 }, home: { x0: 0, x1: 1, y0: 0, y1: 1 }, moved: false });
      this.margins = Object.assign({ left: 56, right: 16, top: 12, bottom: 40 }, options.margins);
      this.base = el("canvas", { "aria-hidden": "true" });
      this.top = el("canvas", { "aria-hidden": "true" });
      this.tip = el("div", { class: "tip", hidden: true });
      this.stage = el("div", { class: "stage", tabindex: "0", role: "application", "aria-label": options.title }, this.base, this.top, this.tip);
      this.tools = el("div", { class: "tools" });
      const button = (text, title, onclick) => el("button", { type: "button", class: "quiet", title, onclick }, text);
      const own = el("div", { class: "tools-own" },
        button("Fit", "Show everything (key 0)", () => this.fit()),
        options.csv ? button("CSV", "Save the figures behind this picture", () => ask.save(options.name + ".csv", "text/csv", options.csv())) : null,
        button("SVG", "Save this picture as a drawing", () => ask.save(options.name + ".svg", "image/svg+xml", this.svg())));
      mount.replaceChildren(el("div", { class: "figure-head" }, this.tools, own), this.stage);
      this.said = el("p", { class: "sr-only", "aria-live": "polite" });
      mount.append(this.said);
      this._listen();
      new ResizeObserver(() => this._resize() && this._draw()).observe(this.stage);
      ask.onTheme(() => this.redraw());
      figures[options.name] = this;
      this._resize();
    }

    /** The place of the picture itself, within the margins, in pixels. */
    _measure() {
      const { left, right, top, bottom } = this.margins;
      this.plot = { x: left, y: top, w: Math.max(10, this.width - left - right), h: Math.max(10, this.height - top - bottom) };
    }
    px(x) { return this.plot.x + ((x - this.view.x0) / (this.view.x1 - this.view.x0)) * this.plot.w; }
    py(y) {
      const share = (y - this.view.y0) / (this.view.y1 - this.view.y0);
      return this.plot.y + (this.options.down ? share : 1 - share) * this.plot.h;
    }
    /** [a, b, c, d]: a point lies at pixel a * x + b, c * y + d; for loops over very many. */
    get scales() {
      const { plot, view } = this;
      const a = plot.w / (view.x1 - view.x0);
      const c = (plot.h / (view.y1 - view.y0)) * (this.options.down ? 1 : -1);
      return [a, plot.x - a * view.x0, c, plot.y - c * (this.options.down ? view.y0 : view.y1)];
    }
    x(px) { return this.view.x0 + ((px - this.plot.x) / this.plot.w) * (this.view.x1 - this.view.x0); }
    y(py) {
      const share = (py - this.plot.y) / this.plot.h;
      return this.view.y0 + (this.options.down ? share : 1 - share) * (this.view.y1 - this.view.y0);
    }

    /** Everything is within `home`; the view follows as long as nobody zoomed. */
    setHome(home) {
      this.home = home;
      this._measure();
      if (!this.moved) this.view = Object.assign({}, home);
      this.redraw();
    }
    fit() {
      this.moved = false;
      this.view = Object.assign({}, this.home);
      this._changed();
    }
    _changed() {
      if (this.options.moved) this.options.moved(this);
      this.redraw();
    }
    zoom(fx, fy, px, py) {
      const [x, y, v, h] = [this.x(px), this.y(py), this.view, this.home];
      const width = Math.min(Math.max((v.x1 - v.x0) * fx, (h.x1 - h.x0) * 1e-6), (h.x1 - h.x0) * 1.5);
      const height = Math.min(Math.max((v.y1 - v.y0) * fy, (h.y1 - h.y0) * 1e-6), (h.y1 - h.y0) * 1.5);
      const [kx, ky] = [width / (v.x1 - v.x0), height / (v.y1 - v.y0)];
      this.view = { x0: x - (x - v.x0) * kx, x1: x + (v.x1 - x) * kx, y0: y - (y - v.y0) * ky, y1: y + (v.y1 - y) * ky };
      if (this.options.lock === "x") Object.assign(this.view, { y0: h.y0, y1: h.y1 });
      this.moved = true;
      this._changed();
    }
    pan(dx, dy) {
      const { view, plot, home } = this;
      const moveX = (dx / plot.w) * (view.x1 - view.x0);
      const moveY = this.options.lock === "x" ? 0 : (dy / plot.h) * (view.y1 - view.y0) * (this.options.down ? 1 : -1);
      const keep = (low, high, least, most, move) => (high - move < least || low - move > most ? 0 : move);
      const x = keep(view.x0, view.x1, home.x0, home.x1, moveX);
      const y = keep(view.y0, view.y1, home.y0, home.y1, moveY);
      this.view = { x0: view.x0 - x, x1: view.x1 - x, y0: view.y0 - y, y1: view.y1 - y };
      this.moved = true;
      this._changed();
    }
    /** Brings a point into the view, zoom unchanged. */
    centre(x, y) {
      const { view } = this;
      const [w, h] = [(view.x1 - view.x0) / 2, (view.y1 - view.y0) / 2];
      if (x > view.x0 + w * 0.02 && x < view.x1 - w * 0.02 && y > view.y0 + h * 0.02 && y < view.y1 - h * 0.02) return this.redraw();
      this.view = { x0: x - w, x1: x + w, y0: y - h, y1: y + h };
      this.moved = true;
      this._changed();
    }

    redraw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this._draw();
      });
    }
    _draw() {
      if (!this.width) return;
      const began = performance.now();
      const pen = this._pen(this.base);
      this.options.draw(pen, this);
      this._mark();
      const state = window.evolveState;
      state.frame_ms = performance.now() - began;
      if (!state.firstPaint_ms) state.firstPaint_ms = performance.now();
    }
    _mark() {
      const pen = this._pen(this.top);
      if (this.options.mark) this.options.mark(pen, this);
    }
    _pen(canvas) {
      const pen = canvas.getContext("2d");
      pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
      pen.clearRect(0, 0, this.width, this.height);
      return pen;
    }
    _resize() {
      const box = this.stage.getBoundingClientRect();
      const scale = window.devicePixelRatio || 1;
      if (box.width === this.width && box.height === this.height && scale === this.scale) return false;
      Object.assign(this, { width: box.width, height: box.height, scale });
      for (const canvas of [this.base, this.top]) {
        canvas.width = Math.round(box.width * scale);
        canvas.height = Math.round(box.height * scale);
      }
      this._measure();
      return true;
    }
    svg() {
      const pen = new ask.SvgPen(Math.round(this.width), Math.round(this.height));
      pen.fillStyle = ask.colour("surface");
      pen.fillRect(0, 0, this.width, this.height);
      this.options.draw(pen, this);
      if (this.options.mark) this.options.mark(pen, this);
      return pen.text(this.options.title);
    }

    _listen() {
      const at = (event) => {
        const box = this.stage.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      const pointers = new Map();
      let dragged = 0;
      this.stage.addEventListener("wheel", (event) => {
        event.preventDefault();
        const factor = Math.exp(Math.max(-100, Math.min(100, event.deltaY || event.deltaX)) * 0.0025);
        const [px, py] = at(event);
        const overY = px < this.margins.left;
        const overX = py > this.height - this.margins.bottom;
        this.zoom(event.altKey || overY ? 1 : factor, event.shiftKey || (overX && !overY) ? 1 : factor, px, py);
      }, { passive: false });
      this.stage.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, at(event));
        dragged = 0;
        this.stage.setPointerCapture(event.pointerId);
      });
      this.stage.addEventListener("pointermove", (event) => {
        const [px, py] = at(event);
        const before = pointers.get(event.pointerId);
        if (!before) return this._hover(px, py);
        const [dx, dy] = [px - before[0], py - before[1]];
        dragged += Math.abs(dx) + Math.abs(dy);
        pointers.set(event.pointerId, [px, py]);
        if (pointers.size === 2) {
          const [a, b] = [...pointers.values()];
          const spread = Math.hypot(a[0] - b[0], a[1] - b[1]);
          if (this.spread) this.zoom(this.spread / spread, this.spread / spread, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
          this.spread = spread;
        } else if (dragged > 4) {
          this.pan(dx, dy);
          this._hover(-1, -1);
        }
      });
      const up = (event) => {
        const known = pointers.delete(event.pointerId);
        this.spread = 0;
        if (!known || event.type === "pointercancel" || dragged > 4) return;
        const row = this.options.hit ? this.options.hit(...at(event)) : -1;
        if (this.options.choose) this.options.choose(row);
      };
      this.stage.addEventListener("pointerup", up);
      this.stage.addEventListener("pointercancel", up);
      this.stage.addEventListener("pointerleave", () => this._hover(-1, -1));
      this.stage.addEventListener("dblclick", (event) => {
        const row = this.options.hit ? this.options.hit(...at(event)) : -1;
        if (row >= 0 && this.options.open) this.options.open(row);
        else if (row < 0) this.fit();
      });
      this.stage.addEventListener("keydown", (event) => this._key(event));
    }
    _hover(px, py) {
      const row = px >= 0 && this.options.hit ? this.options.hit(px, py) : -1;
      if (row !== this.hover) {
        this.hover = row;
        this.stage.classList.toggle("over", row >= 0);
        this.tip.hidden = row < 0;
        if (row >= 0) this.tip.replaceChildren(this.options.tip(row));
        this._mark();
      }
      if (row >= 0) {
        const box = this.tip.getBoundingClientRect();
        this.tip.style.left = Math.max(4, Math.min(px + 16, this.width - box.width - 4)) + "px";
        this.tip.style.top = (py + 20 + box.height > this.height && py - box.height - 12 > -80 ? py - box.height - 12 : py + 20) + "px";
      }
    }
    _key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.options.key && this.options.key(event)) return event.preventDefault();
      const { plot } = this;
      const [x, y] = [plot.x + plot.w / 2, plot.y + plot.h / 2];
      const acts = {
        "+": () => this.zoom(0.8, 0.8, x, y), "=": () => this.zoom(0.8, 0.8, x, y), "-": () => this.zoom(1.25, 1.25, x, y), 0: () => this.fit(),
        ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0), ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
      };
      if (!acts[event.key]) return;
      acts[event.key]();
      event.preventDefault();
    }
    say(text) { this.said.textContent = text; }
  }
  ask.Figure = Figure;
  /** The SVG of a figure on this page, by its name. */
  ask.exportSvg = (name) => figures[name].svg();
  ask.figures = figures;
})();
