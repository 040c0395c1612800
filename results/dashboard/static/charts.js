/* Starts what the page has: each <figure data-chart="NAME"> gets its chart, once its data are here; keeps the tables around it fresh.
   Loaded last. */
(function () {
  "use strict";
  const ask = window.ask;
  const AGAIN_MS = 4000;
  const SHARE = 20; // a page that took long to make isn't asked for again before this many times as long
  const WITH_ROWS = new Set(["progress", "lineage"]);
  const figures = [...document.querySelectorAll("[data-chart]")].filter((figure) => ask[figure.dataset.chart]);
  const bodies = figures.map((figure) => {
    const body = ask.el("div", { class: "chart-body" });
    figure.prepend(body);
    for (const name of ["compact", "goal", "chosen"]) if (figure.dataset[name] !== undefined) body.dataset[name] = figure.dataset[name];
    return body;
  });

  /** Puts the page's new words and tables into the old place; figures stay, with what is chosen and where they are zoomed to. */
  function swap(fresh) {
    const main = document.querySelector("main");
    const next = fresh && fresh.querySelector("main");
    if (!next) return;
    const active = document.activeElement;
    for (const figure of figures) {
      const place = [...next.querySelectorAll("[data-chart]")].find((one) => one.dataset.chart === figure.dataset.chart);
      if (place) place.replaceWith(figure);
    }
    main.replaceChildren(...next.childNodes);
    if (figures.some((figure) => figure.contains(active))) active.focus({ preventScroll: true });
    if (ask.tables) ask.tables();
    if (ask.code) ask.code();
  }
  /** Whether someone is at work in the page's words: reading a selection, filling a field in, walking by keys. */
  function inUse() {
    const main = document.querySelector("main");
    const active = document.activeElement;
    const busy = active !== main && main.contains(active) && !active.closest("[data-chart]");
    return busy || String(window.getSelection()).length > 0 || main.querySelector("details[open], .replay-bar") !== null;
  }
  let due = 0;
  let wait = AGAIN_MS;
  function later() {
    if (due) return;
    due = setTimeout(() => {
      due = 0;
      if (document.hidden || inUse()) return later();
      const began = performance.now();
      const request = new XMLHttpRequest();
      request.open("GET", location.pathname + location.search);
      request.responseType = "document";
      request.onload = () => {
        wait = Math.max(AGAIN_MS, SHARE * (performance.now() - began));
        if (request.status === 200) swap(request.response);
      };
      request.send();
    }, wait);
  }

  if (figures.length || document.documentElement.dataset.mode === "live") {
    ask.load(() => {
      figures.forEach((figure, at) => ask[figure.dataset.chart](bodies[at]));
      }, figures.some((figure) => WITH_ROWS.has(figure.dataset.chart)));
    ask.onchange(later);
  }
})();
