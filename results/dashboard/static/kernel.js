/* A kernel in a written report: its source, put together from the changes of its line, and the page of one that has none of its own. */
(function () {
  "use strict";
  const ask = window.ask;
  const el = ask.el;
  const own = ask.report();
  if (!own || !own.candidates) return;

  /** The source of a kernel, or null where the report doesn't hold its whole line: the nearest whole text, then change after change. */
  function sourceOf(id) {
    const changes = [];
    let at = id;
    while (own.candidates[at] && own.candidates[at].source === undefined) {
      changes.push(own.candidates[at].delta);
      at = own.candidates[at].parent;
    }
    if (!own.candidates[at]) return null;
    return changes.reverse().reduce((text, change) => {
      const before = text.split("\n");
      return change.flatMap((part) => (typeof part[0] === "number" ? before.slice(part[0], part[1]) : part)).join("\n");
    }, own.candidates[at].source);
  }

  /** Lines with what became of each: the change says which lines of the parent stay. */
  function changeOf(one) {
    const before = sourceOf(one.parent).split("\n");
    const lines = [];
    let at = 0;
    const gone = (until) => {
      for (; at < until; at++) lines.push(["gone", before[at]]);
    };
    for (const part of one.delta) {
      if (typeof part[0] !== "number") lines.push(...part.map((text) => ["new", text]));
      else {
        gone(part[0]);
        for (; at < part[1]; at++) lines.push(["same", before[at]]);
      }
    }
    gone(before.length);
    return lines;
  }
  const CONTEXT = 3;
  const SIGN = { same: "  ", gone: "- ", new: "+ " };
  function difference(lines, language) {
    const near = (k) => lines.slice(Math.max(0, k - CONTEXT), k + CONTEXT + 1).some(([kind]) => kind !== "same");
    const code = el("code", { "data-language": language });
    let hidden = false;
    lines.forEach(([kind, text], k) => {
      if (!near(k)) {
        if (!hidden) code.append(el("span", { class: "gap" }, "…\n"));
        hidden = true;
        return;
      }
      hidden = false;
      code.append(el("span", { class: "line " + kind }, el("span", { class: "no" }, SIGN[kind]), el("span", { "data-line": true }, text), "\n"));
    });
    return el("pre", { class: "diff", tabindex: "0" }, code);
  }
  function whole(id, language) {
    const text = sourceOf(id);
    if (text === null) return el("p", { class: "empty" }, "This report doesn't hold the kernel that this one changed.");
    return el("pre", { class: "source", tabindex: "0" }, el("code", { "data-language": language }, ...text.split("\n").map((line, k) =>
      el("span", { class: "line" }, el("span", { class: "no" }, String(k + 1).padStart(5) + " "), el("span", { "data-line": true }, line), "\n"))));
  }

  function section(title, ...nodes) {
    return el("section", {}, el("h2", {}, title), ...nodes);
  }
  function kernelLink(id) {
    return el("a", { class: "id", href: ask.candidatePage(id) }, id.slice(0, 10));
  }
  function show(place, id) {
    const one = own.candidates[id];
    if (!one) return place.replaceChildren(el("h1", {}, "Kernel"), el("p", { class: "empty" }, "This report holds no kernel whose id is " + (id || "empty") + "."));
    document.title = "Kernel " + id.slice(0, 10);
    const verdict = one.verdict || "";
    place.replaceChildren(
      el("h1", {}, "Kernel ", el("span", { class: "id" }, id.slice(0, 10)), " ", el("span", { class: "verdict-name", "data-verdict": verdict || "NONE" }, verdict || "waiting")),
      el("p", { class: "lead" }, one.geomean ? el("strong", {}, ask.format.ratio(one.geomean)) : "", one.geomean ? " [" + ask.format.interval(one.low, one.high) + "]. " : "",
        `Step ${one.number} (${one.origin}), ${one.depth} edits from its seed.`),
      one.question ? section("The question", el("blockquote", { class: "question" }, one.question), el("p", { class: "dim" }, "Question ", el("code", {}, one.entry_id || ""))) : "",
      one.hypothesis ? section("The answer", el("p", { class: "answered" }, el("q", { class: "hypothesis" }, one.hypothesis))) : "",
      one.message ? section("In the search", el("p", {}, (one.stage ? "At " + one.stage + ": " : "") + one.message)) : "",
      one.delta && sourceOf(one.parent) !== null ? section("Change from its parent", el("p", {}, kernelLink(one.parent)), difference(changeOf(one), one.language)) : "",
      section("Source", whole(id, one.language)));
  }

  const place = document.querySelector("[data-candidate]");
  if (place) {
    show(place, location.hash.slice(1, 17));
    window.addEventListener("hashchange", () => location.reload());
  }
  for (const node of document.querySelectorAll("[data-source]")) node.replaceChildren(whole(node.dataset.source, node.dataset.language));
})();
