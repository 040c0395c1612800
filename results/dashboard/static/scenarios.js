/* Scenarios: the best candidates in every scenario, against the opponent that is chosen. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const AGAIN_MS = 5000;

  ask.scenarios = function (mount) {
    let facts = null;
    let versus = "";
    let map = null;

    function model() {
      const cells = facts.cells[versus] || { ratio: [], low: [], high: [] };
      const names = facts.scenarios.map((one) => one.name);
      const own = versus === facts.opponents[0];
      const top = own ? ["all scenarios, geometric mean"] : [];
      const cell = (row, column) => {
        if (row < top.length) {
          const one = facts.candidates[column];
          return { value: one.geomean, low: one.low, high: one.high };
        }
        const at = row - top.length;
        const value = cells.ratio[column] ? cells.ratio[column][at] : null;
        return value === null || value === undefined ? null : { value, low: cells.low[column][at], high: cells.high[column][at] };
      };
      const tip = (row, column) => {
        const one = facts.candidates[column];
        const found = cell(row, column);
        const at = row - top.length;
        const scenario = facts.scenarios[at];
        const took = at >= 0 ? facts.candidate_us[column][at] : null;
        const floor = at >= 0 ? facts.floors_us[at] : null;
        return el("div", { class: "tip-body" },
          el("p", { class: "tip-head" }, el("strong", {}, ask.format.ratio(found.value)), el("span", { class: "interval" }, "[" + found.low.toFixed(3) + ", " + found.high.toFixed(3) + "]")),
          el("p", {}, at < 0 ? "over all scenarios" : scenario.name, ", over ", versus),
          scenario ? el("p", { class: "dim" }, Object.entries(scenario.symbols).map(([key, value]) => key + " = " + value).join(", ")) : null,
          took > 0 ? el("p", { class: "dim" }, ask.format.us(took) + " an execution; the device's bound is " + ask.format.us(floor) + " (" + ask.format.percent(floor / took) + " of it reached)") : null,
          found.low < 1 && found.high > 1 ? el("p", { class: "dim" }, "Undecided: the interval holds 1.") : null,
          el("p", { class: "dim mono" }, "rank " + (column + 1) + " · " + one.id.slice(0, 10) + " · step " + ask.format.count(one.number)));
      };
      return {
        rows: [...top, ...names], columns: facts.candidates.map((one, at) => String(at + 1)), rule: top.length, cell, tip,
        open: (column) => facts.candidates[column] && location.assign(ask.candidatePage(facts.candidates[column].id.slice(0, 16))),
      };
    }
    function csv() {
      const rows = [["opponent", "scenario", "candidate", "ratio", "low", "high"]];
      for (const opponent of facts.opponents) facts.candidates.forEach((one, column) => facts.scenarios.forEach((scenario, at) => {
        const cells = facts.cells[opponent];
        if (cells.ratio[column][at] !== null) rows.push([opponent, scenario.name, one.id.slice(0, 16), cells.ratio[column][at], cells.low[column][at], cells.high[column][at]]);
      }));
      return ask.csv(rows);
    }

    function show(found) {
      facts = found;
      if (!facts || !facts.candidates.length) {
        mount.replaceChildren(el("p", { class: "empty" }, "No candidate was timed yet. As soon as one is right in every scenario and raced against the baseline, its row of ratios stands here."));
        return;
      }
      if (!facts.opponents.includes(versus)) versus = facts.opponents.includes(ask.state.get("vs", "")) ? ask.state.get("vs", "") : facts.opponents[0];
      if (map) return map.update();
      const longest = Math.max(...facts.scenarios.map((one) => one.name.length), 28);
      map = ask.heat(mount, { name: "scenarios", title: "Speed of the best candidates in each scenario. Arrow keys walk, Enter opens the candidate.",
        left: Math.min(300, longest * 6.6 + 20), xTitle: "candidates by rank, the best left", model, csv });
      map.figure.tools.append(el("span", { class: "dim" }, "○ undecided: the interval holds 1"));
      if (facts.opponents.length > 1) map.figure.tools.prepend(ask.choice("Against", facts.opponents.map((one) => [one, one]), versus, (value) => {
        versus = value;
        ask.state.set({ vs: value === facts.opponents[0] ? null : value });
        map.update();
      }));
    }
    ask.json("scenarios", show);
    let due = 0;
    ask.onchange(() => {
      clearTimeout(due);
      due = setTimeout(() => ask.json("scenarios", show), AGAIN_MS);
    });
  };
})();
