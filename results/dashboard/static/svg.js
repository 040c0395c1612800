/* A pen with the part of a canvas's interface that the figures draw with, whose drawing is the text of an SVG. */
(function () {
  "use strict";
  const ask = window.ask;
  const round = (value) => Math.round(value * 100) / 100;
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c])
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  const ANCHOR = { left: "start", center: "middle", right: "end" };
  const BASELINE = { alphabetic: "0", middle: "0.35em", top: "0.8em", bottom: "-0.2em" };

  class SvgPen {
    constructor(width, height) {
      Object.assign(this, {
        width, height, parts: [], path: "", open: 0, saved: [], clips: 0, strokeStyle: "#000", fillStyle: "#000", lineWidth: 1,
        font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic", globalAlpha: 1, dash: [], lineJoin: "miter",
      });
    }
    save() {
      const { strokeStyle, fillStyle, lineWidth, font, textAlign, textBaseline, globalAlpha, dash, open } = this;
      this.saved.push({ strokeStyle, fillStyle, lineWidth, font, textAlign, textBaseline, globalAlpha, dash, open });
    }
    restore() {
      const before = this.saved.pop();
      for (; this.open > before.open; this.open--) this.parts.push("</g>");
      Object.assign(this, before);
    }
    beginPath() { this.path = ""; }
    moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
    lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
    quadraticCurveTo(a, b, x, y) { this.path += `Q${round(a)} ${round(b)} ${round(x)} ${round(y)}`; }
    closePath() { this.path += "Z"; }
    rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }
    arc(x, y, r) {
      this.path += `M${round(x - r)} ${round(y)}a${round(r)} ${round(r)} 0 1 0 ${round(2 * r)} 0a${round(r)} ${round(r)} 0 1 0 ${round(-2 * r)} 0`;
    }
    setLineDash(dash) { this.dash = dash; }
    clip() {
      this.clips++;
      this.parts.push(`<clipPath id="c${this.clips}"><path d="${this.path}"/></clipPath><g clip-path="url(#c${this.clips})">`);
      this.open++;
    }
    _shade() { return this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : ""; }
    stroke() {
      const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
      this.parts.push(`<path d="${this.path}" fill="none" stroke="${escape(this.strokeStyle)}" stroke-width="${round(this.lineWidth)}"${dash}${this._shade()}/>`);
    }
    fill() { this.parts.push(`<path d="${this.path}" fill="${escape(this.fillStyle)}"${this._shade()}/>`); }
    fillRect(x, y, w, h) {
      this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${escape(this.fillStyle)}"${this._shade()}/>`);
    }
    strokeRect(x, y, w, h) {
      this.beginPath();
      this.rect(x, y, w, h);
      this.stroke();
    }
    fillText(text, x, y) {
      const [, weight, size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font) || [0, "", 12, "sans-serif"];
      this.parts.push(`<text x="${round(x)}" y="${round(y)}" dy="${BASELINE[this.textBaseline]}" text-anchor="${ANCHOR[this.textAlign]}" ` +
        `font-size="${size}" font-family="${escape(family)}"${weight ? ` font-weight="${weight}"` : ""} fill="${escape(this.fillStyle)}"${this._shade()}>${escape(text)}</text>`);
    }
    picture(canvas, x, y, w, h) {
      this.parts.push(`<image x="${x}" y="${y}" width="${w}" height="${h}" href="${canvas.toDataURL()}"/>`);
    }
    text(title) {
      return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}">` +
        `<title>${escape(title)}</title>${this.parts.join("")}${"</g>".repeat(this.open)}</svg>\n`;
    }
  }
  ask.SvgPen = SvgPen;
})();
