/* Replay: one step of the way to the best at a time, by buttons or arrow keys; the step is kept in the address. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;

  function start() {
    const steps = [...document.querySelectorAll("[data-replay] > [data-step]")];
    if (steps.length < 2) return;
    let at = Math.max(0, Math.min(steps.length - 1, Number(ask.state.get("at", 1)) - 1 || 0));
    const back = el("button", { type: "button", onclick: () => go(at - 1) }, "← Earlier");
    const on = el("button", { type: "button", onclick: () => go(at + 1) }, "Later →");
    const all = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
      const whole = all.getAttribute("aria-pressed") !== "true";
      all.setAttribute("aria-pressed", String(whole));
      show(whole);
    } }, "All steps");
    const slider = el("input", { type: "range", min: 1, max: steps.length, value: at + 1, "aria-label": "Step of the way to the best", oninput: () => go(Number(slider.value) - 1) });
    const said = el("output", { class: "replay-at" });
    const bar = el("div", { class: "replay-bar", role: "group", "aria-label": "Steps" }, back, slider, on, said, all);
    steps[0].before(bar);

    function show(whole) {
      steps.forEach((step, k) => (step.hidden = !whole && k !== at));
      back.disabled = at === 0;
      on.disabled = at === steps.length - 1;
      slider.value = at + 1;
      said.textContent = at + 1 + " of " + steps.length;
      window.evolveState.selected = at + 1;
    }
    function go(to) {
      at = Math.max(0, Math.min(steps.length - 1, to));
      ask.state.set({ at: at ? at + 1 : null });
      all.setAttribute("aria-pressed", "false");
      show(false);
    }
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input, textarea, select, button") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowLeft") go(at - 1);
      else if (event.key === "ArrowRight") go(at + 1);
      else return;
      event.preventDefault();
    });
    show(false);
  }
  start();
})();
