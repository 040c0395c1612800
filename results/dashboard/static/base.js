/* What every script needs: where the pages lie, words and numbers as people read them, colours of the theme, state in the URL. */
(function () {
  "use strict";
  const ask = (window.ask = window.ask || {});
  ask.root = new URL("..", document.currentScript.src).href;
  ask.report = () => window.ASK_DATA || null;
  window.evolveState = { rows: 0, selected: null, drawnPoints: 0, lastSeq: 0, frame_ms: 0, firstPaint_ms: 0, delta_ms: 0 };

  /** A new element. Text becomes a text node and never markup: it may come from a model or a compiler. */
  ask.el = function (tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "onclick" || name === "onchange" || name === "oninput") node[name] = value;
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  };

  /** The address of a page of this run, the same for a server behind any prefix and for a folder on a disk. */
  ask.page = function (name) {
    if (!ask.report()) return ask.root + name;
    const [path, query] = name.split("?");
    return ask.root + path + ".html" + (query ? "?" + query : "");
  };
  ask.candidatePage = function (id) {
    const own = ask.report();
    if (own && !(own.pages || []).includes(id)) return ask.root + "candidate.html#" + id;
    return ask.page("candidate/" + id);
  };

  const count = new Intl.NumberFormat("en-US");
  const finite = Number.isFinite;
  ask.format = {
    count: (value) => count.format(value),
    ratio: (value) => (finite(value) ? (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(3)) + "×" : "–"),
    interval: (low, high) => (finite(low) && finite(high) ? low.toFixed(3) + " to " + high.toFixed(3) : "no interval"),
    seconds: (value) => {
      if (!finite(value)) return "–";
      if (value < 1) return (value * 1000).toFixed(0) + " ms";
      if (value < 120) return value.toFixed(value < 10 ? 1 : 0) + " s";
      if (value < 7200) return (value / 60).toFixed(value < 600 ? 1 : 0) + " min";
      return (value / 3600).toFixed(1) + " h";
    },
    usd: (value) => (finite(value) ? "$" + (value > 0 && value < 0.01 ? value.toPrecision(2) : value.toFixed(2)) : "–"),
    us: (value) => (finite(value) ? (value >= 1000 ? (value / 1000).toFixed(2) + " ms" : value.toFixed(2) + " µs") : "–"),
    percent: (value) => (finite(value) ? (value * 100).toFixed(value < 0.1 ? 1 : 0) + " %" : "–"),
  };

  /** Verdicts in families: each has one colour everywhere. The order is that of drawing, what matters most comes last. */
  ask.families = ["none", "unsettled", "build", "crash", "wrong", "cheat", "slower", "ok"];
  ask.familyWords = {
    ok: "correct", slower: "correct, too slow to time", build: "not built", crash: "stopped while running", wrong: "wrong result",
    cheat: "cheats", unsettled: "not settled", none: "no verdict",
  };
  const FAMILY = {
    OK: "ok", SLOWER: "slower", DUPLICATE: "none", UNSUPPORTED: "build", PLAN_ERROR: "build", COMPILE_ERROR: "build",
    COMPILE_LIMIT: "build", GATE_VIOLATION: "build", LAUNCH_ERROR: "crash", CRASH: "crash", TIMEOUT: "crash", SANDBOX: "cheat",
    WRONG: "wrong", NONFINITE: "wrong", NONDETERMINISTIC: "wrong", OUT_OF_BOUNDS: "wrong", INPUT_MUTATED: "cheat",
    STALE_OUTPUT: "wrong", TOO_FAST: "cheat", AMBIGUOUS: "unsettled", CANCELLED: "unsettled", HARNESS_FAULT: "unsettled",
  };
  ask.verdicts = Object.keys(FAMILY);
  ask.familyOf = (verdict) => FAMILY[verdict] || "none";

  let colours = {};
  const themed = [];
  /** A colour of the theme by its token's name ("ok" is --ok), as the style sheet says. */
  ask.colour = function (name) {
    if (!(name in colours)) colours[name] = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#888888";
    return colours[name];
  };
  /** [red, green, blue] of a colour written as #rrggbb. */
  ask.rgb = (name) => {
    const text = name.startsWith("#") ? name : ask.colour(name);
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) || 0);
  };
  ask.onTheme = (call) => themed.push(call);
  ask.themeChanged = () => {
    colours = {};
    themed.forEach((call) => call());
  };

  /** The colour of a speed by the logarithm to base 2 of its ratio: 0 is as fast as the baseline, 1 twice as fast. */
  ask.ramp = function (log2) {
    const at = Math.max(-1, Math.min(1, log2));
    const [middle, end] = [ask.rgb("ramp-0"), ask.rgb(at < 0 ? "ramp-slow" : "ramp-fast")];
    return middle.map((value, k) => value + (end[k] - value) * Math.sqrt(Math.abs(at)));
  };

  /** The state of a view, kept in the part of the address after #, so that an address shows what its sender saw. */
  ask.state = {
    get: (key, fallback) => {
      const value = new URLSearchParams(location.hash.slice(1)).get(key);
      return value === null ? fallback : value;
    },
    set: (changes) => {
      const all = new URLSearchParams(location.hash.slice(1));
      for (const [key, value] of Object.entries(changes)) {
        if (value === null || value === "") all.delete(key);
        else all.set(key, value);
      }
      const text = all.toString();
      history.replaceState(null, "", location.pathname + location.search + (text ? "#" + text : ""));
    },
  };

  // An address with another state, typed or followed on the same page, is shown as if it were opened anew.
  window.addEventListener("hashchange", () => location.hash.includes("=") && location.reload());

  /** Hands a text to the person as a file. */
  ask.save = function (name, type, content) {
    const address = URL.createObjectURL(new Blob([content], { type }));
    const link = ask.el("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  /** Lines of comma separated values; what a spreadsheet would take for a formula is quoted as text. */
  ask.csv = (rows) =>
    rows.map((row) => row.map((cell) => {
      let text = typeof cell === "number" ? (finite(cell) ? String(+cell.toPrecision(7)) : "") : String(cell === null || cell === undefined ? "" : cell);
      if (typeof cell === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
      return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    }).join(",")).join("\n") + "\n";
})();
