/* Archive: islands and the layers that were asked about, each cell with the best that came of it. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const AGAIN_MS = 5000;

  ask.archive = function (mount) {
    let facts = null;
    let map = null;
    const at = (row, column) => facts.cells.find((one) => one.island === facts.islands[row].island && one.layer === facts.layers[column]);
    function model() {
      const cell = (row, column) => {
        const found = at(row, column);
        return found ? { value: found.best_geomean, low: NaN, high: NaN, note: found.best_geomean > 0 ? found.best_geomean.toFixed(3) : found.steps + " tried" } : null;
      };
      const tip = (row, column) => {
        const found = at(row, column);
        return el("div", { class: "tip-body" }, el("p", { class: "tip-head" }, el("strong", {}, ask.format.ratio(found.best_geomean)), el("span", { class: "dim" }, "the best here")),
          el("p", {}, `Island ${found.island}, ${found.layer === "seed" ? "seeds and sweeps, which no question led to" : "asked about " + found.layer}`),
          el("p", { class: "dim" }, `${ask.format.count(found.steps)} steps, ${ask.format.count(found.right)} right, ${ask.format.count(found.accepted)} accepted`));
      };
      const open = (column, row) => {
        const found = at(row, column);
        if (found && found.best_id) location.assign(ask.candidatePage(found.best_id.slice(0, 16)));
      };
      return { rows: facts.islands.map((one) => "island " + one.island), columns: facts.layers, cell, tip, open };
    }
    const csv = () => ask.csv([["island", "layer", "steps", "right", "accepted", "best", "speedup", "low"],
      ...facts.cells.map((one) => [one.island, one.layer, one.steps, one.right, one.accepted, one.best_id || "", one.best_geomean, one.best_low])]);
    function show(found) {
      facts = found;
      if (!facts || !facts.islands.length) return mount.replaceChildren(el("p", { class: "empty" }, "The archive is empty. The seeds fill its first cells."));
      if (map) return map.update();
      map = ask.heat(mount, { name: "archive", title: "The best of each island and layer asked about. Arrow keys walk, Enter opens the best.", left: 90,
        xTitle: "layer that the question was about", model, csv });
    }
    ask.json("archive", show);
    let due = 0;
    ask.onchange(() => {
      clearTimeout(due);
      due = setTimeout(() => ask.json("archive", show), AGAIN_MS);
    });
  };
})();
