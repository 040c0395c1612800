/* A step in words: the tooltip of a node, and the panel beside the lineage. The question that led to it comes first. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const known = new Map();

  /** Calls back with the facts of a row's candidate ({question, hypothesis, ...}), asked for once; null where there are none. */
  ask.detailOf = function (row, call) {
    const id = ask.idOf(row);
    const own = ask.report();
    if (!id) return call(null);
    if (own) return call((own.candidates || {})[id] || null);
    if (known.has(id)) return call(known.get(id));
    ask.json("candidate/" + id, (facts) => {
      known.set(id, facts);
      call(facts);
    });
  };

  function marks(row) {
    const flags = ask.data.col.flags[row];
    const words = [[ask.FLAG.seed, "seed"], [ask.FLAG.accepted, "accepted"], [ask.FLAG.best, "on the way to the best"], [ask.FLAG.duplicate, "duplicate"],
      [ask.FLAG.sweep, "sweep of numbers"], [ask.FLAG.finalOk, "verified by a final"], [ask.FLAG.refuted, "refuted by a final"]];
    return words.filter(([flag]) => flags & flag).map(([, word]) => word);
  }

  const chips = (row) => (marks(row).length ? el("p", { class: "marks" }, ...marks(row).map((word) => el("span", { class: "mark-chip" }, word))) : null);

  function headline(row) {
    const { col } = ask.data;
    const verdict = ask.verdictOf(row);
    const speed = col.geomean[row];
    return el("p", { class: "tip-head" },
      el("span", { class: "verdict-name", "data-verdict": verdict || "NONE" }, verdict || (col.flags[row] & ask.FLAG.rejected ? "answer rejected" : "waiting")),
      speed > 0 ? el("strong", {}, ask.format.ratio(speed)) : null,
      col.low[row] > 0 ? el("span", { class: "interval" }, "[" + col.low[row].toFixed(3) + ", " + col.high[row].toFixed(3) + "]") : null);
  }

  function subject(row) {
    const { col } = ask.data;
    return [ask.entryOf(row), ask.nameOf("layers", col.layer[row]), ask.nameOf("moments", col.moment[row]).replaceAll("_", " ")].filter(Boolean).join(" · ");
  }

  /** The question of a row as a quote, its words filled in as soon as they are here. */
  function quote(row) {
    const entry = ask.entryOf(row);
    if (!entry) {
      const seed = ask.data.col.flags[row] & ask.FLAG.seed;
      return el("p", { class: "dim" }, seed ? "A seed: a search starts here, without a question." : "No question was put for this step.");
    }
    const words = el("blockquote", { class: "question small" }, entry);
    ask.detailOf(row, (facts) => {
      const text = facts && ask.questionIn(facts, row);
      if (text) words.textContent = text;
    });
    return words;
  }
  /** The text of the question in a candidate's facts: of this very step, for a candidate may have been proposed more than once. */
  ask.questionIn = function (facts) {
    return typeof facts.question === "string" ? facts.question : facts.question ? facts.question.text : "";
  };

  /** What a person wants to know of a row at a glance. */
  ask.tipOf = function (row) {
    const { col } = ask.data;
    const id = ask.idOf(row);
    return el("div", { class: "tip-body" }, headline(row), quote(row), subject(row) ? el("p", { class: "dim" }, subject(row)) : null,
      el("p", { class: "dim mono" }, ["step " + ask.format.count(col.number[row]), id.slice(0, 10), "island " + col.island[row]].filter(Boolean).join(" · ")),
      chips(row));
  };

  function fact(name, value) {
    return value === null || value === "" ? null : el("div", {}, el("dt", {}, name), el("dd", {}, value));
  }
  const gain = (value) => (Number.isFinite(value) ? (value >= 0 ? "+" : "") + (100 * Math.expm1(value)).toFixed(1) + " %" : null);

  /** How to read the tree and walk through it. */
  function help(open) {
    const keys = [["click", "choose a step"], ["double click", "open its page"], ["← →", "parent, leading child"], ["↑ ↓", "siblings"], ["End", "the best"],
      ["+ − 0", "closer, further, all"], ["wheel, drag", "zoom, move"], ["Shift, Alt", "zoom one way only"]];
    return el("details", { open }, el("summary", {}, "How to read and walk the tree"),
      el("p", {}, "Each dot is a step, to the right of the one it changed. The thick line is the way to the best, the star the best itself; failures stay where they happened."),
      el("dl", { class: "keys" }, ...keys.map(([key, word]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, word)))));
  }

  /** Fills the panel with a row, or with how to use the tree where none is chosen. `kin` is the way to the seed, the row first. */
  ask.kinPanel = function (panel, { row, kin, heirs, choose }) {
    if (row < 0) return panel.replaceChildren(el("h2", {}, "Every step of the search"), help(true));
    const { col } = ask.data;
    const id = ask.idOf(row);
    panel.replaceChildren(...[el("h2", {}, "Step " + ask.format.count(col.number[row])), headline(row), quote(row), el("p", { class: "dim" }, subject(row)), chips(row),
      el("dl", { class: "facts" }, fact("Gain over its parent", gain(col.gain[row])), fact("Predicted, times its parent", col.predicted[row] > 0 ? ask.format.ratio(col.predicted[row]) : null),
        fact("Generation", String(col.depth[row])), fact("Island", String(col.island[row])), fact("Answer took", col.answer_s[row] > 0 ? ask.format.seconds(col.answer_s[row]) : null),
        fact("Evaluation took", col.eval_s[row] > 0 ? ask.format.seconds(col.eval_s[row]) : null), fact("Descendants", ask.format.count(heirs))),
      id ? el("p", {}, el("a", { class: "button", href: ask.candidatePage(id) }, "Open candidate " + id.slice(0, 10))) : null,
      el("h3", {}, kin.length > 1 ? "From the seed, in " + (kin.length - 1) + (kin.length === 2 ? " edit" : " edits") : "A root of the tree"),
      el("ol", { class: "kin" }, ...[...kin].reverse().map((at) => el("li", {}, el("button", { type: "button", "aria-current": at === row ? "step" : null, onclick: () => choose(at) },
        el("i", { class: "dot f-" + ask.familyOf(ask.verdictOf(at)) }), el("span", { class: "kin-name" }, ask.entryOf(at) || (col.flags[at] & ask.FLAG.seed ? "seed" : "step " + col.number[at])),
        el("b", {}, col.geomean[at] > 0 ? ask.format.ratio(col.geomean[at]) : "–"))))), help(false)].filter(Boolean));
  };
})();
