/* Starts what the page has: each <figure data-chart="NAME"> gets its chart, once the rows are here. Loaded last. */
(function () {
  "use strict";
  const ask = window.ask;
  const wanted = [...document.querySelectorAll("[data-chart]")].filter((figure) => ask[figure.dataset.chart]);
  if (!wanted.length && document.documentElement.dataset.mode === "report") return;
  const bodies = wanted.map((figure) => {
    const body = ask.el("div", { class: "chart-body" });
    figure.prepend(body);
    for (const name of ["compact", "goal"]) if (figure.dataset[name] !== undefined) body.dataset[name] = figure.dataset[name];
    return [figure, body];
  });
  ask.load(() => bodies.forEach(([figure, body]) => ask[figure.dataset.chart](body)));
  for (const button of document.querySelectorAll("button[data-svg]")) {
    button.hidden = false;
    button.addEventListener("click", () => ask.save(button.dataset.svg + ".svg", "image/svg+xml", ask.exportSvg(button.dataset.svg)));
  }
})();
